#include "jail/inside/lockdown.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/defended.h"
#include "base/err.h"
#include "jail/wire/linux.h"

enum { CAPS_MAX = 64, MEMLOCK = 64 << 10, STACK = 8 << 20, SIGPENDING = 1024 };

int lockdown_descriptors(int last, struct err *err)
{
    if (DEFENDED(CLOSE_RANGE) && k_close_range((unsigned)last + 1, ~0u, CLOSE_RANGE_UNSHARE) < 0)
        return err_sys(err, errno, "close inherited descriptors");
    return 0;
}

/* A limit that already is lower stays: raising needs a privilege that we may not have. */
static int limit(int which, rlim_t value, const char *name, struct err *err)
{
    struct rlimit now;
    if (SYS(getrlimit(which, &now)) < 0)
        return err_sys(err, errno, "read the limit %s", name);
    struct rlimit wanted = {.rlim_cur = MIN(value, now.rlim_max),
                            .rlim_max = MIN(value, now.rlim_max)};
    if (SYS(setrlimit(which, &wanted)) < 0)
        return err_sys(err, errno, "set the limit %s", name);
    return 0;
}

int lockdown_common_rlimits(struct err *err)
{
    const struct {
        int which;
        rlim_t value;
        const char *name;
    } rows[] = {
        /* 1, not 0: a core_pattern with a pipe starts a program of the host for each crash, as
         * root and in no group of ours, unless this limit is exactly 1. */
        {RLIMIT_CORE, DEFENDED(LIMIT_CORE) ? 1 : RLIM_INFINITY, "CORE"},
        {RLIMIT_MEMLOCK, DEFENDED(LIMIT_MEMLOCK) ? MEMLOCK : RLIM_INFINITY, "MEMLOCK"},
        {RLIMIT_MSGQUEUE, 0, "MSGQUEUE"},
        {RLIMIT_SIGPENDING, SIGPENDING, "SIGPENDING"},
        {RLIMIT_STACK, STACK, "STACK"},
        {RLIMIT_RTPRIO, 0, "RTPRIO"},
        {RLIMIT_NICE, 0, "NICE"},
    };
    for (size_t i = 0; i < countof(rows); i++)
        if (limit(rows[i].which, rows[i].value, rows[i].name, err) < 0)
            return -1;
    (void)umask(022);
    return 0;
}

int lockdown_own_rlimits(const struct jail_limits *limits, struct err *err)
{
    rlim_t files = DEFENDED(LIMIT_FILES) ? (rlim_t)limits->nofile : RLIM_INFINITY;
    rlim_t pids = limits->pids == JAIL_UNLIMITED || !DEFENDED(LIMIT_PIDS)
                      ? RLIM_INFINITY
                      : (rlim_t)limits->pids + 2; /* the threads of init are ours */
    if (limit(RLIMIT_NOFILE, files, "NOFILE", err) < 0)
        return -1;
    /* Counted per user namespace: holds where there is no pids controller. */
    return limit(RLIMIT_NPROC, pids, "NPROC", err);
}

static int drop_bounding_set(struct err *err)
{
    for (unsigned long cap = 0; cap < CAPS_MAX; cap++) {
        if (SYS(prctl(PR_CAPBSET_DROP, cap, 0, 0, 0)) == 0)
            continue;
        if (errno == EINVAL && cap > 0)
            return 0; /* past the last that this kernel knows */
        return err_sys(err, errno, "drop capability %lu", cap);
    }
    return 0;
}

int lockdown_privileges(struct err *err)
{
    enum {
        BITS = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
               SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
               SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED | SECBIT_KEEP_CAPS_LOCKED,
    };
    if (DEFENDED(CAPABILITIES) && drop_bounding_set(err) < 0)
        return -1;
    if (SYS(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)) < 0)
        return err_sys(err, errno, "clear the ambient capabilities");
    if (DEFENDED(SECUREBITS) && SYS(prctl(PR_SET_SECUREBITS, BITS, 0, 0, 0)) < 0)
        return err_sys(err, errno, "lock the securebits");
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};
    if (DEFENDED(CAPABILITIES) && SYS(syscall(SYS_capset, &head, none)) < 0)
        return err_sys(err, errno, "drop the capabilities");
    if (DEFENDED(NO_NEW_PRIVS) && SYS(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) < 0)
        return err_sys(err, errno, "set no_new_privs");
    return 0;
}
