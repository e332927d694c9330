#include "jail/maker.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/defended.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/filter.h"
#include "jail/init.h"
#include "jail/kernel.h"
#include "jail/marked.h"
#include "jail/netns.h"
#include "jail/setup.h"
#include "jail/wire.h"

static int seal(int fd, struct err *err)
{
    if (!DEFENDED(SEALED_INIT))
        return 0;
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_EXEC); /* newer kernels */
    if (SYS(fcntl(fd, F_ADD_SEALS, seals | F_SEAL_SEAL)) < 0)
        return err_sys(err, errno, "seal init");
    return 0;
}

/* From memory, so that no path of the host ever names what runs in a jail. */
static int load_program(struct str program, struct err *err)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    AUTO_CLOSE int fd = (int)SYS(syscall(SYS_memfd_create, "init", flags | MFD_EXEC));
    if (fd < 0 && errno == EINVAL)
        fd = (int)SYS(syscall(SYS_memfd_create, "init", flags));
    if (fd < 0)
        return err_sys(err, errno, "memfd_create");
    if (SYS(fchmod(fd, 0555)) < 0)
        return err_sys(err, errno, "chmod init");
    if (fd_write_all(fd, program, err) < 0 || seal(fd, err) < 0)
        return -1;
    return fd_take(&fd);
}

static int enter_places(struct maker *maker, struct err *err)
{
    bool is_root = geteuid() == 0;
    if (ids_init(&maker->ids, err) < 0)
        return -1;
    if (!maker->ids.privileged && ids_enter_own_namespace(err) < 0)
        return -1;
    mounts_prepare(is_root && !maker->ids.privileged);
    if (cgroup_host_open(&maker->cgroups, err) < 0)
        return -1;
    maker->home_net = netns_open_own(err);
    if (maker->home_net < 0)
        return -1;
    return template_enter(&maker->template, maker->ids.privileged, err);
}

/* Docks: low descriptors that a jail's process finds its socket at.
 *
 * The process begins with our table of descriptors instead of a copy, and copies for itself only
 * what lies below `above`: a maker that holds a thousand jails holds many thousand descriptors. So
 * what it needs must lie low, and stay until it has left our table. */

static int open_docks(struct maker *maker, struct err *err)
{
    for (size_t i = 0; i < MAKER_DOCKS; i++) {
        maker->docks[i] = SYS(fcntl(maker->self_fd, F_DUPFD_CLOEXEC, MAKER_DOCK_FIRST));
        if (maker->docks[i] < 0)
            return err_sys(err, errno, "reserve a descriptor");
    }
    return 0;
}

int maker_init(struct maker *maker, struct str init_program, struct err *err)
{
    *maker = (struct maker){.home_net = -1, .self_fd = -1, .init_fd = -1, .keep = MAKER_KEEP};
    filter_prepare();
    maker->self_fd = (int)SYS(syscall(SYS_pidfd_open, getpid(), 0));
    if (maker->self_fd < 0)
        return err_sys(err, errno, "pidfd_open (needs Linux 5.3)");
    maker->init_fd = load_program(init_program, err);
    if (maker->init_fd < 0 || open_docks(maker, err) < 0 || enter_places(maker, err) < 0)
        return -1;
    /* Home is where nothing can be reached: if a step back were ever forgotten, the next jail
     * would sit in an empty namespace and not in the host's. */
    if (DEFENDED(NET_NS) && SYS(unshare(CLONE_NEWNET)) < 0)
        return err_sys(err, errno, "make a network namespace");
    fd_close(&maker->home_net);
    maker->home_net = maker->nets.home_fd = netns_open_own(err);
    if (maker->home_net < 0)
        return -1;
    return undertaker_start(&maker->undertaker, err);
}

