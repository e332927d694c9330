/* The resource usage of a sandbox. */

#include "base/clock.h"
#include "base/id.h"
#include "base/map.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox_internal.h"

struct using
{
    struct engine *engine;
    char id[ID_SIZE]; /* it may be gone when the answer comes */
    struct sandbox_usage usage;
    sandbox_usage_done *done;
    void *ctx;
};

/* Over less time a rate says nothing. */
enum { RATE_MS = 250 };

/* Over the time since the last look, or since its start at the first. */
static double rate_of(struct sandbox *sandbox, int64_t cpu_us)
{
    int64_t now = clock_now_ns(), spent_ns = now - sandbox->usage_ns;
    int64_t spent_us = cpu_us - sandbox->usage_cpu_us;
    if (cpu_us < 0)
        return -1;
    if (sandbox->usage_ns == 0 || spent_us < 0) { /* or its processes are others */
        spent_us = cpu_us;
        spent_ns = (clock_date_ms() - sandbox->info.started_ms) * 1000000;
    } else if (spent_ns < RATE_MS * 1000000LL) {
        return sandbox->usage_cpus;
    }
    sandbox->usage_ns = now;
    sandbox->usage_cpu_us = cpu_us;
    sandbox->usage_cpus = spent_ns > 0 ? (double)spent_us * 1000 / (double)spent_ns : 0;
    return sandbox->usage_cpus;
}

static void on_used(void *ctx, const struct err *why)
{
    struct using *using = ctx;
    struct sandbox *sandbox = map_get(&using->engine->sandboxes, str_of(using->id));
    if (sandbox != NULL) {
        using->usage.net_bytes = sandbox->net_moved;
        using->usage.limits = sandbox->info.limits;
        using->usage.cpus = rate_of(sandbox, using->usage.cpu_us);
    }
    using->done(using->ctx, why == NULL ? &using->usage : NULL, why);
    free(using);
}

void engine_sandbox_usage(struct engine *engine, const struct engine_caller *caller, struct str id,
                          sandbox_usage_done *done, void *ctx)
{
    struct err err = {0};
    struct sandbox *sandbox = NULL;
    if (engine_check_caller(engine, caller, &err) == 0)
        sandbox = sandbox_find(engine, caller, id, &err);
    if (sandbox == NULL) {
        done(ctx, NULL, &err);
        return;
    }
    const struct provider_table *table = engine_table(engine, sandbox->info.tier);
    struct using *using = mem_alloc(sizeof *using);
    *using = (struct using){.engine = engine,
                            .usage = {.cpu_us = -1,
                                      .cpus = -1,
                                      .memory_bytes = -1,
                                      .memory_peak = -1,
                                      .disk_bytes = -1,
                                      .tasks = -1},
                            .done = done,
                            .ctx = ctx};
    (void)snprintf(using->id, sizeof using->id, "%.*s", STR_ARG(sandbox->info.id));
    if (sandbox->place == NULL || table->usage == NULL)
        on_used(using, NULL);
    else
        table->usage(sandbox->place, &using->usage, on_used, using);
}
