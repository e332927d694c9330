#include "engine/figures.h"

#include "base/map.h"
#include "engine/command/command_internal.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/variables.h"
#include "store/store.h"

static size_t count_running(const struct engine *engine)
{
    size_t count = 0;
    MAP_EACH (entry, &engine->commands)
        count += ((const struct command *)entry->value)->info.state == COMMAND_RUNNING;
    return count;
}

static void look_at_pools(const struct engine *engine, struct engine_figures *figures)
{
    for (size_t tier = 0; tier < ENGINE_TIER_COUNT; tier++)
        if (engine->providers[tier] != NULL && engine->tables[tier]->pool != NULL)
            engine->tables[tier]->pool(engine->providers[tier], &figures->pools[tier]);
}

struct engine_figures engine_figures(const struct engine *engine)
{
    struct engine_figures figures = engine->figures;
    struct store_figures store = store_figures(engine->store);
    loop_assert(engine->loop);
    MAP_EACH (entry, &engine->sandboxes) {
        const struct sandbox *sandbox = entry->value;
        if (!sandbox->is_helper)
            figures.sandboxes[sandbox->info.tier][sandbox->info.state]++;
        if (sandbox->info.state != SANDBOX_RUNNING)
            continue;
        figures.memory_limit_bytes += sandbox->info.limits.memory_bytes;
        figures.disk_limit_bytes += sandbox->info.limits.disk_bytes;
    }
    look_at_pools(engine, &figures);
    variables_count(engine, &figures.variables);
    figures.sessions = engine->sessions.len;
    figures.volumes = engine->volumes.len;
    figures.snapshots = engine->snapshots.len;
    figures.commands_running = count_running(engine);
    figures.waiting = engine->answers;
    figures.store.batches = store.batches;
    figures.store.transactions = store.transactions;
    figures.store.failures = store.failures;
    figures.store.commit_s = (double)store.commit_ns / 1e9;
    figures.store.slowest_commit_s = (double)store.slowest_commit_ns / 1e9;
    figures.store.waiting = store.waiting;
    return figures;
}
