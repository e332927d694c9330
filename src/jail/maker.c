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
#include "jail/kernel.h"
#include "jail/marked.h"
#include "jail/netns.h"

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
    maker->masks_all = is_root && !maker->ids.privileged;
    if (cgroup_host_open(&maker->cgroups, err) < 0)
        return -1;
    maker->home_net = netns_open_own(err);
    if (maker->home_net < 0)
        return -1;
    return template_enter(&maker->template, maker->ids.privileged, err);
}

int maker_start_seed(struct maker *maker, struct err *err)
{
    int done = seed_start(&maker->seed, maker->init_fd, maker->self_fd, maker->masks_all, err);
    if (done < 0)
        seed_stop(&maker->seed);
    return done;
}

int maker_init(struct maker *maker, struct str init_program, struct err *err)
{
    *maker = (struct maker){.home_net = -1, .self_fd = -1, .init_fd = -1, .keep = MAKER_KEEP};
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
    if (maker->home_net < 0)
        return -1;
    if (maker_start_seed(maker, err) < 0)
        return -1;
    return undertaker_start(&maker->undertaker, err);
}

void maker_done(struct maker *maker)
{
    seed_stop(&maker->seed);
    net_stock_done(&maker->nets);
    undertaker_stop(&maker->undertaker);
    cgroup_host_close(&maker->cgroups);
    ids_done(&maker->ids);
    template_done(&maker->template);
    fd_close(&maker->home_net);
    fd_close(&maker->self_fd);
    fd_close(&maker->init_fd);
}

static int ask_seed(struct maker *maker, const struct seed_question *question, struct err *err)
{
    if (maker->seed.pid <= 0)
        (void)err_set(err, ERR_UNAVAILABLE, "no seed to make jails from");
    else if (seed_ask(&maker->seed, question, err) == 0)
        return 0;
    maker->is_seed_lost = true;
    return -1;
}

static int run_jail(struct maker *maker, const struct jail_plan *plan, struct made *made,
                    struct err *err)
{
    int pair[2];
    struct cgroup_doors doors;
    struct mount_set mounts;
    int group = cgroup_open_unified(&maker->cgroups, &made->cgroup);
    if (cgroup_doors(&maker->cgroups, &made->cgroup, group < 0, &doors, err) < 0 ||
        mount_set_open(&mounts, &maker->template, plan, made->outer_id, &made->map, err) < 0)
        return -1;
    made->has_sources = mount_set_top(&mounts) >= 0;
    int done = -1;
    if (SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) == 0) {
        made->control_fd = pair[0];
        struct seed_question question = {.plan = plan,
                                         .mounts = &mounts,
                                         .doors = &doors,
                                         .control_fd = pair[1],
                                         .net_fd = made->net.fd,
                                         .group_fd = group,
                                         .outer_id = made->outer_id,
                                         .as_other = maker->ids.privileged};
        done = ask_seed(maker, &question, err);
        fd_close(&pair[1]);
    } else {
        (void)err_sys(err, errno, "socketpair");
    }
    mount_set_done(&mounts);
    return done;
}

/* The socket that is there already is the gateway's, if it has the port that is asked for. */
static int open_gateway(struct maker *maker, struct made *made, uint16_t port,
                        int ret_sockets[JAIL_SOCKETS], struct err *err)
{
    int none = -1;
    /* Whatever comes of it: routes may be there, so no other jail gets the namespace. */
    made->has_routes = true;
    return netns_gateway(made->net.fd, maker->home_net, port,
                         port == JAIL_PROXY_PORT ? &made->net.proxy_fd : &none, ret_sockets, err);
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
        made.has_gateway = true;
        done = open_gateway(maker, &made, plan->gateway_port, made.sockets, err);
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
    if (open_gateway(maker, made, (uint16_t)port, ret_sockets, err) < 0)
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
    made->tree_fd = k_pidfd_mount_ns(made->pidfd);
    if (made->tree_fd >= 0)
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