void maker_done(struct maker *maker)
{
    net_stock_done(&maker->nets);
    undertaker_stop(&maker->undertaker);
    cgroup_host_close(&maker->cgroups);
    ids_done(&maker->ids);
    template_done(&maker->template);
    fd_close(&maker->home_net);
    fd_close(&maker->self_fd);
    fd_close(&maker->init_fd);
    for (size_t i = 0; i < MAKER_DOCKS; i++)
        if (maker->docks[i] > 0)
            fd_close(&maker->docks[i]);
}

/* Moves `fd` there; leaves it where it is when all are taken. */
static void dock(struct maker *maker, struct made *made, int *fd)
{
    for (int i = 0; i < MAKER_DOCKS; i++) {
        if (maker->docked[i] || maker->docks[i] == 0)
            continue;
        if (SYS(dup3(*fd, maker->docks[i], O_CLOEXEC)) < 0)
            return;
        fd_close(fd);
        maker->docked[i] = true;
        made->dock = i + 1;
        return;
    }
}

void maker_undock(struct maker *maker, struct made *made)
{
    if (made->mounts != NULL)
        mount_set_done(made->mounts);
    free(made->mounts);
    made->mounts = NULL;
    if (made->dock == 0)
        return;
    int i = made->dock - 1;
    made->dock = 0;
    /* The number stays reserved. */
    maker->docked[i] = dup3(maker->self_fd, maker->docks[i], O_CLOEXEC) < 0;
}

/* The jail's process, until it is init: says what went wrong in one message and leaves. */
static void NORETURN run_child(const struct setup *setup, const struct cgroup_doors *doors,
                               unsigned above)
{
    struct err err = {0};
    static char go[WIRE_MAX];
    int oom[WIRE_FDS_MAX];
    int entered = cgroup_enter(doors, &err);
    /* Until here the maker's table is ours too. */
    if (above > 0 && k_close_range(above, ~0u, CLOSE_RANGE_UNSHARE) < 0)
        _exit(2);
    /* Descriptor 3 is the maker's own socket to the daemon: nothing in here may speak on that. */
    if (dup2(setup->control_fd, SETUP_CONTROL_FD) < 0)
        _exit(2);
    struct setup own = *setup;
    if (entered == 0 && wire_recv(SETUP_CONTROL_FD, go, oom, true, &err) == 1) {
        own.oom_fd = oom[0];
        if (setup_run(&own, &err) == 0)
            abort(); /* it comes back only when it failed */
    } else if (entered == 0) {
        (void)err_set(&err, ERR_CANCELED, "the maker gave up");
    }
    AUTO_BUF struct buf out = buf_with_limit(WIRE_MAX);
    wire_begin(&out, INIT_BROKEN, 0);
    wire_put_err(&out, &err);
    struct err sent;
    _exit(wire_send(SETUP_CONTROL_FD, buf_str(&out), NULL, 0, &sent) < 0 ? 2 : 1);
}

#define NAMESPACES                                                                                 \
    ((uint64_t)(DEFENDED(USER_NS) ? CLONE_NEWUSER : 0) | (DEFENDED(MOUNT_NS) ? CLONE_NEWNS : 0) |  \
     (DEFENDED(PID_NS) ? CLONE_NEWPID : 0) | (DEFENDED(IPC_NS) ? CLONE_NEWIPC : 0) |               \
     (DEFENDED(UTS_NS) ? CLONE_NEWUTS : 0))

/* Where the descriptors end that the jail's process needs; 0 when its socket is not in a dock. */
static unsigned needed_below(const struct maker *maker, const struct made *made,
                             const struct mount_set *mounts)
{
    if (made->dock == 0)
        return 0;
    int own = MAX(maker->init_fd, maker->self_fd), sources = mount_set_top(mounts);
    int top = MAX(maker->docks[made->dock - 1], own);
    return (unsigned)MAX(top, sources) + 1;
}

