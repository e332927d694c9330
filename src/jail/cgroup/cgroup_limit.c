/* What a jail's groups hold it to. */

#include <errno.h>

#include "base/defended.h"
#include "base/err.h"
#include "jail/cgroup/cgroup_internal.h"
#include "jail/wire/plan.h"

enum { CPU_PERIOD_US = 100000 };

/* For files that only some kernels have and that take nothing away when missing. */
static int set_if_there(const struct cgroup_host *host, enum cgroup_slot slot,
                        const struct cgroup *cgroup, const char *file, const char *text,
                        struct err *err)
{
    struct err inner = {0};
    if (cgroup_set(host, slot, cgroup, file, text, &inner) == 0 || inner.sys == ENOENT)
        return 0;
    *err = inner;
    return -1;
}

static int need(const struct cgroup_host *host, enum cgroup_slot slot, struct err *err)
{
    if (cgroup_has(host, slot))
        return 0;
    return err_set(
        err, ERR_UNSUPPORTED,
        "this host cannot limit %s (%s); switch this limit off by name to run without it",
        cgroup_slot_names[slot], host->why[slot]);
}

/* Memory with swap may never be allowed less than memory without: which is written first depends
 * on the way that the limit goes. */
static int too_small(const struct cgroup_host *host, struct cgroup *cgroup, int64_t bytes,
                     struct err *err)
{
    struct cgroup_stats stats;
    cgroup_read_stats(host, cgroup, &stats);
    return err_set(err, ERR_CONFLICT,
                   "%lld MiB of memory are in use: the limit cannot be lowered to %lld MiB now; "
                   "end processes or delete files in /dev/shm first",
                   (long long)MAX(stats.memory_now, (int64_t)0) >> 20, (long long)bytes >> 20);
}

static int limit_memory_v1(const struct cgroup_host *host, struct cgroup *cgroup, const char *text,
                           int64_t bytes, bool raise, struct err *err)
{
    static const char plain[] = "memory.limit_in_bytes", swap[] = "memory.memsw.limit_in_bytes";
    if (raise && set_if_there(host, CG_MEMORY, cgroup, swap, text, err) < 0)
        return -1;
    if (cgroup_set(host, CG_MEMORY, cgroup, plain, text, err) < 0)
        return err->sys == EBUSY ? too_small(host, cgroup, bytes, err) : -1;
    if (!raise && set_if_there(host, CG_MEMORY, cgroup, swap, text, err) < 0)
        return -1;
    /* Memory of connections is counted separately, and only if it has a limit. */
    if (set_if_there(host, CG_MEMORY, cgroup, "memory.kmem.tcp.limit_in_bytes", text, err) < 0)
        return -1;
    return set_if_there(host, CG_MEMORY, cgroup, "memory.swappiness", "0", err);
}

/* The unified tree kills processes until a lower limit holds: so what is in use is reclaimed first,
 * as far as it can be, and compared. */
static int make_room_v2(const struct cgroup_host *host, struct cgroup *cgroup, int64_t bytes,
                        struct err *err)
{
    char excess[32];
    struct cgroup_stats stats;
    struct err unused;
    cgroup_read_stats(host, cgroup, &stats);
    if (stats.memory_now > bytes) {
        (void)snprintf(excess, sizeof excess, "%lld", (long long)(stats.memory_now - bytes));
        (void)!cgroup_set(host, CG_MEMORY, cgroup, "memory.reclaim", excess, &unused);
        cgroup_read_stats(host, cgroup, &stats);
    }
    return stats.memory_now > bytes ? too_small(host, cgroup, bytes, err) : 0;
}

