#include "jail/inside/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include "base/defended.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/inside/filter.h"
#include "jail/inside/lockdown.h"
#include "jail/wire/init.h"
#include "jail/wire/linux.h"
#include "jail/wire/wire.h"

enum { ANCHOR_FD = SETUP_ALIVE_FD + 1 };

static int become_tenant(struct err *err)
{
    /* The maps are written: ids other than ours do not exist in here. Capabilities over the new
     * namespaces stay until lockdown_privileges. */
    if (SYS(syscall(SYS_setresgid, JAIL_GID, JAIL_GID, JAIL_GID)) < 0 ||
        SYS(syscall(SYS_setresuid, JAIL_UID, JAIL_UID, JAIL_UID)) < 0)
        return err_sys(err, errno, "become the sandbox user");
    if (SYS(setsid()) < 0 && errno != EPERM)
        return err_sys(err, errno, "setsid");
    return 0;
}

static int name_host(const struct jail_plan *plan, struct err *err)
{
    if (SYS(sethostname(plan->hostname, strlen(plan->hostname))) < 0 ||
        SYS(setdomainname("", 0)) < 0)
        return err_sys(err, errno, "set the host name");
    return 0;
}

/* The root of the cgroup view is where this process sits now, inside its own groups. */
static int own_cgroup_view(struct err *err)
{
    if (DEFENDED(CGROUP_NS) && SYS(unshare(CLONE_NEWCGROUP)) < 0)
        return err_sys(err, errno, "make a cgroup namespace");
    return 0;
}

/* The warden keeps it, so that it can be copied; no process of the jail does. */
static int hand_layer(int layer, struct err *err)
{
    AUTO_CLOSE int fd = layer;
    AUTO_BUF struct buf out = buf_with_limit(WIRE_MAX);
    if (fd < 0)
        return 0;
    wire_begin(&out, INIT_LAYER, 0);
    return wire_send(SETUP_CONTROL_FD, buf_str(&out), &fd, 1, err);
}

/* The few that init gets, at fixed numbers; the null device of the jail for 0 to 2. */
static int setup_arrange_descriptors(const struct setup *setup, int anchor, struct err *err)
{
    AUTO_CLOSE int null = openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);
    bool arranged = null >= 0;
    for (int fd = 0; fd <= 2; fd++)
        arranged = arranged && SYS(dup2(null, fd)) >= 0;
    arranged = arranged && SYS(dup2(setup->oom_fd, SETUP_OOM_FD)) >= 0;
    if (anchor >= 0)
        arranged = arranged && SYS(dup3(anchor, ANCHOR_FD, O_CLOEXEC)) >= 0;
    if (!arranged)
        return err_sys(err, errno, "arrange descriptors");
    return lockdown_descriptors(anchor >= 0 ? ANCHOR_FD : SETUP_ALIVE_FD, err);
}

/* The warden's pidfd is readable when it died before the kernel knew whom to kill with it. */
static int die_with_warden(struct err *err)
{
    if (SYS(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)) < 0)
        return err_sys(err, errno, "set the parent death signal");
    struct pollfd warden = {.fd = SETUP_ALIVE_FD, .events = POLLIN};
    if (poll(&warden, 1, 0) != 0)
        return err_set(err, ERR_GONE, "the warden has exited");
    return 0;
}

static int second_fence(const struct setup *setup, bool anchored, struct err *err)
{
    const char *volumes[JAIL_MOUNTS_MAX + 2] = {0};
    size_t count = 0;
    for (size_t i = 0; i < setup->mounts->count; i++)
        if (setup->mounts->items[i].writable)
            volumes[count++] = setup->mounts->items[i].dst;
    return landlock_restrict(mounts_writable(setup->plan), volumes, anchored ? ANCHOR_FD : -1, err);
}

int setup_run(const struct setup *setup, struct err *err)
{
    const struct jail_limits *limits = &setup->plan->limits;
    struct mounts_kept kept;
    if (become_tenant(err) < 0 || name_host(setup->plan, err) < 0 || own_cgroup_view(err) < 0)
        return -1;
    if (mounts_enter(setup->mounts, setup->plan, &kept, err) < 0)
        return -1;
    /* From here on only the jail's own tree can be named. */
    if (hand_layer(kept.layer, err) < 0 || setup_arrange_descriptors(setup, kept.anchor, err) < 0)
        return -1;
    if (lockdown_own_rlimits(limits, err) < 0 || lockdown_privileges(err) < 0)
        return -1;
    /* A change of credentials clears this, so not before. */
    if (die_with_warden(err) < 0)
        return -1;
    if (second_fence(setup, kept.anchor >= 0, err) < 0 ||
        lockdown_descriptors(SETUP_OOM_FD, err) < 0)
        return -1;
    return filter_install(FILTER_LATE, err);
}
