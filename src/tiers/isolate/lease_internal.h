#pragma once

/* Leases from inside, for lease.c and lease_bridge.c. */

#include "base/hold.h"
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
    struct hold hold;  /* by lease_pump, during call-backs; ended by lease_give */
    bool is_following; /* an operation runs, whose events lease_pump takes */
    bool wants_reuse;  /* once it is given back */
    struct eval_calls output;
    void *output_ctx;
    struct services *services;
    int64_t deadline_ms;
    lease_ended *ended;
    void *ctx;
    struct bridging *bridging; /* an array; NULL until the first call */
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

/* Handles what the worker has sent. A call-back may give the lease back or start an operation on
 * the worker. Called from within a call-back it does nothing: the events that come meanwhile are
 * left to the call that holds the lease already. */
void lease_pump(struct lease *lease);

/* lease_bridge.c. The code of the worker calls a bridge. */
void lease_on_bridge(struct lease *lease, const struct worker_event *event);
/* The code does not wait for the call any more. */
void lease_on_cancel(struct lease *lease, uint64_t id);
/* Ends the calls under way. Not for a lease whose `bridging` is NULL. */
void lease_drop_calls(struct lease *lease);
