/* What groups have used. Files are opened for each request, because requests are rare. */

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "jail/cgroup/cgroup_internal.h"

static int64_t read_in(const struct cgroup_host *host, enum cgroup_slot slot, const char *group,
                       const char *file, const char *key)
{
    char path[CGROUP_NAME_SIZE + 64];
    int dir = cgroup_slot_fd(host, slot);
    (void)snprintf(path, sizeof path, "%s/%s", group, file);
    AUTO_CLOSE int fd = dir < 0 ? -1 : SYS(openat(dir, path, O_RDONLY | O_CLOEXEC));
    return cgroup_read_number(fd, key);
}

/* One line for each; counted where all of a jail's processes are in one group. */
static int64_t count_processes(const struct cgroup_host *host, const char *group)
{
    char path[CGROUP_NAME_SIZE + 64], bytes[4096];
    int dir = cgroup_slot_fd(host, host->fds[CG_UNIFIED] >= 0 ? CG_UNIFIED : CG_PIDS);
    int64_t count = 0;
    (void)snprintf(path, sizeof path, "%s/cgroup.procs", group);
    AUTO_CLOSE int fd = dir < 0 ? -1 : SYS(openat(dir, path, O_RDONLY | O_CLOEXEC));
    ssize_t got = fd < 0 ? -1 : 1;
    while (got > 0 && (got = read(fd, bytes, sizeof bytes)) > 0)
        for (ssize_t i = 0; i < got; i++)
            count += bytes[i] == '\n';
    return got < 0 ? -1 : count;
}

/* The unified tree counts cpu time without a controller too. */
static void read_use(const struct cgroup_host *host, const char *group, struct cgroup_use *use)
{
    *use = (struct cgroup_use){
        .cpu_us = read_in(host, CG_UNIFIED, group, "cpu.stat", "usage_usec"),
        .memory_now =
            read_in(host, CG_MEMORY, group,
                    host->v2[CG_MEMORY] ? "memory.current" : "memory.usage_in_bytes", NULL),
        .tasks = read_in(host, CG_PIDS, group, "pids.current", NULL),
    };
}

void cgroup_read_use(const struct cgroup_host *host, const struct cgroup *cgroup,
                     struct cgroup_use *ret_use)
{
    int64_t of_init = cgroup->has_parts ? 2 : 1; /* its threads: init_group.h */
    if (cgroup->name[0] == '\0') {
        *ret_use = (struct cgroup_use){-1, -1, -1, -1};
        return;
    }
    read_use(host, cgroup->name, ret_use);
    ret_use->processes = count_processes(host, cgroup->name);
    if (ret_use->tasks >= 0)
        ret_use->tasks = MAX(ret_use->tasks - of_init, (int64_t)0);
}

void cgroup_read_host_use(const struct cgroup_host *host, struct cgroup_use *ret_use)
{
    read_use(host, ".", ret_use);
}
