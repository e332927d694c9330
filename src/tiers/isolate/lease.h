#pragma once

/* Workers on the loop: each does one thing at a time and belongs to one tenant for life.
 *
 * Spare workers wait and belong to no tenant. A lease is a worker that was taken; its holder starts
 * operations on it and gets their results. */

#include "engine/provider.h"
#include "isolate/client/worker.h"

struct lease;
struct leases;
struct services;

enum { LEASES_READY = 2, LEASES_IDLE_MAX = 16, LEASE_RUNS_MAX = 10000, LEASE_IDLE_MS = 30000 };

struct leases_calls {
    /* The spawner of workers died, and every worker with it. All leases have been notified
     * before. */
    void (*on_gone)(void *ctx, const struct err *why);
};

int leases_open(const struct provider_host *host, const struct leases_calls *calls, void *ctx,
                struct leases **ret_hands, struct err *err) MUST_USE;
/* Every lease must have been given back; requests that wait for one get CANCELED. */
void leases_close(struct leases *leases);

/* Workers without a tenant. */
struct pool_figures leases_pool(const struct leases *leases);

/* An idle worker of this tenant, or a fresh one when none is idle or with `fresh`. May call `done`
 * before it returns. */
typedef void lease_taken(void *ctx, struct lease *lease, const struct err *why);
void lease_take(struct leases *leases, struct str tenant, bool fresh, lease_taken *done, void *ctx);
/* Returns a lease. `reuse`: the worker is kept for later runs of the same tenant; otherwise it
 * ends. No call-back comes after this. */
void lease_give(struct lease *lease, bool reuse);

struct worker *lease_worker(const struct lease *lease);

/* Follows an operation that was started on the worker (worker_begin_*) to its last event; `event`
 * is never NULL: a worker that dies gives FAILED or a result. `services` for bridge calls, NULL for
 * none; `timeout_ms` is the run's. */
typedef void lease_ended(void *ctx, struct worker_event *event);
void lease_follow(struct lease *lease, const struct eval_calls *output, void *output_ctx,
                  struct services *services, int64_t timeout_ms, lease_ended *ended, void *ctx);
