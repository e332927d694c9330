#pragma once

/* Leases from inside, for lease.c and lease_follow.c. */

#include "base/vec.h"
#include "tiers/isolate/lease.h"

struct bridge_call;
struct bridge_set;
struct lease_request;
struct spawner;
struct timer;
struct watch;

struct bridging {
    struct lease *lease;
    struct bridge_call *call; /* NULL: free */
    uint64_t id;
};

struct lease {
    struct lease *next; /* among the idle ones */
    struct leases *leases;
    struct worker *worker;
    int fd; /* a copy of the worker's: it must outlive the watch, the worker may not */
    struct watch *watch;
    struct timer *timer;
    char *tenant;
    int64_t idle_since_ms;
    bool is_following, is_pumping, is_given, wants_reuse;
    struct eval_calls output;
    void *output_ctx;
    struct services *services;
    int64_t deadline_ms;
    lease_ended *ended;
    void *ctx;
    struct bridging *bridging; /* CALLS_MAX; NULL until the first call */
};

struct leases {
    const struct provider_host *host;
    struct leases_calls calls;
    void *ctx;
    struct bridge_set *set;
    struct spawner *spawner;
    struct watch *watch;
    VEC(struct worker *) ready;
    size_t asked;
    uint64_t served, built; /* given out at once, and after a wait */
    struct lease *idle;
    size_t idle_count;
    struct lease_request *waiting, **last_wish;
    struct timer *sweep;
};

/* lease_follow.c. Handles what the worker has sent. A call-back may return the lease: then it is
 * released after the last event. */
void lease_pump(struct lease *lease);
void lease_drop_calls(struct lease *lease);
