/* The pool: finished jails that wait to be used, and when there is time to make them. */

#include "base/clock.h"
#include "base/err.h"
#include "jail/warden/warden_internal.h"
#include "jail/wire/init.h"

/* While requests come, the pool is refilled only when less than one in REFILL_LOW is left. The
 * stock that is kept for reuse depends on its size; after the idle time almost nothing is kept. */
enum {
    REFILL_LOW = 8,
    REFILL_AT_ONCE = 2,
    REFILL_PAUSE_MS = 100,
    QUIET_MS = 3,
    STOCK_READY = 8,
    STOCK_LEAST = 16,
    STOCK_PER_JAIL = 4,
    REST_READY = 1,
};

/* What a finished jail can still be given: memory and cpu. The rest must be as the pool's. */
static void profile_of(const struct jail_plan *plan, struct buf *out)
{
    struct jail_plan key = *plan;
    key.limits.memory_bytes = key.limits.cpu_milli = 1;
    buf_clear(out);
    plan_put(out, &key);
}

bool warden_serve_from_pool(const struct jail_plan *plan, uint32_t request)
{
    AUTO_BUF struct buf key = buf_with_limit(WIRE_MAX);
    if (warden.pool_ready == 0)
        return false;
    profile_of(plan, &key);
    if (!str_eq(buf_str(&key), buf_str(&warden.profile)))
        return false;
    const struct jail_limits *ready = &warden.profile_plan.limits, *wanted = &plan->limits;
    bool same =
        ready->memory_bytes == wanted->memory_bytes && ready->cpu_milli == wanted->cpu_milli;
    for (size_t i = 0; i < warden.slots.len; i++) {
        struct slot *slot = &warden.slots.ptr[i];
        struct err err;
        if (slot->state != POOLED || slot->profile != warden.profile_number)
            continue;
        if (!same && cgroup_limit(&warden.builder.cgroups, &slot->made.cgroup, wanted, &err) < 0)
            return false;
        warden.pool_ready--;
        warden.served++;
        warden_hand_over(i, request);
        return true;
    }
    return false;
}

static void note_size(uint32_t count, int64_t idle_ms)
{
    warden.pool_target = count;
    warden.pool_idle_ns = idle_ms * 1000000;
    warden.builder.keep = MAX((size_t)count * STOCK_PER_JAIL, (size_t)STOCK_LEAST);
}

/* True for the plan that the pool's jails were made by. */
static bool is_same_plan(const struct jail_plan *plan, const struct jail_limits *before)
{
    AUTO_BUF struct buf key = buf_with_limit(WIRE_MAX);
    profile_of(plan, &key);
    return warden.profile_number > 0 && str_eq(buf_str(&key), buf_str(&warden.profile)) &&
           plan->limits.memory_bytes == before->memory_bytes &&
           plan->limits.cpu_milli == before->cpu_milli;
}

/* Jails of an older profile leave; the new ones come when there is time. */
void warden_on_pool(uint32_t request, struct wire_in *in)
{
    struct err err = {0};
    uint32_t count = wire_get_u32(in);
    int64_t idle_ms = wire_get_i64(in);
    size_t len = in->rest.len;
    if (len > sizeof warden.profile_packet || count > WARDEN_POOL_MAX) {
        (void)err_set(&err, ERR_INVALID, "a pool may hold 0 to %d jails", WARDEN_POOL_MAX);
        return warden_say_failed(request, &err);
    }
    if (idle_ms < 0 || idle_ms > WARDEN_IDLE_MAX_MS) {
        (void)err_set(&err, ERR_INVALID, "a pool may become idle after 0 to %d ms",
                      WARDEN_IDLE_MAX_MS);
        return warden_say_failed(request, &err);
    }
    /* The plan borrows its strings from the packet: keep a copy. */
    memmove(warden.profile_packet, in->rest.ptr, len);
    struct wire_in copy = {.rest = str_n(warden.profile_packet, len)};
    const struct jail_limits before = warden.profile_plan.limits;
    warden.pool_target = 0;
    if (plan_get(&copy, &warden.profile_plan, &err) < 0)
        return warden_say_failed(request, &err);
    if (!is_same_plan(&warden.profile_plan, &before)) {
        profile_of(&warden.profile_plan, &warden.profile);
        warden.profile_number++;
        for (size_t i = 0; i < warden.slots.len; i++)
            if (warden.slots.ptr[i].state == POOLED)
                warden_end_jail(i);
    }
    note_size(count, idle_ms);
    warden_say_done(request);
}

