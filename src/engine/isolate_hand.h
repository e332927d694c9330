#pragma once

/* Workers on the loop: each does one thing at a time and belongs to one tenant for life.
 *
 * Ready ones wait, belonging to nobody. A hand is a worker that was taken; whoever has it begins
 * things on it and hears how they end. */

#include "engine/provider.h"
#include "isolate/worker.h"

struct hand;
struct hands;
struct services;

enum { HANDS_READY = 2, HANDS_IDLE_MAX = 16, HAND_RUNS_MAX = 10000, HAND_IDLE_MS = 30000 };

struct hands_calls {
    /* The maker of workers died, and every worker with it. All hands have heard so before. */
    void (*on_gone)(void *ctx, const struct err *why);
};

int hands_open(const struct provider_host *host, const struct hands_calls *calls, void *ctx,
               struct hands **ret_hands, struct err *err) MUST_USE;
/* Every hand was given back before; those who wait for one hear CANCELED. */
void hands_close(struct hands *hands);

/* Workers that belong to nobody yet. */
struct pool_figures hands_pool(const struct hands *hands);

/* A worker of this tenant, or a fresh one when there is none idle or `fresh`. `done` may come
 * before the call returns. */
typedef void hand_taken(void *ctx, struct hand *hand, const struct err *why);
void hand_take(struct hands *hands, struct str tenant, bool fresh, hand_taken *done, void *ctx);
/* `reuse`: for later runs of the same tenant; else it ends. Nothing is heard of it any more. */
void hand_give(struct hand *hand, bool reuse);

struct worker *hand_worker(const struct hand *hand);

/* What is begun on the worker (worker_begin_*) is followed from here to its last event, which is
 * handed on with NULL `event` never: a worker that dies gives FAILED or a result. `services` for
 * bridge calls, NULL for none; `timeout_ms` is the run's. */
typedef void hand_ended(void *ctx, struct worker_event *event);
void hand_follow(struct hand *hand, const struct eval_calls *output, void *output_ctx,
                 struct services *services, int64_t timeout_ms, hand_ended *ended, void *ctx);