static int limit_memory_v2(const struct cgroup_host *host, struct cgroup *cgroup, const char *text,
                           int64_t bytes, struct err *err)
{
    char high[32] = "max";
    bool off = bytes == JAIL_UNLIMITED;
    if (!off)
        (void)snprintf(high, sizeof high, "%lld", (long long)(bytes / 10 * 9));
    if (!off && make_room_v2(host, cgroup, bytes, err) < 0)
        return -1;
    if (cgroup_set(host, CG_MEMORY, cgroup, "memory.max", off ? "max" : text, err) < 0 ||
        cgroup_set(host, CG_MEMORY, cgroup, "memory.high", high, err) < 0 ||
        set_if_there(host, CG_MEMORY, cgroup, "memory.swap.max", "0", err) < 0)
        return -1;
    /* One process and not all: the jail and its other commands continue. */
    return set_if_there(host, CG_MEMORY, cgroup, "memory.oom.group", "0", err);
}

static int limit_memory(const struct cgroup_host *host, struct cgroup *cgroup, int64_t bytes,
                        struct err *err)
{
    if (!DEFENDED(LIMIT_MEMORY))
        return 0;
    if (bytes == JAIL_UNLIMITED && !cgroup_has(host, CG_MEMORY))
        return 0;
    if (need(host, CG_MEMORY, err) < 0)
        return -1;
    char text[32];
    (void)snprintf(text, sizeof text, "%lld", (long long)bytes); /* -1 is "none" to v1, too */
    if (host->v2[CG_MEMORY])
        return limit_memory_v2(host, cgroup, text, bytes, err);
    bool was_limited = cgroup->memory_bytes > 0;
    bool raise = was_limited && (bytes == JAIL_UNLIMITED || bytes > cgroup->memory_bytes);
    if (bytes == JAIL_UNLIMITED && !was_limited)
        return 0; /* a new group starts so */
    return limit_memory_v1(host, cgroup, text, bytes, raise, err);
}

static int limit_pids(const struct cgroup_host *host, const struct cgroup *cgroup, int64_t pids,
                      struct err *err)
{
    /* RLIMIT_NPROC counts per user namespace and stands in where there is no controller. */
    if (!cgroup_has(host, CG_PIDS) || !DEFENDED(LIMIT_PIDS))
        return 0;
    char text[32] = "max";
    if (pids != JAIL_UNLIMITED)
        (void)snprintf(text, sizeof text, "%lld",
                       (long long)pids + 2); /* the two threads of init */
    return cgroup_set(host, CG_PIDS, cgroup, "pids.max", text, err);
}

static int limit_cpu(const struct cgroup_host *host, const struct cgroup *cgroup, int64_t milli,
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
        return cgroup_set(host, CG_CPU, cgroup, "cpu.max", quota < 0 ? "max" : text, err);
    }
    (void)snprintf(text, sizeof text, "%lld", quota);
    return cgroup_set(host, CG_CPU, cgroup, "cpu.cfs_quota_us", text, err);
}

void cgroup_lift_cpu(const struct cgroup_host *host, const struct cgroup *cgroup, bool lifted)
{
    struct err unused;
    if (cgroup->name[0] != '\0' && cgroup_has(host, CG_CPU) && cgroup->cpu_milli > 0)
        (void)!limit_cpu(host, cgroup, lifted ? JAIL_UNLIMITED : cgroup->cpu_milli, &unused);
}

/* A limit that holds already is not written again: each write takes locks of the whole machine. */
int cgroup_limit(const struct cgroup_host *host, struct cgroup *cgroup,
                 const struct jail_limits *limits, struct err *err)
{
    if (cgroup->memory_bytes != limits->memory_bytes) {
        if (limit_memory(host, cgroup, limits->memory_bytes, err) < 0)
            return err_wrap(err, "limits");
        cgroup->memory_bytes = limits->memory_bytes;
        cgroup_limit_parts(host, cgroup);
    }
    if (cgroup->pids != limits->pids) {
        if (limit_pids(host, cgroup, limits->pids, err) < 0)
            return err_wrap(err, "limits");
        cgroup->pids = limits->pids;
    }
    if (cgroup->cpu_milli != limits->cpu_milli) {
        if (limit_cpu(host, cgroup, limits->cpu_milli, err) < 0)
            return err_wrap(err, "limits");
        cgroup->cpu_milli = limits->cpu_milli;
    }
    return 0;
}
