#include "jail/warden/builder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/defended.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/inside/netns.h"
#include "jail/wire/linux.h"
#include "jail/wire/oom_tag.h"

static int enter_places(struct builder *builder, const char *without, struct err *err)
{
    bool is_root = geteuid() == 0;
    if (ids_init(&builder->ids, err) < 0)
        return -1;
    if (!builder->ids.privileged && ids_enter_own_namespace(err) < 0)
        return -1;
    builder->masks_all = is_root && !builder->ids.privileged;
    if (cgroup_host_open(&builder->cgroups, without, err) < 0)
        return -1;
    builder->home_net = netns_open_own(err);
    if (builder->home_net < 0)
        return -1;
    return template_enter(&builder->template, builder->ids.privileged, err);
}

int builder_start_init_spawner(struct builder *builder, struct err *err)
{
    int done = init_spawner_start(&builder->init_spawner, builder->init_fd, builder->self_fd,
                                  builder->masks_all, err);
    if (done < 0)
        init_spawner_stop(&builder->init_spawner);
    return done;
}

int builder_init(struct builder *builder, struct str init_program, const char *without,
                 struct err *err)
{
    *builder = (struct builder){.home_net = -1, .self_fd = -1, .init_fd = -1, .keep = BUILDER_KEEP};
    builder->self_fd = (int)SYS(syscall(SYS_pidfd_open, getpid(), 0));
    if (builder->self_fd < 0)
        return err_sys(err, errno, "pidfd_open (needs Linux 5.3)");
    /* From memory, so that no path of the host ever names what runs in a jail. */
    builder->init_fd = fd_program("init", init_program, 0555, err);
    if (builder->init_fd < 0 ||
        (DEFENDED(SEALED_INIT) && fd_seal_program(builder->init_fd, err) < 0) ||
        enter_places(builder, without, err) < 0)
        return -1;
    /* Home is where nothing can be reached: if a step back were ever forgotten, the next jail
     * would sit in an empty namespace and not in the host's. */
    if (DEFENDED(NET_NS) && SYS(unshare(CLONE_NEWNET)) < 0)
        return err_sys(err, errno, "make a network namespace");
    fd_close(&builder->home_net);
    builder->home_net = builder->nets.home_fd = netns_open_own(err);
    if (builder->home_net < 0)
        return -1;
    if (builder_start_init_spawner(builder, err) < 0)
        return -1;
    return fd_closer_start(&builder->fd_closer, err);
}

void builder_done(struct builder *builder)
{
    init_spawner_stop(&builder->init_spawner);
    net_stock_done(&builder->nets);
    fd_closer_stop(&builder->fd_closer);
    cgroup_host_close(&builder->cgroups);
    ids_done(&builder->ids);
    template_done(&builder->template);
    fd_close(&builder->home_net);
    fd_close(&builder->self_fd);
    fd_close(&builder->init_fd);
}

static int ask_init_spawner(struct builder *builder, const struct init_spawner_question *question,
                            struct err *err)
{
    if (builder->init_spawner.pid <= 0)
        (void)err_set(err, ERR_UNAVAILABLE, "no init spawner to make jails from");
    else if (init_spawner_ask(&builder->init_spawner, question, err) == 0)
        return 0;
    builder->is_init_spawner_lost = true;
    return -1;
}

static int run_jail(struct builder *builder, const struct jail_plan *plan, struct made *made,
                    struct err *err)
{
    int pair[2];
    struct cgroup_entries entries;
    struct mount_set mounts;
    int group = cgroup_open_unified(&builder->cgroups, &made->cgroup);
    if (cgroup_entries(&builder->cgroups, &made->cgroup, group < 0, &entries, err) < 0 ||
        mount_set_open(&mounts, &builder->template, plan, made->outer_id, &made->map, err) < 0)
        return -1;
    made->has_sources = mount_set_top(&mounts) >= 0;
    int done = -1;
    if (SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) == 0) {
        made->control_fd = pair[0];
        struct init_spawner_question question = {.plan = plan,
                                                 .mounts = &mounts,
                                                 .entries = &entries,
                                                 .control_fd = pair[1],
                                                 .net_fd = made->net.fd,
                                                 .group_fd = group,
                                                 .outer_id = made->outer_id,
                                                 .as_other = builder->ids.privileged};
        done = ask_init_spawner(builder, &question, err);
        fd_close(&pair[1]);
    } else {
        (void)err_sys(err, errno, "socketpair");
    }
    mount_set_done(&mounts);
    return done;
}

/* The socket that is there already is the gateway's, if it has the port that is asked for. */
static int open_gateway(struct builder *builder, struct made *made, uint16_t port,
                        int ret_sockets[JAIL_SOCKETS], struct err *err)
{
    int none = -1;
    /* Whatever comes of it: routes may be there, so no other jail gets the namespace. */
    made->has_routes = true;
    return netns_gateway(made->net.fd, builder->home_net, port,
                         port == JAIL_PROXY_PORT ? &made->net.proxy_fd : &none, ret_sockets, err);
}

