/* The groups of single commands below a jail's memory group. */

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "jail/cgroup/cgroup_internal.h"
#include "jail/wire/plan.h"

enum { RESERVE_MIN = 8 << 20, RESERVE_MAX = 32 << 20 };

static int open_in_part(const struct cgroup_host *host, const struct cgroup *cgroup, int part,
                        const char *file, int flags)
{
    char path[CGROUP_NAME_SIZE + 64];
    (void)snprintf(path, sizeof path, "%s/%d/%s", cgroup->name, part, file);
    return SYS(openat(host->fds[CG_MEMORY], path, flags | O_CLOEXEC));
}

void cgroup_make_parts(const struct cgroup_host *host, struct cgroup *cgroup)
{
    char path[CGROUP_NAME_SIZE + 16];
    if (host->fds[CG_MEMORY] < 0 || host->v2[CG_MEMORY] || cgroup->name[0] == '\0')
        return;
    for (int i = 0; i < CGROUP_PARTS; i++) {
        (void)snprintf(path, sizeof path, "%s/%d", cgroup->name, i);
        if (SYS(mkdirat(host->fds[CG_MEMORY], path, 0755)) == 0 || errno == EEXIST)
            continue;
        cgroup_remove_parts(host, cgroup);
        return;
    }
    cgroup->has_parts = true;
    cgroup_limit_parts(host, cgroup);
}

void cgroup_remove_parts(const struct cgroup_host *host, struct cgroup *cgroup)
{
    char path[CGROUP_NAME_SIZE + 16];
    for (int i = 0; i < CGROUP_PARTS; i++) {
        (void)snprintf(path, sizeof path, "%s/%d", cgroup->name, i);
        (void)unlinkat(host->fds[CG_MEMORY], path, AT_REMOVEDIR);
    }
}

static int64_t limit_of_part(int64_t bytes)
{
    int64_t reserve = MIN(MAX(bytes / 32, (int64_t)RESERVE_MIN), (int64_t)RESERVE_MAX);
    return bytes - MIN(reserve, bytes / 8);
}

/* A part that uses more than it may from now on is held by the limit of the jail. */
void cgroup_limit_parts(const struct cgroup_host *host, const struct cgroup *cgroup)
{
    char text[32];
    int64_t bytes = cgroup->memory_bytes;
    if (!cgroup->has_parts || bytes == 0)
        return;
    (void)snprintf(text, sizeof text, "%lld",
                   bytes == JAIL_UNLIMITED ? -1LL : (long long)limit_of_part(bytes));
    /* Memory of connections is not counted in a group that has no limit for it, though the group
     * above has one. */
    static const char *const files[] = {"memory.limit_in_bytes", "memory.kmem.tcp.limit_in_bytes"};
    for (size_t i = 0; i < CGROUP_PARTS * countof(files); i++) {
        int part = (int)(i / countof(files));
        AUTO_CLOSE int fd = open_in_part(host, cgroup, part, files[i % countof(files)], O_WRONLY);
        if (fd >= 0)
            (void)!SYS(write(fd, text, strlen(text)));
    }
}

bool cgroup_open_part(const struct cgroup_host *host, const struct cgroup *cgroup, int part,
                      int ret_fds[PART_FILES])
{
    static const struct {
        const char *name;
        int flags;
    } rows[PART_FILES] = {
        [PART_ENTER] = {"tasks", O_WRONLY},
        [PART_KILLS] = {"memory.oom_control", O_RDONLY},
        [PART_PEAK] = {"memory.max_usage_in_bytes", O_RDWR},
    };
    int fds[PART_FILES] = {-1, -1, -1};
    bool all = cgroup->has_parts;
    for (int i = 0; i < PART_FILES && all; i++) {
        fds[i] = open_in_part(host, cgroup, part, rows[i].name, rows[i].flags);
        all = fds[i] >= 0;
    }
    for (int i = 0; i < PART_FILES && !all; i++)
        fd_close(&fds[i]);
    if (all)
        memcpy(ret_fds, fds, sizeof fds);
    return all;
}

int64_t cgroup_count_part_kills(const struct cgroup_host *host, const struct cgroup *cgroup)
{
    int64_t sum = 0;
    for (int i = 0; i < CGROUP_PARTS && cgroup->has_parts; i++) {
        AUTO_CLOSE int fd = open_in_part(host, cgroup, i, "memory.oom_control", O_RDONLY);
        sum += MAX(cgroup_read_number(fd, "oom_kill"), (int64_t)0);
    }
    return sum;
}

int cgroup_kernel_entries(const struct cgroup_host *host, struct cgroup *cgroup,
                          struct cgroup_entries *ret_entries, struct err *err)
{
    struct cgroup_entries entries;
    char path[32];
    if (cgroup_entries(host, cgroup, true, &entries, err) < 0)
        return -1;
    (void)snprintf(path, sizeof path, "%d/tasks", CGROUP_PART_OF_KERNELS);
    int fd = !cgroup->has_parts
                 ? -1
                 : cgroup_open_file(host, cgroup, CGROUP_KERNELS, CG_MEMORY, path, O_WRONLY);
    for (size_t i = 0; i < entries.count && fd >= 0; i++)
        if (entries.fds[i] == cgroup->files[CGROUP_PROCS + CG_MEMORY])
            entries.fds[i] = fd;
    *ret_entries = entries;
    return 0;
}
