#pragma once

/* The engine in numbers, for whoever shows them. Part of engine/engine.h. */

#include "engine/sandbox.h"

/* Of a tier: jails or workers that wait for whoever comes next. */
struct pool_figures {
    size_t ready, building, wanted;
    uint64_t served, built; /* handed out ready, and made while somebody waited */
};

struct engine_figures {
    size_t sandboxes[ENGINE_TIER_COUNT][SANDBOX_STATE_COUNT];
    size_t sessions, volumes, snapshots;
    size_t commands_running;
    size_t waiting; /* answers that are due */
    /* Since the start. */
    uint64_t timeouts_absolute, timeouts_idle; /* of sandboxes */
    uint64_t timeouts_command;
    /* What was done once more: a row that could not be written, a run that lacked a package. */
    uint64_t retries_store, retries_run;
    uint64_t makers_lost; /* processes that make places died and were replaced */
    struct pool_figures pools[ENGINE_TIER_COUNT];
    struct {
        uint64_t batches, transactions, failures;
        double commit_s; /* in all transactions together */
        double slowest_commit_s;
        size_t waiting;
    } store;
};

struct engine_figures engine_figures(const struct engine *engine);
