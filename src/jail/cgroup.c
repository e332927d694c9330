#include "jail/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/defended.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/sys.h"
#include "jail/plan.h"

enum { CPU_PERIOD_US = 100000, TEXT_MAX = 1 << 20 };

static const char *const slot_names[CG_COUNT] = {
    "memory", "pids", "cpu", "freezer", "unified",
};

static int read_text(int dir_fd, const char *path, struct buf *out, struct err *err)
{
    AUTO_CLOSE int fd = SYS(openat(dir_fd, path, O_RDONLY | O_CLOEXEC));
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", path);
    return buf_read_all(out, fd, err);
}

static int write_text(int dir_fd, const char *path, const char *text, struct err *err)
{
    AUTO_CLOSE int fd = SYS(openat(dir_fd, path, O_WRONLY | O_CLOEXEC));
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", path);
    if (SYS(write(fd, text, strlen(text))) < 0)
        return err_sys(err, errno, "write '%s' to '%s'", text, path);
    return 0;
}

static bool word_in_file(int dir_fd, const char *path, const char *word)
{
    AUTO_BUF struct buf text = buf_with_limit(TEXT_MAX);
    struct err err;
    if (read_text(dir_fd, path, &text, &err) < 0)
        return false;
    struct str rest = str_trim(buf_str(&text)), part;
    while (str_split(&rest, ' ', &part))
        if (str_eq(part, str_of(word)))
            return true;
    return false;
}

/* Removes the groups in `fd`, all of whose processes died with their maker. */
static void remove_groups(int fd)
{
    DIR *dir = fdopendir(fcntl(fd, F_DUPFD_CLOEXEC, 3));
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (entry->d_type == DT_DIR && entry->d_name[0] == 'j')
            (void)unlinkat(fd, entry->d_name, AT_REMOVEDIR);
    if (dir != NULL)
        (void)closedir(dir);
}

/* Corners whose makers were killed: a living one holds a lock on its corner. A young corner may
 * belong to a maker that has not come to locking it yet. */
static void reclaim(int parent)
{
    enum { YOUNG_S = 10 };
    DIR *dir = fdopendir(fcntl(parent, F_DUPFD_CLOEXEC, 3));
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        struct stat st;
        if (strncmp(entry->d_name, "sandglass-", 10) != 0)
            continue;
        AUTO_CLOSE int fd = openat(parent, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0 || time(NULL) - st.st_ctime < YOUNG_S ||
            flock(fd, LOCK_EX | LOCK_NB) < 0)
            continue;
        remove_groups(fd);
        (void)unlinkat(parent, entry->d_name, AT_REMOVEDIR);
    }
    if (dir != NULL)
        (void)closedir(dir);
}

static void say_why(struct cgroup_host *host, enum cgroup_slot slot, const char *where,
                    const char *reason)
{
    char text[sizeof host->why[slot]];
    (void)snprintf(text, sizeof text, "%.50s: %.40s", where, reason);
    memcpy(host->why[slot], text, sizeof text);
}

