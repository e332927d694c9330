/* The daemon's questions and the warden's answers. */

#include <errno.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/inside/netns.h"
#include "jail/warden/relayer.h"
#include "jail/warden/warden_internal.h"

void warden_say(const int *fds, size_t fd_count)
{
    struct err err;
    /* If this fails, the daemon has exited; its closed socket is noticed soon. */
    if (wire_send(warden.daemon_fd, buf_str(&warden.out), fds, fd_count, &err) < 0)
        warden.leaving = true;
}

void warden_say_failed(uint32_t request, const struct err *reason)
{
    wire_begin(&warden.out, WARDEN_FAILED, request);
    wire_put_err(&warden.out, reason);
    warden_say(NULL, 0);
}

void warden_say_stats(uint32_t request, const struct slot *slot, const struct cgroup_stats *stats,
                      const struct cgroup_use *use)
{
    wire_begin(&warden.out, WARDEN_STATS, request);
    wire_put_i64(&warden.out, stats->oom_kills);
    wire_put_i64(&warden.out, stats->memory_peak);
    wire_put_i64(&warden.out, stats->memory_now);
    wire_put_i64(&warden.out, stats->pids_refused);
    wire_put_u32(&warden.out, slot->zygote);
    wire_put_i64(&warden.out, use == NULL ? -1 : use->cpu_us);
    wire_put_i64(&warden.out, use == NULL ? -1 : use->tasks);
    wire_put_i64(&warden.out, use == NULL ? -1 : use->processes);
    warden_say(NULL, 0);
}

void warden_say_done(uint32_t request)
{
    wire_begin(&warden.out, WARDEN_DONE, request);
    warden_say(NULL, 0);
}

static void on_make(uint32_t request, struct wire_in *in)
{
    struct jail_plan plan;
    struct err err = {0};
    if (plan_get(in, &plan, &err) < 0)
        return warden_say_failed(request, &err);
    if (warden_serve_from_pool(&plan, request))
        return;
    warden.built++;
    if (warden_build(&plan, request, &err) < 0)
        warden_say_failed(request, &err);
}

static void on_count(uint32_t request, UNUSED struct wire_in *in)
{
    wire_begin(&warden.out, WARDEN_COUNTS, request);
    wire_put_u32(&warden.out, (uint32_t)warden.pool_ready);
    wire_put_u32(&warden.out, (uint32_t)warden.pool_building);
    wire_put_u32(&warden.out, (uint32_t)warden.pool_target);
    wire_put_i64(&warden.out, (int64_t)warden.served);
    wire_put_i64(&warden.out, (int64_t)warden.built);
    struct cgroup_use use;
    cgroup_read_host_use(&warden.builder.cgroups, &use);
    wire_put_i64(&warden.out, use.cpu_us);
    wire_put_i64(&warden.out, use.memory_now);
    warden_say(NULL, 0);
}

static struct slot *owned(uint32_t number)
{
    if (number == 0 || number > warden.slots.len)
        return NULL;
    struct slot *slot = &warden.slots.ptr[number - 1];
    return slot->state == OWNED ? slot : NULL;
}

static struct slot *find_owned(uint32_t request, struct wire_in *in)
{
    uint32_t number = wire_get_u32(in);
    struct slot *slot = owned(number);
    struct err err = {0};
    if (slot == NULL) {
        (void)err_set(&err, ERR_NOT_FOUND, "no jail %u", number);
        warden_say_failed(request, &err);
    }
    return slot;
}

static void warden_verbs_on_end(uint32_t request, struct wire_in *in)
{
    struct slot *slot = find_owned(request, in);
    if (slot == NULL)
        return;
    slot->request = request;
    slot->answer_end = true;
    warden_end_jail((size_t)(slot - warden.slots.ptr));
}

static void warden_verbs_on_stat(uint32_t request, struct wire_in *in)
{
    struct slot *slot = find_owned(request, in);
    struct cgroup_stats stats;
    struct cgroup_use use;
    if (slot == NULL)
        return;
    cgroup_read_stats(&warden.builder.cgroups, &slot->made.cgroup, &stats);
    cgroup_read_use(&warden.builder.cgroups, &slot->made.cgroup, &use);
    warden_say_stats(request, slot, &stats, &use);
}

/* An interpreter that is being started would be part of the old root and of the new one. */
static bool is_being_entered(const struct slot *slot, uint32_t request)
{
    struct err err = {0};
    if (slot->forking == 0)
        return false;
    (void)err_set(&err, ERR_BUSY, "an interpreter is being started in it");
    warden_say_failed(request, &err);
    return true;
}

static void on_freeze(uint32_t request, struct wire_in *in)
{
    struct slot *slot = find_owned(request, in);
    struct err err = {0};
    bool frozen = wire_get_u32(in) != 0;
    if (slot == NULL)
        return;
    /* The zygote would wait in there for as long as the jail is frozen. */
    if (frozen && is_being_entered(slot, request))
        return;
    if (cgroup_freeze(&warden.builder.cgroups, &slot->made.cgroup, frozen, &err) < 0)
        return warden_say_failed(request, &err);
    slot->frozen = frozen;
    warden_say_done(request);
}

/* Processes are frozen while they move to another root. */
static int begin_moving(struct slot *slot, const struct jail_seal *seal, struct err *err)
{
    return seal->processes == 0 || slot->frozen
               ? 0
               : cgroup_freeze(&warden.builder.cgroups, &slot->made.cgroup, true, err);
}

static void end_moving(struct slot *slot, const struct jail_seal *seal)
{
    if (seal->processes > 0 && !slot->frozen)
        cgroup_thaw(&warden.builder.cgroups, &slot->made.cgroup);
}