static int clone_child(struct maker *maker, struct made *made, const struct setup *setup,
                       struct err *err)
{
    unsigned above = needed_below(maker, made, setup->mounts);
    int group = cgroup_open_unified(&maker->cgroups, &made->cgroup);
    struct cgroup_doors doors;
    if (cgroup_doors(&maker->cgroups, &made->cgroup, group < 0, &doors, err) < 0)
        return -1;
    struct clone_args args = {
        .flags = NAMESPACES | CLONE_PIDFD,
        .pidfd = (uintptr_t)&made->pidfd,
        .exit_signal = SIGCHLD,
    };
    if (group >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)group;
    }
    if (above > 0)
        args.flags |= CLONE_FILES;
    if (DEFENDED(NET_NS) && netns_enter(made->net.fd, err) < 0)
        return -1;
    made->pid = k_clone3(&args);
    if (made->pid == 0)
        run_child(setup, &doors, above);
    int code = errno;
    if (netns_enter(maker->home_net, err) < 0)
        return -1;
    if (made->pid < 0)
        return err_sys(err, code, KERNEL_NO_NAMESPACES);
    return 0;
}

/* Limits stand, ids are mapped: once it is in its groups it may move. It takes along the
 * one file of /proc that init writes to, which nobody can open from inside. */
static int let_go(const struct maker *maker, const struct made *made, struct err *err)
{
    char path[32];
    (void)snprintf(path, sizeof path, "%d/oom_score_adj", (int)made->pid);
    AUTO_CLOSE int oom = SYS(openat(maker->template.proc_fd, path, O_WRONLY | O_CLOEXEC));
    if (oom < 0)
        return err_sys(err, errno, "open '/proc/%s'", path);
    return wire_send(made->control_fd, STR("g"), &oom, 1, err);
}

static int run_jail(struct maker *maker, const struct jail_plan *plan, struct made *made,
                    struct err *err)
{
    int pair[2];
    made->mounts = mem_alloc(sizeof *made->mounts);
    if (mount_set_open(made->mounts, &maker->template, plan, made->outer_id, &made->map, err) < 0)
        return -1;
    made->has_sources = mount_set_top(made->mounts) >= 0;
    if (SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) < 0)
        return err_sys(err, errno, "socketpair");
    AUTO_CLOSE int inner = pair[1];
    made->control_fd = pair[0];
    dock(maker, made, &inner);
    struct setup setup = {.plan = plan,
                          .mounts = made->mounts,
                          .control_fd = made->dock > 0 ? maker->docks[made->dock - 1] : inner,
                          .init_fd = maker->init_fd,
                          .alive_fd = maker->self_fd};
    if (clone_child(maker, made, &setup, err) < 0 ||
        ids_write_maps(made->pid, JAIL_UID, made->outer_id, err) < 0)
        return -1;
    return let_go(maker, made, err);
}

int maker_make(struct maker *maker, const struct jail_plan *plan, struct made *ret_made,
               struct err *err)
{
    struct made made = {
        .pid = -1, .pidfd = -1, .control_fd = -1, .tree_fd = -1, .layer_fd = -1, .map = {.fd = -1}};
    memset(made.sockets, -1, sizeof made.sockets);
    if (ids_take(&maker->ids, &made.outer_id, err) < 0)
        return -1;
    int done = net_take(&maker->nets, &made.net, err);
    if (done == 0 && plan->net == JAIL_NET_GATEWAY) {
        made.has_gateway = made.has_routes = true;
        done = netns_gateway(made.net.fd, maker->home_net, plan->gateway_port, made.sockets, err);
    }
    if (done == 0)
        done = cgroup_make(&maker->cgroups, &plan->limits, &made.cgroup, err);
    if (done == 0)
        done = run_jail(maker, plan, &made, err);
    if (done < 0) {
        maker_kill(maker, &made);
        maker_reap(maker, &made);
        for (int i = 0; i < 100 && !maker_clear(maker, &made); i++)
            (void)usleep(1000);
        return err_wrap(err, "make a jail");
    }
    *ret_made = made;
    return 0;
}

