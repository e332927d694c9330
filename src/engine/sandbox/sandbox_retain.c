/* Retention: sandboxes are deleted after the time that [retention] sets. */

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "config/config.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox_internal.h"

enum { DAY_MS = 86400000 };

/* For how many days sandboxes of this state are kept; 0: without limit. Sandboxes that run, or that
 * can run again with their files unchanged (interrupted), are always kept. */
static int64_t days_of(const struct config_retention *config, enum sandbox_state state)
{
    return state == SANDBOX_STOPPED  ? config->stopped_days
           : state == SANDBOX_FAILED ? config->failed_days
           : state == SANDBOX_PAUSED ? config->paused_days
                                     : 0;
}

/* A session's sandbox lives as its session does. */
static bool is_due(const struct engine *engine, const struct sandbox *sandbox, int64_t now_ms)
{
    const struct sandbox_info *info = &sandbox->info;
    int64_t days = days_of(&engine->config->retention, info->state);
    int64_t since_ms = info->state == SANDBOX_PAUSED || info->ended_ms == 0
                           ? MAX(info->active_ms, info->created_ms)
                           : info->ended_ms;
    return days > 0 && info->session.len == 0 && !sandbox->is_helper && !sandbox->is_deleting &&
           now_ms - since_ms > days * DAY_MS;
}

void sandbox_retain(struct engine *engine)
{
    AUTO_ARENA struct arena arena = {0};
    VEC(struct str) due = {0};
    int64_t now_ms = clock_date_ms();
    MAP_EACH (entry, &engine->sandboxes) {
        const struct sandbox *sandbox = entry->value;
        if (is_due(engine, sandbox, now_ms))
            *vec_push(&due) = arena_dup(&arena, sandbox->info.id);
    }
    VEC_EACH (id, &due) {
        const struct sandbox *sandbox = map_get(&engine->sandboxes, *id);
        if (sandbox == NULL)
            continue;
        struct engine_caller caller = {.tenant = arena_dup(&arena, sandbox->info.tenant)};
        log_info("sandbox.retention", LOG_ID("sandbox", *id),
                 LOG_STR("state", sandbox_state_name(sandbox->info.state)),
                 LOG_INT("days", days_of(&engine->config->retention, sandbox->info.state)));
        engine_sandbox_delete(engine, &caller, *id, NULL, NULL);
    }
    vec_done(&due);
}
