#pragma once

/* Metrics of the engine. Part of engine/engine.h. */

#include "engine/sandbox/sandbox.h"

/* Of what is kept by variables.h. */
struct variables_figures {
    size_t count;
    int64_t bytes;
    uint64_t dropped; /* for lack of space, since the start */
};

/* Of a tier: spare jails or workers that wait to be used. */
struct pool_figures {
    size_t ready, building, wanted;
    uint64_t served, built;       /* handed out ready, and made while a request waited */
    int64_t cpu_us, memory_bytes; /* of all jails of the tier, spare ones included; -1: unknown */
    int64_t disk_bytes;           /* of the files of its sandboxes on disk; -1: unknown */
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
    uint64_t net_bytes;                           /* through the gate, both ways */
    int64_t memory_limit_bytes, disk_limit_bytes; /* of the sandboxes that run, together */
    struct variables_figures variables;
    uint64_t processes_lost; /* processes that make places died and were replaced */
    struct pool_figures pools[ENGINE_TIER_COUNT];
    struct {
        uint64_t batches, transactions, failures;
        double commit_s; /* in all transactions together */
        double slowest_commit_s;
        size_t waiting;
    } store;
};

/* What one sandbox uses; -1: unknown. */
struct sandbox_usage {
    int64_t cpu_us; /* since it was made or last resumed after a restart */
    double cpus;    /* cores, since it was looked at last; -1: unknown */
    int64_t memory_bytes, memory_peak;
    int64_t disk_bytes; /* of its files, when they are on disk */
    int64_t net_bytes;  /* both ways, since the server started */
    int64_t tasks;      /* threads of its processes */
    struct sandbox_limits limits;
};
typedef void sandbox_usage_done(void *ctx, const struct sandbox_usage *usage,
                                const struct err *why);
/* One that has no processes (paused to disk, interrupted, stopped) uses nothing but its disk, which
 * is then not known. */
void engine_sandbox_usage(struct engine *engine, const struct engine_caller *caller, struct str id,
                          sandbox_usage_done *done, void *ctx);

struct engine_figures engine_figures(const struct engine *engine);