int maker_open_gateway(struct maker *maker, struct made *made, uint32_t port,
                       int ret_sockets[JAIL_SOCKETS], struct err *err)
{
    if (port == 0 || port > UINT16_MAX)
        return err_set(err, ERR_INVALID, "%u is no port", port);
    /* Whatever comes of it: routes may be there, so no other jail gets the namespace. */
    made->has_routes = true;
    if (netns_gateway(made->net.fd, maker->home_net, (uint16_t)port, ret_sockets, err) < 0)
        return -1;
    made->has_gateway = true;
    return 0;
}

int maker_listen(struct maker *maker, const struct made *made, uint32_t port, struct err *err)
{
    if (!made->has_gateway)
        return err_set(err, ERR_INVALID, "the jail has no gateway");
    if (port == 0 || port > UINT16_MAX)
        return err_set(err, ERR_INVALID, "%u is no port", port);
    return netns_listen(made->net.fd, maker->home_net, (uint16_t)port, err);
}

void maker_hold_tree(struct maker *maker, struct made *made)
{
    char path[32];
    if (made->has_sources)
        return;
    (void)snprintf(path, sizeof path, "%d/ns/mnt", (int)made->pid);
    made->tree_fd = openat(maker->template.proc_fd, path, O_RDONLY | O_CLOEXEC);
}

void maker_kill(struct maker *maker, struct made *made)
{
    if (made->pidfd < 0)
        return;
    /* The death of a pid namespace's init takes all of it, racing forks included. Only where
     * somebody may be frozen, or where that namespace is missing, is the group killed first. */
    if (made->cgroup.is_spoilt || !DEFENDED(PID_NS))
        (void)cgroup_kill(&maker->cgroups, &made->cgroup);
    (void)k_pidfd_send_signal(made->pidfd, SIGKILL);
}

/* While nobody can fork, one look finds all. Elsewhere it is repeated until there is none. */
int maker_kill_command(struct maker *maker, struct made *made, uint32_t command, bool is_frozen,
                       struct err *err)
{
    enum { ROUNDS = 200 };
    struct err unused;
    int proc = maker->template.proc_fd, found = 0;
    bool holds = is_frozen || (cgroup_has(&maker->cgroups, CG_FREEZER) &&
                               cgroup_freeze(&maker->cgroups, &made->cgroup, true, &unused) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        int now = marked_kill(proc, made->pid, mark_of(command));
        found = MAX(found, now);
        if (now == 0 || holds)
            break;
        if (round == ROUNDS - 1)
            return err_set(err, ERR_BUSY, "the command forks faster than it can be killed");
        (void)usleep(500);
    }
    if (holds && !is_frozen && cgroup_freeze(&maker->cgroups, &made->cgroup, false, err) < 0)
        return -1;
    return found;
}

void maker_reap(struct maker *maker, struct made *made)
{
    if (made->pidfd >= 0) {
        siginfo_t info = {0};
        while (waitid((idtype_t)P_PIDFD, (id_t)made->pidfd, &info, WEXITED) < 0 && errno == EINTR)
            ;
    }
    cgroup_read_stats(&maker->cgroups, &made->cgroup, &made->last);
}

bool maker_clear(struct maker *maker, struct made *made)
{
    fd_close(&made->pidfd);
    fd_close(&made->control_fd);
    fd_close(&made->map.fd);
    netns_close_sockets(made->sockets);
    maker_undock(maker, made);
    /* A gateway's sockets may live on in the daemon. */
    net_give_back(&maker->nets, &made->net, !made->has_routes);
    undertaker_take(&maker->undertaker, &made->tree_fd);
    undertaker_take(&maker->undertaker, &made->layer_fd);
    buf_done(&made->memory.placed);
    if (!cgroup_retire(&maker->cgroups, &made->cgroup, &made->last, maker->keep))
        return false;
    ids_give_back(&maker->ids, made->outer_id);
    return true;
}
