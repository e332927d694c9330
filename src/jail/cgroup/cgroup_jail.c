/* The groups of one jail, from made to removed or used again. */

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "jail/cgroup/cgroup_internal.h"
#include "jail/wire/plan.h"

/* Charged to a group whose processes are gone: a few cached pages of programs. More is removed with
 * the group, so that the next jail has all of its memory to itself. */
enum { LEFT_MAX = 8 << 20 };

int cgroup_set(const struct cgroup_host *host, enum cgroup_slot slot, const struct cgroup *cgroup,
               const char *file, const char *text, struct err *err)
{
    char path[CGROUP_NAME_SIZE + 64];
    (void)snprintf(path, sizeof path, "%s/%s", cgroup->name, file);
    return cgroup_write_text(cgroup_slot_fd(host, slot), path, text, err);
}

int cgroup_open_file(const struct cgroup_host *host, struct cgroup *cgroup, enum cgroup_file which,
                     enum cgroup_slot slot, const char *name, int flags)
{
    char path[CGROUP_NAME_SIZE + 64];
    if (cgroup->files[which] > 0)
        return cgroup->files[which];
    (void)snprintf(path, sizeof path, "%s/%s", cgroup->name, name);
    int fd = SYS(openat(cgroup_slot_fd(host, slot), path, flags | O_CLOEXEC));
    if (fd <= 0)
        return -1;
    cgroup->files[which] = fd;
    return fd;
}

static void close_files(struct cgroup *cgroup)
{
    for (int i = 0; i < CGROUP_FILES; i++) {
        if (cgroup->files[i] > 0)
            fd_close(&cgroup->files[i]);
        cgroup->files[i] = 0;
    }
}

static int make_dirs(struct cgroup_host *host, struct cgroup *cgroup, struct err *err)
{
    bool any = false;
    (void)snprintf(cgroup->name, sizeof cgroup->name, "j%u", host->next_name++);
    for (int slot = 0; slot < CG_COUNT; slot++) {
        if (!cgroup_is_used(host, slot))
            continue;
        any = true;
        if (SYS(mkdirat(host->fds[slot], cgroup->name, 0755)) < 0)
            return err_sys(err, errno, "make the %s group", cgroup_slot_names[slot]);
    }
    if (!any)
        cgroup->name[0] = '\0';
    return 0;
}

static int make_new(struct cgroup_host *host, const struct jail_limits *limits,
                    struct cgroup *ret_cgroup, struct err *err)
{
    struct cgroup cgroup = {0};
    if (make_dirs(host, &cgroup, err) < 0 || cgroup_limit(host, &cgroup, limits, err) < 0) {
        (void)cgroup_remove(host, &cgroup);
        return -1;
    }
    if (host->fds[CG_UNIFIED] >= 0) {
        struct err unknown; /* to older kernels */
        (void)!cgroup_set(host, CG_UNIFIED, &cgroup, "cgroup.max.depth", "2", &unknown);
    }
    cgroup_make_parts(host, &cgroup);
    *ret_cgroup = cgroup;
    return 0;
}

static bool same_limits(const struct cgroup *cgroup, const struct jail_limits *limits)
{
    return cgroup->memory_bytes == limits->memory_bytes && cgroup->pids == limits->pids &&
           cgroup->cpu_milli == limits->cpu_milli;
}

/* The newest of those that fit as they are, else the newest. */
static bool take_from_stock(struct cgroup_host *host, const struct jail_limits *limits,
                            struct cgroup *ret_cgroup)
{
    if (host->stock_count == 0)
        return false;
    size_t best = host->stock_count - 1;
    for (size_t i = host->stock_count; i-- > 0;)
        if (same_limits(&host->stock[i], limits)) {
            best = i;
            break;
        }
    *ret_cgroup = host->stock[best];
    host->stock[best] = host->stock[--host->stock_count];
    return true;
}