static bool is_resting(void)
{
    return warden.pool_idle_ns > 0 && clock_now_ns() - warden.asked_ns > warden.pool_idle_ns;
}

static size_t pool_size(void)
{
    return is_resting() ? MIN(warden.pool_target, (size_t)REST_READY) : warden.pool_target;
}

static bool is_quiet(int64_t now)
{
    return now - warden.asked_ns > QUIET_MS * 1000000LL;
}

/* Only while there is time: it takes more of the processor than it spares the command. */
void warden_rehearse(const struct slot *slot)
{
    struct err unused;
    if (!is_quiet(clock_now_ns()))
        return;
    wire_begin(&warden.out, INIT_REHEARSE, 0);
    /* If the send fails, init is dead, which is noticed later. */
    (void)!wire_send(slot->made.control_fd, buf_str(&warden.out), NULL, 0, &unused);
}

/* Whether the pool may be refilled: at once when it runs low, else when there was no request for a
 * while, so that building does not compete with the command that was just handed its jail. */
bool warden_may_refill(void)
{
    int64_t now = clock_now_ns();
    if (now < warden.refill_after_ns)
        return false;
    return warden.pool_ready * REFILL_LOW < warden.pool_target || is_quiet(now);
}

static bool pool_wants(void)
{
    return warden.pool_ready + warden.pool_building < pool_size() &&
           warden.pool_building < REFILL_AT_ONCE;
}

void warden_pause_refill(void)
{
    warden.refill_after_ns = clock_now_ns() + REFILL_PAUSE_MS * 1000000LL;
}

static bool refill(void)
{
    struct err err = {0};
    if (!pool_wants())
        return false;
    if (warden_build(&warden.profile_plan, 0, &err) < 0)
        warden_pause_refill();
    return true;
}

static bool shrink(void)
{
    if (warden.pool_ready <= pool_size())
        return false;
    for (size_t i = 0; i < warden.slots.len; i++)
        if (warden.slots.ptr[i].state == POOLED) {
            warden_end_jail(i);
            return true;
        }
    return false;
}

/* Networks and groups, ahead of the jails that will need them. */
static bool stock(void)
{
    bool resting = is_resting();
    size_t ready = resting ? REST_READY : STOCK_READY;
    size_t keep = resting ? REST_READY : warden.builder.keep;
    if (warden.pool_target == 0)
        ready = 0;
    return net_stock_step(&warden.builder.nets, ready, keep) ||
           cgroup_stock(&warden.builder.cgroups, &warden.profile_plan.limits, ready, keep);
}

bool warden_idle_work(void)
{
    for (size_t i = 0; i < warden.slots.len && warden.buried > 0; i++)
        if (warden.slots.ptr[i].state == BURIED)
            warden_clear_jail(&warden.slots.ptr[i]);
    if (!warden_may_refill() || warden.owed > 0)
        return false;
    return refill() || fd_closer_flush(&warden.builder.fd_closer) || shrink() || stock();
}

/* Time until the next work: a request, a refill of the pool, or the pool's idle time. */
int warden_wait_ms(bool more)
{
    if (more)
        return 0;
    if (warden.owed > 0)
        return -1;
    if (warden.buried > 0 || warden.builder.fd_closer.count > 0 || pool_wants() ||
        !warden.is_stocked)
        return QUIET_MS;
    if (warden.pool_idle_ns == 0 || is_resting())
        return -1;
    return (int)((warden.asked_ns + warden.pool_idle_ns - clock_now_ns()) / 1000000) + 1;
}
