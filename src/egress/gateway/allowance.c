#include "egress/gateway/allowance.h"

#include "base/clock.h"
#include "base/err.h"
#include "egress/net/meter.h"
#include "io/loop.h"

enum { METER_MS = 20 };

struct allowance {
    struct egress_proxy_limits limits; /* filled */
    struct meter meter;
    struct allowance_user *users; /* in the order in which they came */
    struct allowance_user **last;
    size_t in_use;
    struct timer *refill; /* while the meter is dry */
    struct timer *turn;   /* starts the next waiting user */
    void (*moved)(void *ctx, int64_t bytes);
    void *ctx;
};

static bool has_room(const struct allowance *allowance)
{
    return (int64_t)allowance->in_use < allowance->limits.connections;
}

/* Starts one user per turn, because its call-back may remove itself and other users. */
static void on_turn(void *ctx)
{
    struct allowance *allowance = ctx;
    struct allowance_user *user = allowance->users;
    while (user != NULL && !user->is_waiting)
        user = user->next;
    if (user == NULL || !has_room(allowance))
        return;
    user->is_waiting = false;
    allowance->in_use++;
    timer_set(allowance->turn, 0, 0);
    user->on_turn(user->ctx);
}

static void on_refill(void *ctx)
{
    struct allowance *allowance = ctx;
    meter_fill(&allowance->meter, clock_now_ns());
    if (meter_is_dry(&allowance->meter))
        return;
    timer_clear(allowance->refill);
    for (struct allowance_user *user = allowance->users, *next; user != NULL; user = next) {
        next = user->next;
        if (!user->is_waiting)
            user->on_refill(user->ctx);
    }
}

static void on_dry(void *ctx)
{
    struct allowance *allowance = ctx;
    timer_set(allowance->refill, METER_MS, METER_MS);
}

void allowance_set_limits(struct allowance *allowance, const struct egress_proxy_limits *limits)
{
    allowance->limits = *limits;
    if (allowance->limits.connections <= 0)
        allowance->limits.connections = EGRESS_PROXY_CONNECTIONS;
    allowance->meter.per_second = limits->bytes_per_second;
    allowance->meter.total_max = limits->bytes_total;
    allowance->meter.budget = limits->bytes_per_second / 4;
    allowance->meter.filled_ns = clock_now_ns();
    timer_set(allowance->refill, 0, METER_MS); /* for who waited for less */
    timer_set(allowance->turn, 0, 0);
}

const struct egress_proxy_limits *allowance_limits(const struct allowance *allowance)
{
    return &allowance->limits;
}

struct allowance *allowance_new(struct loop *loop, const struct egress_proxy_limits *limits,
                                void (*moved)(void *ctx, int64_t bytes), void *ctx)
{
    struct allowance *allowance = mem_alloc(sizeof *allowance);
    allowance->last = &allowance->users;
    allowance->moved = moved;
    allowance->ctx = ctx;
    allowance->refill = timer_new(loop, on_refill, allowance);
    allowance->turn = timer_new(loop, on_turn, allowance);
    allowance->meter.on_dry = on_dry;
    allowance->meter.ctx = allowance;
    allowance->meter.received = limits->bytes_before;
    allowance_set_limits(allowance, limits);
    return allowance;
}

struct allowance *allowance_free(struct allowance *allowance)
{
    if (allowance == NULL)
        return NULL;
    assert(allowance->users == NULL);
    (void)timer_free(allowance->refill);
    (void)timer_free(allowance->turn);
    free(allowance);
    return NULL;
}

bool allowance_enter(struct allowance *allowance, struct allowance_user *user)
{
    user->allowance = allowance;
    user->next = NULL;
    user->link = allowance->last;
    *allowance->last = user;
    allowance->last = &user->next;
    user->is_waiting = !has_room(allowance);
    if (!user->is_waiting)
        allowance->in_use++;
    return !user->is_waiting;
}

void allowance_leave(struct allowance_user *user)
{
    struct allowance *allowance = user->allowance;
    if (allowance == NULL)
        return;
    *user->link = user->next;
    if (user->next != NULL)
        user->next->link = user->link;
    else
        allowance->last = user->link;
    if (!user->is_waiting) {
        allowance->in_use--;
        timer_set(allowance->turn, 0, 0);
    }
    user->allowance = NULL;
}

bool allowance_is_dry(const struct allowance *allowance)
{
    return meter_is_dry(&allowance->meter);
}

void allowance_count(struct allowance *allowance, size_t bytes, bool is_sent)
{
    meter_count(&allowance->meter, bytes, is_sent);
    if (allowance->moved != NULL)
        allowance->moved(allowance->ctx, (int64_t)bytes);
}

int allowance_check(const struct allowance *allowance, struct err *err)
{
    if (!meter_is_used_up(&allowance->meter))
        return 0;
    return err_set(err, ERR_LIMIT, "the sandbox has used up its %lld bytes",
                   (long long)allowance->limits.bytes_total);
}