int cgroup_make(struct cgroup_host *host, const struct jail_limits *limits,
                struct cgroup *ret_cgroup, struct err *err)
{
    struct cgroup cgroup;
    if (!take_from_stock(host, limits, &cgroup))
        return make_new(host, limits, ret_cgroup, err);
    if (cgroup_limit(host, &cgroup, limits, err) < 0) {
        (void)cgroup_remove(host, &cgroup);
        return -1;
    }
    *ret_cgroup = cgroup;
    return 0;
}

int cgroup_open_unified(const struct cgroup_host *host, struct cgroup *cgroup)
{
    if (host->fds[CG_UNIFIED] < 0 || cgroup->name[0] == '\0')
        return -1;
    return cgroup_open_file(host, cgroup, CGROUP_UNIFIED_DIR, CG_UNIFIED, "",
                            O_RDONLY | O_DIRECTORY);
}

int cgroup_entries(const struct cgroup_host *host, struct cgroup *cgroup, bool unified_too,
                   struct cgroup_entries *ret_entries, struct err *err)
{
    struct cgroup_entries entries = {0};
    for (int slot = 0; slot < CG_COUNT && cgroup->name[0] != '\0'; slot++) {
        if (!cgroup_is_used(host, slot) || (slot == CG_UNIFIED && !unified_too))
            continue;
        int fd = cgroup_open_file(host, cgroup, (enum cgroup_file)(CGROUP_PROCS + slot),
                                  (enum cgroup_slot)slot,
                                  slot == CG_UNIFIED ? "cgroup.procs" : "tasks", O_WRONLY);
        if (fd < 0)
            return err_sys(err, errno, "open the %s group", cgroup_slot_names[slot]);
        entries.fds[entries.count++] = fd;
    }
    *ret_entries = entries;
    return 0;
}

/* The number behind `key` in a flat file, or the whole file as a number when `key` is NULL. */
static int64_t find_number(struct str text, const char *key)
{
    struct str line, word;
    int64_t number;
    while (str_split(&text, '\n', &line)) {
        if (key != NULL && (!str_split(&line, ' ', &word) || !str_eq(word, str_of(key))))
            continue;
        return str_to_i64(str_trim(line), 0, INT64_MAX, &number) ? number : -1;
    }
    return -1;
}

/* A request waits for these numbers: one read into a buffer on the stack, no allocation. */
int64_t cgroup_read_number(int fd, const char *key)
{
    char text[1024];
    ssize_t got = fd < 0 ? -1 : SYS(pread(fd, text, sizeof text, 0));
    return got <= 0 ? -1 : find_number(str_n(text, (size_t)got), key);
}

/* Kills of a part are counted there. They happen at its limit, and the highest use of the jail
 * tells whether that can have been reached: seldom is there anything to add up. */
static int64_t add_part_kills(const struct cgroup_host *host, const struct cgroup *cgroup,
                              int64_t kills, int64_t peak)
{
    if (!cgroup->has_parts || kills < 0 ||
        (cgroup->memory_bytes > 0 && peak >= 0 && peak < cgroup->memory_bytes / 4 * 3))
        return kills;
    return kills + cgroup_count_part_kills(host, cgroup);
}

void cgroup_read_stats(const struct cgroup_host *host, struct cgroup *cgroup,
                       struct cgroup_stats *ret_stats)
{
    bool v2 = host->v2[CG_MEMORY];
    const struct {
        enum cgroup_file file;
        enum cgroup_slot slot;
        const char *name, *key;
    } rows[] = {
        {CGROUP_OOM_KILLS, CG_MEMORY, v2 ? "memory.events" : "memory.oom_control", "oom_kill"},
        {CGROUP_PEAK, CG_MEMORY, v2 ? "memory.peak" : "memory.max_usage_in_bytes", NULL},
        {CGROUP_NOW, CG_MEMORY, v2 ? "memory.current" : "memory.usage_in_bytes", NULL},
        {CGROUP_REFUSED, CG_PIDS, "pids.events", "max"},
    };
    int64_t numbers[countof(rows)] = {-1, -1, -1, -1};
    for (size_t i = 0; i < countof(rows) && cgroup->name[0] != '\0'; i++) {
        if (!cgroup_has(host, rows[i].slot))
            continue;
        /* The highest use is set back by writing. */
        int flags = rows[i].file == CGROUP_PEAK && !v2 ? O_RDWR : O_RDONLY;
        numbers[i] = cgroup_read_number(
            cgroup_open_file(host, cgroup, rows[i].file, rows[i].slot, rows[i].name, flags),
            rows[i].key);
    }
    numbers[0] = add_part_kills(host, cgroup, numbers[0], numbers[1]);
    *ret_stats = (struct cgroup_stats){
        .oom_kills = numbers[0] < 0 ? -1 : numbers[0] - cgroup->old_oom_kills,
        .memory_peak = numbers[1],
        .memory_now = numbers[2],
        .pids_refused = numbers[3] < 0 ? -1 : numbers[3] - cgroup->old_refused,
    };
}

