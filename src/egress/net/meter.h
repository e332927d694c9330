#pragma once

/* What one sandbox has moved through the gate, and how much more it may at the moment. */

#include "base/base.h"

struct meter {
    int64_t per_second; /* bytes of both directions; 0: no limit */
    int64_t total_max;  /* 0: no limit */
    int64_t sent, received;
    int64_t budget; /* of the rate; below zero after a large piece */
    int64_t filled_ns;
    void (*on_dry)(void *ctx); /* may be NULL: the owner must call meter_fill */
    void *ctx;
};

static inline int64_t meter_total(const struct meter *meter)
{
    return meter->sent + meter->received;
}
/* No bytes may be moved until meter_fill has refilled the budget. */
static inline bool meter_is_dry(const struct meter *meter)
{
    return meter->per_second > 0 && meter->budget <= 0;
}
static inline void meter_count(struct meter *meter, size_t bytes, bool is_sent)
{
    bool was_dry = meter_is_dry(meter);
    *(is_sent ? &meter->sent : &meter->received) += (int64_t)bytes;
    meter->budget -= (int64_t)bytes;
    if (!was_dry && meter_is_dry(meter) && meter->on_dry != NULL)
        meter->on_dry(meter->ctx);
}
/* How much of `size` may be read at once, so that a rate is kept within its quarter of a second. */
static inline size_t meter_most(const struct meter *meter, size_t size)
{
    if (meter->per_second == 0 || meter->budget >= (int64_t)size)
        return size;
    return meter->budget > 0 ? (size_t)meter->budget : 1;
}
static inline bool meter_is_used_up(const struct meter *meter)
{
    return meter->total_max > 0 && meter_total(meter) >= meter->total_max;
}
/* Adds what the time since the last call is worth, at most a quarter of a second's. */
static inline void meter_fill(struct meter *meter, int64_t now_ns)
{
    int64_t most = meter->per_second / 4 + 1;
    double due = (double)(now_ns - meter->filled_ns) / 1e9 * (double)meter->per_second;
    if (meter->per_second == 0)
        most = 0; /* no user is waiting */
    int64_t more = due < (double)most ? (int64_t)due : most;
    meter->budget = MIN(meter->budget + more, most);
    meter->filled_ns = now_ns;
}
