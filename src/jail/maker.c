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

int maker_init(struct maker *maker, struct str init_program, struct err *err)
{
    *maker = (struct maker){.home_net = -1, .self_fd = -1, .init_fd = -1, .keep = MAKER_KEEP};
    filter_prepare();
    maker->self_fd = (int)SYS(syscall(SYS_pidfd_open, getpid(), 0));
    if (maker->self_fd < 0)
        return err_sys(err, errno, "pidfd_open (needs Linux 5.3)");
    maker->init_fd = load_program(init_program, err);
    if (maker->init_fd < 0 || enter_places(maker, err) < 0)
        return -1;
    /* Home is where nothing can be reached: if a step back were ever forgotten, the next jail
     * would sit in an empty namespace and not in the host's. */
    if (DEFENDED(NET_NS) && SYS(unshare(CLONE_NEWNET)) < 0)
        return err_sys(err, errno, "make a network namespace");
    fd_close(&maker->home_net);
    maker->home_net = maker->nets.home_fd = netns_open_own(err);
    return maker->home_net < 0 ? -1 : 0;
}

void maker_done(struct maker *maker)
{
    net_stock_done(&maker->nets);
    while (maker_drop_tree(maker))
        ;
    cgroup_host_close(&maker->cgroups);
    ids_done(&maker->ids);
    template_done(&maker->template);
    fd_close(&maker->home_net);
    fd_close(&maker->self_fd);
    fd_close(&maker->init_fd);
}

/* The jail's process, until it is init: says what went wrong in one message and leaves. */
static void NORETURN run_child(const struct setup *setup)
{
    struct err err = {0};
    static char go[WIRE_MAX];
    int oom[WIRE_FDS_MAX];
    /* Descriptor 3 is the maker's own socket to the daemon: nothing in here may speak on that. */
    if (dup2(setup->control_fd, SETUP_CONTROL_FD) < 0)
        _exit(2);
    struct setup own = *setup;
    if (wire_recv(SETUP_CONTROL_FD, go, oom, true, &err) == 1) {
        own.oom_fd = oom[0];
        if (setup_run(&own, &err) == 0)
            abort(); /* it comes back only when it failed */
    } else {
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

static int clone_child(struct maker *maker, struct made *made, const struct setup *setup,
                       struct err *err)
{
    int group = cgroup_open_unified(&maker->cgroups, &made->cgroup);
    struct clone_args args = {
        .flags = NAMESPACES | CLONE_PIDFD,
        .pidfd = (uintptr_t)&made->pidfd,
        .exit_signal = SIGCHLD,
    };
    if (group >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)group;
    }
    if (DEFENDED(NET_NS) && netns_enter(made->net.fd, err) < 0)
        return -1;
    made->pid = k_clone3(&args);
    if (made->pid == 0)
        run_child(setup);
    int code = errno;
    if (netns_enter(maker->home_net, err) < 0)
        return -1;
    if (made->pid < 0)
        return err_sys(err, code, KERNEL_NO_NAMESPACES);
    return cgroup_attach(&maker->cgroups, &made->cgroup, made->pid, group < 0, err);
}

/* Limits stand, ids are mapped, the process is in its groups: now it may move. It takes along the
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
    struct mount_set mounts;
    int pair[2];
    if (mount_set_open(&mounts, &maker->template, plan, made->outer_id, &made->map, err) < 0)
        return -1;
    if (SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) < 0) {
        mount_set_done(&mounts);
        return err_sys(err, errno, "socketpair");
    }
    AUTO_CLOSE int inner = pair[1];
    made->control_fd = pair[0];
    struct setup setup = {.plan = plan,
                          .mounts = &mounts,
                          .control_fd = inner,
                          .init_fd = maker->init_fd,
                          .alive_fd = maker->self_fd};
    int done = clone_child(maker, made, &setup, err);
    mount_set_done(&mounts);
    if (done < 0 || ids_write_maps(made->pid, JAIL_UID, made->outer_id, err) < 0)
        return -1;
    return let_go(maker, made, err);
}

int maker_make(struct maker *maker, const struct jail_plan *plan, struct made *ret_made,
               struct err *err)
{
    struct made made = {.pid = -1, .pidfd = -1, .control_fd = -1, .tree_fd = -1, .map = {.fd = -1}};
    memset(made.sockets, -1, sizeof made.sockets);
    if (ids_take(&maker->ids, &made.outer_id, err) < 0)
        return -1;
    int done = net_take(&maker->nets, &made.net, err);
    if (done == 0 && plan->net == JAIL_NET_GATEWAY) {
        made.has_gateway = true;
        done = netns_gateway(made.net.fd, maker->home_net, plan->gateway_port, made.sockets, err);
    }
    if (done == 0)
        done = cgroup_make(&maker->cgroups, &plan->limits, &made.cgroup, err);
    if (done == 0)
        done = run_jail(maker, plan, &made, err);
    if (done < 0) {
        struct cgroup_stats stats;
        maker_kill(maker, &made);
        maker_bury(maker, &made, &stats);
        for (int i = 0; i < 100 && !maker_clear(maker, &made); i++)
            (void)usleep(1000);
        return err_wrap(err, "make a jail");
    }
    *ret_made = made;
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
    (void)snprintf(path, sizeof path, "%d/ns/mnt", (int)made->pid);
    made->tree_fd = openat(maker->template.proc_fd, path, O_RDONLY | O_CLOEXEC);
}

bool maker_drop_tree(struct maker *maker)
{
    if (maker->tree_count == 0)
        return false;
    fd_close(&maker->old_trees[--maker->tree_count]);
    return true;
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

void maker_bury(struct maker *maker, struct made *made, struct cgroup_stats *ret_stats)
{
    if (made->pidfd >= 0) {
        siginfo_t info = {0};
        while (waitid((idtype_t)P_PIDFD, (id_t)made->pidfd, &info, WEXITED) < 0 && errno == EINTR)
            ;
    }
    cgroup_read_stats(&maker->cgroups, &made->cgroup, &made->last);
    *ret_stats = made->last;
    fd_close(&made->pidfd);
    fd_close(&made->control_fd);
    netns_close_sockets(made->sockets);
    fd_close(&made->map.fd);
    /* A gateway's sockets may live on in the daemon. */
    net_give_back(&maker->nets, &made->net, !made->has_gateway);
    if (made->tree_fd >= 0 && maker->tree_count < MAKER_TREES_MAX)
        maker->old_trees[maker->tree_count++] = fd_take(&made->tree_fd);
    fd_close(&made->tree_fd);
}

bool maker_clear(struct maker *maker, struct made *made)
{
    if (!cgroup_retire(&maker->cgroups, &made->cgroup, &made->last, maker->keep))
        return false;
    ids_give_back(&maker->ids, made->outer_id);
    return true;
}