bool cgroup_remove(struct cgroup_host *host, struct cgroup *cgroup)
{
    bool gone = true;
    if (cgroup->name[0] == '\0')
        return true;
    close_files(cgroup);
    if (cgroup->has_parts)
        cgroup_remove_parts(host, cgroup);
    for (int slot = 0; slot < CG_COUNT; slot++)
        if (host->fds[slot] >= 0 && unlinkat(host->fds[slot], cgroup->name, AT_REMOVEDIR) < 0 &&
            errno != ENOENT)
            gone = false;
    if (gone)
        cgroup->name[0] = '\0';
    return gone;
}

static bool can_serve_again(const struct cgroup_host *host)
{
    return !host->v2[CG_MEMORY] && host->fds[CG_UNIFIED] >= 0;
}

/* Whether the next jail in it could tell it from a new one by what it is allowed. */
static bool is_like_new(const struct cgroup_host *host, struct cgroup *cgroup,
                        const struct cgroup_stats *last)
{
    /* The counters of parts are not set back. */
    if (cgroup->is_spoilt || !can_serve_again(host) || (cgroup->has_parts && last->oom_kills > 0))
        return false;
    int events =
        cgroup_open_file(host, cgroup, CGROUP_EVENTS, CG_UNIFIED, "cgroup.events", O_RDONLY);
    if (cgroup_read_number(events, "populated") != 0)
        return false;
    if (!cgroup_has(host, CG_MEMORY))
        return true;
    int peak = cgroup->files[CGROUP_PEAK];
    return last->memory_now >= 0 && last->memory_now <= LEFT_MAX && peak > 0 &&
           SYS(pwrite(peak, "0", 1, 0)) == 1;
}

bool cgroup_retire(struct cgroup_host *host, struct cgroup *cgroup, const struct cgroup_stats *last,
                   size_t keep)
{
    if (cgroup->name[0] == '\0')
        return true;
    if (host->stock_count >= MIN(keep, (size_t)CGROUP_STOCK_MAX) ||
        !is_like_new(host, cgroup, last))
        return cgroup_remove(host, cgroup);
    cgroup->old_oom_kills += MAX(last->oom_kills, (int64_t)0);
    cgroup->old_refused += MAX(last->pids_refused, (int64_t)0);
    host->stock[host->stock_count++] = *cgroup;
    *cgroup = (struct cgroup){0};
    return true;
}

bool cgroup_stock(struct cgroup_host *host, const struct jail_limits *limits, size_t count,
                  size_t keep)
{
    struct err err;
    size_t most = MIN(MAX(count, keep), (size_t)CGROUP_STOCK_MAX);
    if (host->stock_count > most) {
        bool gone = cgroup_remove(host, &host->stock[host->stock_count - 1]);
        host->stock_count -= gone;
        return gone;
    }
    if (host->stock_count >= count || !can_serve_again(host))
        return false;
    struct cgroup cgroup;
    if (make_new(host, limits, &cgroup, &err) < 0 || cgroup.name[0] == '\0')
        return false;
    host->stock[host->stock_count++] = cgroup;
    return true;
}