static void on_seal(uint32_t request, struct wire_in *in)
{
    struct slot *slot = find_owned(request, in);
    struct jail_seal seal = {0};
    struct jail_plan plan;
    struct err err = {0};
    bool broken = false;
    AUTO_CLOSE int fd = -1;
    seal.kept = wire_get_u32(in);
    seal.most_bytes = wire_get_i64(in);
    seal.processes = wire_get_u32(in);
    if (slot == NULL || is_being_entered(slot, request))
        return;
    if (plan_get(in, &plan, &err) == 0 && begin_moving(slot, &seal, &err) == 0) {
        fd = relayer_seal(&warden.builder, &slot->made, &plan, &seal, &broken, &err);
        end_moving(slot, &seal);
    }
    /* Without its mounts the jail cannot be used. */
    if (broken)
        builder_kill(&warden.builder, &slot->made);
    if (fd < 0)
        return warden_say_failed(request, &err);
    wire_begin(&warden.out, WARDEN_SEALED, request);
    wire_put_u32(&warden.out, slot->made.memory.numbers[1]);
    warden_say(&fd, 1);
}

static void on_listen(uint32_t request, struct wire_in *in)
{
    struct slot *slot = find_owned(request, in);
    struct err err = {0};
    uint32_t port = wire_get_u32(in);
    if (slot == NULL)
        return;
    AUTO_CLOSE int fd = builder_listen(&warden.builder, &slot->made, port, &err);
    if (fd < 0)
        return warden_say_failed(request, &err);
    wire_begin(&warden.out, WARDEN_DONE, request);
    warden_say(&fd, 1);
}

static void on_gateway(uint32_t request, struct wire_in *in)
{
    struct slot *slot = find_owned(request, in);
    struct err err = {0};
    int sockets[JAIL_SOCKETS];
    uint32_t port = wire_get_u32(in);
    if (slot == NULL)
        return;
    warden_unwatch_proxy(slot);
    if (builder_open_gateway(&warden.builder, &slot->made, port, sockets, &err) < 0)
        return warden_say_failed(request, &err);
    wire_begin(&warden.out, WARDEN_DONE, request);
    warden_say(sockets, countof(sockets));
    netns_close_sockets(sockets);
}

static void on_layer(uint32_t request, struct wire_in *in)
{
    struct slot *slot = find_owned(request, in);
    struct err err = {0};
    if (slot == NULL)
        return;
    if (slot->made.layer_fd < 0) {
        (void)err_set(&err, ERR_UNSUPPORTED, "the jail's writable layer is not in memory");
        return warden_say_failed(request, &err);
    }
    wire_begin(&warden.out, WARDEN_DONE, request);
    warden_say(&slot->made.layer_fd, 1);
}

static void on_kill(uint32_t request, struct wire_in *in)
{
    struct slot *slot = find_owned(request, in);
    struct err err = {0};
    uint32_t command = wire_get_u32(in);
    if (slot == NULL)
        return;
    if (builder_kill_command(&warden.builder, &slot->made, command, slot->frozen, &err) < 0)
        warden_say_failed(request, &err);
    else
        warden_say_done(request);
}

static void on_limits(uint32_t request, struct wire_in *in)
{
    struct slot *slot = find_owned(request, in);
    struct jail_limits limits = {0};
    struct err err = {0};
    if (slot == NULL)
        return;
    limits.memory_bytes = wire_get_i64(in);
    limits.cpu_milli = wire_get_i64(in);
    limits.pids = slot->made.cgroup.pids; /* those stay */
    if (!wire_ended(in))
        (void)err_set(&err, ERR_INVALID, "only the limits memory and cpu can be changed");
    else if (cgroup_limit(&warden.builder.cgroups, &slot->made.cgroup, &limits, &err) == 0)
        return warden_say_done(request);
    warden_say_failed(request, &err);
}

static void on_fork(UNUSED uint32_t request, struct wire_in *in)
{
    warden_on_fork(owned(wire_get_u32(in)), in);
}

static const struct {
    uint32_t type;
    void (*handle)(uint32_t request, struct wire_in *in);
} handlers[] = {
    {WARDEN_MAKE, on_make},
    {WARDEN_END, warden_verbs_on_end},
    {WARDEN_STAT, warden_verbs_on_stat},
    {WARDEN_FREEZE, on_freeze},
    {WARDEN_POOL, warden_on_pool},
    {WARDEN_LISTEN, on_listen},
    {WARDEN_KILL, on_kill},
    {WARDEN_ZYGOTE, warden_on_make_zygote},
    {WARDEN_FORK, on_fork},
    {WARDEN_GATEWAY, on_gateway},
    {WARDEN_LAYER, on_layer},
    {WARDEN_SEAL, on_seal},
    {WARDEN_LIMITS, on_limits},
    {WARDEN_COUNT, on_count},
    {WARDEN_LEASE, warden_on_lease},
};

static void dispatch(struct wire_head head, struct wire_in *in)
{
    struct err err = {0};
    for (size_t i = 0; i < countof(handlers); i++)
        if (handlers[i].type == head.type)
            return handlers[i].handle(head.id, in);
    (void)err_set(&err, ERR_INVALID, "unknown message %u", head.type);
    warden_say_failed(head.id, &err);
}

void warden_on_daemon(void)
{
    struct err err = {0};
    ssize_t len = wire_recv(warden.daemon_fd, warden.in, warden.fds, false, &err);
    if (len < 0 && err.sys == EAGAIN)
        return;
    if (len <= 0) {
        warden.leaving = true;
        return;
    }
    struct wire_head head;
    struct wire_in in = wire_open(str_n(warden.in, (size_t)len), &head);
    if (head.type != WARDEN_COUNT)
        warden.asked_ns = clock_now_ns();
    dispatch(head, &in);
    wire_close_fds(warden.fds);
}