/* Makes our corner below the place where this process sits. */
static int open_corner(struct cgroup_host *host, enum cgroup_slot slot)
{
    const char *dir = host->layout.slots[slot].dir;
    AUTO_CLOSE int here = SYS(open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (here < 0 || (SYS(mkdirat(here, host->name, 0755)) < 0 && errno != EEXIST)) {
        say_why(host, slot, dir, strerror(errno));
        return -1;
    }
    int fd = SYS(openat(here, host->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd >= 0)
        (void)flock(fd, LOCK_EX | LOCK_NB);
    reclaim(here);
    if (fd < 0)
        say_why(host, slot, dir, strerror(errno));
    else
        host->parents[slot] = fd_take(&here); /* paths mean nothing once we live elsewhere */
    return fd;
}

/* A v2 group with members cannot hand controllers down: this process moves into a leaf first. */
static void leave_for_leaf(struct cgroup_host *host, int here)
{
    struct err err;
    char path[CGROUP_NAME_SIZE + 32];
    if (faccessat(here, "cgroup.type", F_OK, 0) < 0)
        return; /* the root group, which may have members */
    (void)snprintf(path, sizeof path, "%s-maker", host->name);
    if (SYS(mkdirat(here, path, 0755)) < 0 && errno != EEXIST)
        return;
    (void)snprintf(path, sizeof path, "%s-maker/cgroup.procs", host->name);
    (void)write_text(here, path, "0", &err);
}

static void enable_v2(struct cgroup_host *host, enum cgroup_slot slot)
{
    const char *dir = host->layout.slots[CG_UNIFIED].dir;
    const char *name = slot_names[slot];
    char word[16];
    struct err err = {0};
    AUTO_CLOSE int here = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (here < 0 || host->fds[CG_UNIFIED] < 0 || !word_in_file(here, "cgroup.controllers", name)) {
        say_why(host, slot, dir, "no hierarchy of this host offers it");
        return;
    }
    (void)snprintf(word, sizeof word, "+%s", name);
    if (write_text(here, "cgroup.subtree_control", word, &err) < 0) {
        leave_for_leaf(host, here);
        if (write_text(here, "cgroup.subtree_control", word, &err) < 0)
            goto refused;
    }
    if (write_text(host->fds[CG_UNIFIED], "cgroup.subtree_control", word, &err) < 0)
        goto refused;
    host->v2[slot] = true;
    return;
refused:
    say_why(host, slot, "not delegated", err.msg);
}

static int read_layout(struct cgroup_layout *layout, struct err *err)
{
    AUTO_BUF struct buf self = buf_with_limit(TEXT_MAX);
    AUTO_BUF struct buf mounts = buf_with_limit(TEXT_MAX);
    if (read_text(AT_FDCWD, "/proc/self/cgroup", &self, err) < 0 ||
        read_text(AT_FDCWD, "/proc/self/mountinfo", &mounts, err) < 0)
        return -1;
    cgroup_find(buf_str(&self), buf_str(&mounts), layout);
    return 0;
}

int cgroup_host_open(struct cgroup_host *host, struct err *err)
{
    *host = (struct cgroup_host){0};
    for (int slot = 0; slot < CG_COUNT; slot++)
        host->fds[slot] = host->parents[slot] = -1;
    char id[ID_SIZE];
    id_new(id);
    (void)snprintf(host->name, sizeof host->name, "sandglass-%.12s", id);
    if (read_layout(&host->layout, err) < 0)
        return -1;
    if (host->layout.slots[CG_UNIFIED].version == 2)
        host->fds[CG_UNIFIED] = open_corner(host, CG_UNIFIED);
    for (int slot = 0; slot < CG_UNIFIED; slot++) {
        int version = host->layout.slots[slot].version;
        if (version == 1)
            host->fds[slot] = open_corner(host, (enum cgroup_slot)slot);
        else if (version == 2 && slot == CG_FREEZER)
            host->v2[slot] = host->fds[CG_UNIFIED] >= 0;
        else if (version == 2)
            enable_v2(host, (enum cgroup_slot)slot);
        else
            say_why(host, (enum cgroup_slot)slot, slot_names[slot], "no such controller");
    }
    return 0;
}

void cgroup_host_close(struct cgroup_host *host)
{
    for (int slot = 0; slot < CG_COUNT; slot++) {
        if (host->fds[slot] < 0)
            continue;
        fd_close(&host->fds[slot]);
        (void)unlinkat(host->parents[slot], host->name, AT_REMOVEDIR);
        fd_close(&host->parents[slot]);
    }
}

bool cgroup_has(const struct cgroup_host *host, enum cgroup_slot slot)
{
    return host->fds[slot] >= 0 || host->v2[slot];
}

static int slot_fd(const struct cgroup_host *host, enum cgroup_slot slot)
{
    return host->v2[slot] ? host->fds[CG_UNIFIED] : host->fds[slot];
}

/* Writes one file of one jail's group. */
static int set(struct cgroup_host *host, enum cgroup_slot slot, const struct cgroup *cgroup,
               const char *file, const char *text, struct err *err)
{
    char path[CGROUP_NAME_SIZE + 64];
    (void)snprintf(path, sizeof path, "%s/%s", cgroup->name, file);
    return write_text(slot_fd(host, slot), path, text, err);
}

/* For files that only some kernels have and that take nothing away when missing. */
static int set_if_there(struct cgroup_host *host, enum cgroup_slot slot,
                        const struct cgroup *cgroup, const char *file, const char *text,
                        struct err *err)
{
    struct err inner = {0};
    if (set(host, slot, cgroup, file, text, &inner) == 0 || inner.sys == ENOENT)
        return 0;
    *err = inner;
    return -1;
}

static int need(const struct cgroup_host *host, enum cgroup_slot slot, struct err *err)
{
    if (cgroup_has(host, slot))
        return 0;
    return err_set(err, ERR_UNSUPPORTED,
                   "this host cannot limit %s (%s); switch that limit off by name to go without",
                   slot_names[slot], host->why[slot]);
}

static int limit_memory(struct cgroup_host *host, const struct cgroup *cgroup, int64_t bytes,
                        struct err *err)
{
    if (!DEFENDED(LIMIT_MEMORY))
        return 0;
    if (bytes == JAIL_UNLIMITED && !cgroup_has(host, CG_MEMORY))
        return 0;
    if (need(host, CG_MEMORY, err) < 0)
        return -1;
    char text[32], high[32];
    bool off = bytes == JAIL_UNLIMITED;
    (void)snprintf(text, sizeof text, "%lld", (long long)bytes);
    (void)snprintf(high, sizeof high, "%lld", (long long)(bytes / 10 * 9));
    if (host->v2[CG_MEMORY]) {
        if (set(host, CG_MEMORY, cgroup, "memory.max", off ? "max" : text, err) < 0 ||
            set(host, CG_MEMORY, cgroup, "memory.high", off ? "max" : high, err) < 0 ||
            set_if_there(host, CG_MEMORY, cgroup, "memory.swap.max", "0", err) < 0)
            return -1;
        return set_if_there(host, CG_MEMORY, cgroup, "memory.oom.group", "1", err);
    }
    if (off)
        return 0; /* -1 is what a new v1 group starts with */
    if (set(host, CG_MEMORY, cgroup, "memory.limit_in_bytes", text, err) < 0 ||
        set_if_there(host, CG_MEMORY, cgroup, "memory.memsw.limit_in_bytes", text, err) < 0)
        return -1;
    return set_if_there(host, CG_MEMORY, cgroup, "memory.swappiness", "0", err);
}

static int limit_pids(struct cgroup_host *host, const struct cgroup *cgroup, int64_t pids,
                      struct err *err)
{
    /* RLIMIT_NPROC counts per user namespace and stands in where there is no controller. */
    if (!cgroup_has(host, CG_PIDS) || !DEFENDED(LIMIT_PIDS))
        return 0;
    char text[32] = "max";
    if (pids != JAIL_UNLIMITED)
        (void)snprintf(text, sizeof text, "%lld", (long long)pids + 1); /* init is ours */
    return set(host, CG_PIDS, cgroup, "pids.max", text, err);
}

static int limit_cpu(struct cgroup_host *host, const struct cgroup *cgroup, int64_t milli,
                     struct err *err)
{
    if (!DEFENDED(LIMIT_CPU))
        return 0;
    if (milli == JAIL_UNLIMITED && !cgroup_has(host, CG_CPU))
        return 0;
    if (need(host, CG_CPU, err) < 0)
        return -1;
    char text[48];
    long long quota = milli == JAIL_UNLIMITED ? -1 : milli * (CPU_PERIOD_US / 1000);
    if (host->v2[CG_CPU]) {
        (void)snprintf(text, sizeof text, "%lld %d", quota, CPU_PERIOD_US);
        return set(host, CG_CPU, cgroup, "cpu.max", quota < 0 ? "max" : text, err);
    }
    (void)snprintf(text, sizeof text, "%lld", quota);
    return set(host, CG_CPU, cgroup, "cpu.cfs_quota_us", text, err);
}

int cgroup_limit(struct cgroup_host *host, const struct cgroup *cgroup,
                 const struct jail_limits *limits, struct err *err)
{
    if (limit_memory(host, cgroup, limits->memory_bytes, err) < 0 ||
        limit_pids(host, cgroup, limits->pids, err) < 0 ||
        limit_cpu(host, cgroup, limits->cpu_milli, err) < 0)
        return err_wrap(err, "limits");
    return 0;
}

int cgroup_make(struct cgroup_host *host, const struct jail_limits *limits, const char *name,
                struct cgroup *ret_cgroup, struct err *err)
{
    struct cgroup cgroup = {0};
    bool any = false;
    (void)snprintf(cgroup.name, sizeof cgroup.name, "%s", name);
    for (int slot = 0; slot < CG_COUNT; slot++) {
        /* The v1 freezer is only needed where the unified tree cannot freeze. */
        if (host->fds[slot] < 0 || (slot == CG_FREEZER && host->fds[CG_UNIFIED] >= 0))
            continue;
        any = true;
        if (SYS(mkdirat(host->fds[slot], cgroup.name, 0755)) < 0) {
            (void)err_sys(err, errno, "make the %s group", slot_names[slot]);
            (void)cgroup_remove(host, &cgroup);
            return -1;
        }
    }
    if (cgroup_limit(host, &cgroup, limits, err) < 0) {
        (void)cgroup_remove(host, &cgroup);
        return -1;
    }
    if (host->fds[CG_UNIFIED] >= 0)
        (void)set_if_there(host, CG_UNIFIED, &cgroup, "cgroup.max.depth", "2", &(struct err){0});
    if (!any)
        cgroup.name[0] = '\0';
    *ret_cgroup = cgroup;
    return 0;
}

int cgroup_open_unified(struct cgroup_host *host, const struct cgroup *cgroup)
{
    if (host->fds[CG_UNIFIED] < 0 || cgroup->name[0] == '\0')
        return -1;
    return SYS(openat(host->fds[CG_UNIFIED], cgroup->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

int cgroup_attach(struct cgroup_host *host, const struct cgroup *cgroup, pid_t pid,
                  bool unified_too, struct err *err)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%d", (int)pid);
    for (int slot = 0; slot < CG_COUNT; slot++) {
        bool wanted = host->fds[slot] >= 0 && (slot != CG_UNIFIED || unified_too) &&
                      (slot != CG_FREEZER || host->fds[CG_UNIFIED] < 0);
        if (wanted && set(host, (enum cgroup_slot)slot, cgroup, "cgroup.procs", text, err) < 0)
            return err_wrap(err, "enter the %s group", slot_names[slot]);
    }
    return 0;
}

bool cgroup_kill(struct cgroup_host *host, const struct cgroup *cgroup)
{
    struct err err;
    if (cgroup->name[0] == '\0' || host->fds[CG_UNIFIED] < 0)
        return false;
    return set(host, CG_UNIFIED, cgroup, "cgroup.kill", "1", &err) == 0;
}

/* The kernel freezes in its own time; nothing to do but look until it says so. */
static int wait_frozen(struct cgroup_host *host, const struct cgroup *cgroup, bool frozen,
                       struct err *err)
{
    enum { SPINS = 50, TRIES = 2000, PAUSE_US = 250 };
    char path[CGROUP_NAME_SIZE + 32];
    (void)snprintf(path, sizeof path, "%s/cgroup.events", cgroup->name);
    for (int i = 0; i < TRIES; i++) {
        AUTO_BUF struct buf text = buf_with_limit(TEXT_MAX);
        if (read_text(host->fds[CG_UNIFIED], path, &text, err) < 0)
            return -1;
        struct str want = frozen ? STR("frozen 1") : STR("frozen 0");
        if (str_find(buf_str(&text), want) < text.len)
            return 0;
        if (i < SPINS)
            (void)sched_yield(); /* processes that sleep are there in microseconds */
        else
            (void)usleep(PAUSE_US);
    }
    return err_set(err, ERR_TIMEOUT, "the kernel did not freeze the group");
}

int cgroup_freeze(struct cgroup_host *host, const struct cgroup *cgroup, bool frozen,
                  struct err *err)
{
    if (cgroup->name[0] == '\0' || !cgroup_has(host, CG_FREEZER))
        return err_set(err, ERR_UNSUPPORTED, "this host cannot freeze a sandbox (%s)",
                       host->why[CG_FREEZER]);
    if (host->fds[CG_UNIFIED] < 0)
        return set(host, CG_FREEZER, cgroup, "freezer.state", frozen ? "FROZEN" : "THAWED", err);
    if (set(host, CG_UNIFIED, cgroup, "cgroup.freeze", frozen ? "1" : "0", err) < 0)
        return -1;
    if (wait_frozen(host, cgroup, frozen, err) == 0)
        return 0;
    /* Half frozen helps nobody. */
    (void)set(host, CG_UNIFIED, cgroup, "cgroup.freeze", "0", &(struct err){0});
    return -1;
}

/* The number behind `key` in a flat file, or the whole file as a number when `key` is NULL.
 * Somebody waits for these figures: one read into the stack, no allocation. */
static int64_t get(struct cgroup_host *host, enum cgroup_slot slot, const struct cgroup *cgroup,
                   const char *file, const char *key)
{
    char path[CGROUP_NAME_SIZE + 64], text[1024];
    int64_t number = -1;
    if (!cgroup_has(host, slot) || cgroup->name[0] == '\0')
        return -1;
    (void)snprintf(path, sizeof path, "%s/%s", cgroup->name, file);
    AUTO_CLOSE int fd = SYS(openat(slot_fd(host, slot), path, O_RDONLY | O_CLOEXEC));
    ssize_t got = fd < 0 ? -1 : SYS(read(fd, text, sizeof text));
    if (got <= 0)
        return -1;
    struct str rest = str_n(text, (size_t)got), line, word;
    while (str_split(&rest, '\n', &line)) {
        if (key != NULL && (!str_split(&line, ' ', &word) || !str_eq(word, str_of(key))))
            continue;
        if (!str_to_i64(str_trim(line), 0, INT64_MAX, &number))
            number = -1;
        break;
    }
    return number;
}

void cgroup_read_stats(struct cgroup_host *host, const struct cgroup *cgroup,
                       struct cgroup_stats *ret_stats)
{
    bool v2 = host->v2[CG_MEMORY];
    *ret_stats = (struct cgroup_stats){
        .oom_kills =
            get(host, CG_MEMORY, cgroup, v2 ? "memory.events" : "memory.oom_control", "oom_kill"),
        .memory_peak =
            get(host, CG_MEMORY, cgroup, v2 ? "memory.peak" : "memory.max_usage_in_bytes", NULL),
        .memory_now =
            get(host, CG_MEMORY, cgroup, v2 ? "memory.current" : "memory.usage_in_bytes", NULL),
        .pids_refused = get(host, CG_PIDS, cgroup, "pids.events", "max"),
    };
}

bool cgroup_remove(struct cgroup_host *host, struct cgroup *cgroup)
{
    bool gone = true;
    if (cgroup->name[0] == '\0')
        return true;
    for (int slot = 0; slot < CG_COUNT; slot++)
        if (host->fds[slot] >= 0 && unlinkat(host->fds[slot], cgroup->name, AT_REMOVEDIR) < 0 &&
            errno != ENOENT)
            gone = false;
    if (gone)
        cgroup->name[0] = '\0';
    return gone;
}
