/* The daemon's questions and the warden's answers. */

#include <errno.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/netns.h"
#include "jail/relayer.h"
#include "jail/warden_internal.h"

void warden_say(const int *fds, size_t fd_count)
{
    struct err err;
    /* A daemon that cannot be told anything is gone; the end of its socket tells us soon. */
    if (wire_send(warden.daemon_fd, buf_str(&warden.out), fds, fd_count, &err) < 0)
        warden.leaving = true;
}

void warden_say_failed(uint32_t request, const struct err *reason)
{
    wire_begin(&warden.out, WARDEN_FAILED, request);
    wire_put_err(&warden.out, reason);
    warden_say(NULL, 0);
}

void warden_say_stats(uint32_t request, const struct slot *slot, const struct cgroup_stats *stats)
{
    wire_begin(&warden.out, WARDEN_STATS, request);
    wire_put_i64(&warden.out, stats->oom_kills);
    wire_put_i64(&warden.out, stats->memory_peak);
    wire_put_i64(&warden.out, stats->memory_now);
    wire_put_i64(&warden.out, stats->pids_refused);
    wire_put_u32(&warden.out, slot->zygote);
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

static void on_end(uint32_t request, struct wire_in *in)
{
    struct slot *slot = find_owned(request, in);
    if (slot == NULL)
        return;
    slot->request = request;
    slot->answer_end = true;
    /* Its init ends when nobody holds this: there may be a reason to wait with that. */
    slot->made.control_fd = fd_take(&warden.fds[0]);
    warden_end_jail((size_t)(slot - warden.slots.ptr));
}

static void on_stat(uint32_t request, struct wire_in *in)
{
    struct slot *slot = find_owned(request, in);
    struct cgroup_stats stats;
    if (slot == NULL)
        return;
    cgroup_read_stats(&warden.maker.cgroups, &slot->made.cgroup, &stats);
    warden_say_stats(request, slot, &stats);
}

/* Half-way in, a kernel would be part of the old root and of the new one. */
static bool is_being_entered(const struct slot *slot, uint32_t request)
{
    struct err err = {0};
    if (slot->forking == 0)
        return false;
    (void)err_set(&err, ERR_BUSY, "a kernel is being started in it");
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
    if (cgroup_freeze(&warden.maker.cgroups, &slot->made.cgroup, frozen, &err) < 0)
        return warden_say_failed(request, &err);
    slot->frozen = frozen;
    warden_say_done(request);
}

static void on_seal(uint32_t request, struct wire_in *in)
{
    struct slot *slot = find_owned(request, in);
    struct relayer_seal seal = {.kept = wire_get_u32(in), .most_bytes = wire_get_i64(in)};
    struct jail_plan plan;
    struct err err = {0};
    bool broken = false;
    AUTO_CLOSE int fd = -1;
    if (slot == NULL || is_being_entered(slot, request))
        return;
    if (plan_get(in, &plan, &err) == 0)
        fd = relayer_seal(&warden.maker, &slot->made, &plan, &seal, &broken, &err);
    if (broken)
        maker_kill(&warden.maker, &slot->made);
    if (fd < 0)
        return warden_say_failed(request, &err);
    wire_begin(&warden.out, WARDEN_DONE, request);
    warden_say(&fd, 1);
}

static void on_relayer(uint32_t request, struct wire_in *in)
{
    struct slot *slot = find_owned(request, in);
    struct jail_plan plan;
    struct err err = {0};
    bool broken = false;
    if (slot == NULL)
        return;
    if (is_being_entered(slot, request))
        return;
    if (plan_get(in, &plan, &err) == 0 &&
        relayer_run(&warden.maker, &slot->made, &plan, slot->frozen, &broken, &err) == 0) {
        undertaker_take(&warden.maker.undertaker, &slot->made.layer_fd);
        return warden_say_done(request);
    }
    /* Without its mounts it is of no use to anybody. */
    if (broken)
        maker_kill(&warden.maker, &slot->made);
    warden_say_failed(request, &err);
}

static void on_listen(uint32_t request, struct wire_in *in)
{
    struct slot *slot = find_owned(request, in);
    struct err err = {0};
    uint32_t port = wire_get_u32(in);
    if (slot == NULL)
        return;
    AUTO_CLOSE int fd = maker_listen(&warden.maker, &slot->made, port, &err);
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
    if (maker_open_gateway(&warden.maker, &slot->made, port, sockets, &err) < 0)
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
        (void)err_set(&err, ERR_UNSUPPORTED, "the jail writes to no layer in memory");
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
    if (maker_kill_command(&warden.maker, &slot->made, command, slot->frozen, &err) < 0)
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
        (void)err_set(&err, ERR_INVALID, "limits are memory and cpu");
    else if (cgroup_limit(&warden.maker.cgroups, &slot->made.cgroup, &limits, &err) == 0)
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
    {WARDEN_END, on_end},
    {WARDEN_STAT, on_stat},
    {WARDEN_FREEZE, on_freeze},
    {WARDEN_POOL, warden_on_pool},
    {WARDEN_LISTEN, on_listen},
    {WARDEN_RELAYER, on_relayer},
    {WARDEN_KILL, on_kill},
    {WARDEN_TEMPLATE, warden_on_template},
    {WARDEN_FORK, on_fork},
    {WARDEN_GATEWAY, on_gateway},
    {WARDEN_LAYER, on_layer},
    {WARDEN_SEAL, on_seal},
    {WARDEN_LIMITS, on_limits},
    {WARDEN_COUNT, on_count},
};

static void dispatch(struct wire_head head, struct wire_in *in)
{
    struct err err = {0};
    for (size_t i = 0; i < countof(handlers); i++)
        if (handlers[i].type == head.type)
            return handlers[i].handle(head.id, in);
    (void)err_set(&err, ERR_INVALID, "no message %u", head.type);
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