int builder_make(struct builder *builder, const struct jail_plan *plan, struct made *ret_made,
                 struct err *err)
{
    struct made made = {
        .pid = -1, .pidfd = -1, .control_fd = -1, .tree_fd = -1, .layer_fd = -1, .map = {.fd = -1}};
    memset(made.sockets, -1, sizeof made.sockets);
    relayer_memory_begin(&made.memory, plan);
    if (ids_take(&builder->ids, &made.outer_id, err) < 0)
        return -1;
    int done = net_take(&builder->nets, &made.net, err);
    if (done == 0 && plan->net == JAIL_NET_GATEWAY) {
        made.has_gateway = true;
        done = open_gateway(builder, &made, plan->gateway_port, made.sockets, err);
    }
    if (done == 0)
        done = cgroup_make(&builder->cgroups, &plan->limits, &made.cgroup, err);
    if (done == 0)
        done = run_jail(builder, plan, &made, err);
    if (done < 0) {
        builder_kill(builder, &made);
        builder_reap(builder, &made);
        for (int i = 0; i < 100 && !builder_clear(builder, &made); i++)
            (void)usleep(1000);
        return err_wrap(err, "make a jail");
    }
    *ret_made = made;
    return 0;
}

int builder_open_gateway(struct builder *builder, struct made *made, uint32_t port,
                         int ret_sockets[JAIL_SOCKETS], struct err *err)
{
    if (port == 0 || port > UINT16_MAX)
        return err_set(err, ERR_INVALID, "%u is not a port", port);
    if (open_gateway(builder, made, (uint16_t)port, ret_sockets, err) < 0)
        return -1;
    made->has_gateway = true;
    return 0;
}

int builder_listen(struct builder *builder, const struct made *made, uint32_t port, struct err *err)
{
    if (!made->has_gateway)
        return err_set(err, ERR_INVALID, "the jail has no gateway");
    if (port == 0 || port > UINT16_MAX)
        return err_set(err, ERR_INVALID, "%u is not a port", port);
    return netns_listen(made->net.fd, builder->home_net, (uint16_t)port, err);
}

void builder_hold_tree(struct builder *builder, struct made *made)
{
    char path[32];
    if (made->has_sources)
        return;
    made->tree_fd = k_pidfd_mount_ns(made->pidfd);
    if (made->tree_fd >= 0)
        return;
    (void)snprintf(path, sizeof path, "%d/ns/mnt", (int)made->pid);
    made->tree_fd = openat(builder->template.proc_fd, path, O_RDONLY | O_CLOEXEC);
}

void builder_kill(struct builder *builder, struct made *made)
{
    if (made->pidfd < 0)
        return;
    /* The death of a pid namespace's init ends all its processes, including racing forks. The group
     * is killed first only if a process may be frozen or the namespace is missing. */
    if (made->cgroup.is_spoilt || !DEFENDED(PID_NS))
        (void)cgroup_kill(&builder->cgroups, &made->cgroup);
    (void)k_pidfd_send_signal(made->pidfd, SIGKILL);
    if (made->cgroup.is_spoilt)
        cgroup_thaw(&builder->cgroups, &made->cgroup);
}

void builder_kill_again(struct builder *builder, struct made *made)
{
    cgroup_kill_again(&builder->cgroups, &made->cgroup);
    if (made->pidfd >= 0)
        (void)k_pidfd_send_signal(made->pidfd, SIGKILL);
}

/* While the group is frozen no process can fork, so one pass finds all. Otherwise it is repeated
 * until no process is left. */
int builder_kill_command(struct builder *builder, struct made *made, uint32_t command,
                         bool is_frozen, struct err *err)
{
    enum { ROUNDS = 200 };
    struct err unused;
    int proc = builder->template.proc_fd, found = 0;
    bool holds = is_frozen || (cgroup_has(&builder->cgroups, CG_FREEZER) &&
                               cgroup_freeze(&builder->cgroups, &made->cgroup, true, &unused) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        int now = oom_tag_kill(proc, made->pid, oom_tag_of(command));
        found = MAX(found, now);
        if (now == 0 || holds)
            break;
        if (round == ROUNDS - 1)
            return err_set(err, ERR_BUSY, "the command forks faster than it can be killed");
        (void)usleep(500);
    }
    if (holds && !is_frozen && cgroup_freeze(&builder->cgroups, &made->cgroup, false, err) < 0)
        return -1;
    return found;
}

void builder_reap(struct builder *builder, struct made *made)
{
    while (made->pidfd >= 0) {
        siginfo_t info = {0};
        int done = waitid((idtype_t)P_PIDFD, (id_t)made->pidfd, &info, WEXITED | WNOHANG);
        if (done < 0 ? errno != EINTR : info.si_pid != 0)
            break;
        struct pollfd dead = {.fd = made->pidfd, .events = POLLIN};
        if (done == 0 && poll(&dead, 1, BUILDER_KILL_AGAIN_MS) == 0)
            builder_kill_again(builder, made);
    }
    cgroup_read_stats(&builder->cgroups, &made->cgroup, &made->last);
}

bool builder_clear(struct builder *builder, struct made *made)
{
    fd_close(&made->pidfd);
    fd_close(&made->control_fd);
    fd_close(&made->map.fd);
    netns_close_sockets(made->sockets);
    /* A gateway's sockets may live on in the daemon. */
    net_give_back(&builder->nets, &made->net, !made->has_routes);
    fd_closer_take(&builder->fd_closer, &made->tree_fd);
    fd_closer_take(&builder->fd_closer, &made->layer_fd);
    buf_done(&made->memory.placed);
    if (!cgroup_retire(&builder->cgroups, &made->cgroup, &made->last, builder->keep))
        return false;
    ids_give_back(&builder->ids, made->outer_id);
    return true;
}
