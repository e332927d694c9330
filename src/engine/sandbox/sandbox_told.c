/* Notifies clients about the time limit and the state of their sandbox: that its limit is near,
 * that it was paused and why, and that it runs again. A client that cannot be notified while it
 * waits gets an error instead, so that no client waits for a paused sandbox without knowing it. */

#include "base/clock.h"
#include "engine/code/eval.h"
#include "engine/command/command_internal.h"
#include "engine/command/command_log.h"
#include "engine/feed_internal.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox_internal.h"
#include "store/store.h"

enum { WARN_MS = 60000 };

void sandbox_put_limit_reason(const struct sandbox *sandbox, struct buf *out)
{
    const struct sandbox_info *info = &sandbox->info;
    if (!sandbox->is_late)
        return;
    if (sandbox->is_late_by_idle) {
        buf_put_cstr(out, "it was idle for its idle limit of ");
        time_put_duration(info->idle_ms, out);
        buf_put_cstr(out, " (idleMs)");
    } else {
        buf_put_cstr(out, "its time limit of ");
        time_put_duration(info->timeout_ms, out);
        buf_put_cstr(out, " (timeoutMs) has passed");
    }
}

void sandbox_warn(struct sandbox *sandbox, int64_t now)
{
    const struct sandbox_info *info = &sandbox->info;
    char date[CLOCK_TEXT_SIZE];
    AUTO_BUF struct buf detail = {0};
    if (sandbox->is_warned || sandbox->expires_at == 0 || now < sandbox->expires_at - WARN_MS)
        return;
    sandbox->is_warned = true;
    clock_format_utc(info->expires_ms, date);
    buf_printf(&detail,
               "the sandbox will be %s at %s by its time limit (timeoutMs); POST "
               "/v1/sandboxes/%.*s/timeout sets another limit, timeoutMs 0 removes it",
               info->on_timeout == SANDBOX_KILL_AT_TIMEOUT ? "stopped" : "paused", date,
               STR_ARG(info->id));
    struct store_batch *batch = store_begin(sandbox->engine->store);
    feed_publish(sandbox->engine, batch, EVENT_SANDBOX_EXPIRING, info->tenant, info->id, info->id,
                 sandbox_state_name(info->state), buf_cstr(&detail));
    store_commit(batch, STORE_LAZY, NULL, NULL);
}

/* For a caller that waits and cannot get a message before the answer. */
void sandbox_paused_err(const struct sandbox *sandbox, struct err *err)
{
    const struct sandbox_info *info = &sandbox->info;
    if (sandbox->engine->is_stopping) {
        (void)err_set(err, ERR_UNAVAILABLE,
                      SERVER_STOPPED
                      "; all processes in sandbox '%.*s' have ended; its files are kept",
                      STR_ARG(info->id));
        return;
    }
    (void)err_set(err, ERR_CONFLICT,
                  "sandbox '%.*s' was paused%s%.*s; its processes continue when it is resumed",
                  STR_ARG(info->id), info->reason.len > 0 ? ": " : "", STR_ARG(info->reason));
}

/* Whether the state must be reported; at most once for each pause and each resume. */
bool sandbox_is_news(const struct sandbox_info *info, bool *was_paused)
{
    bool is_paused = info->state == SANDBOX_PAUSED;
    if (is_paused == *was_paused)
        return false;
    *was_paused = is_paused;
    return true;
}

void sandbox_tell_attached(struct sandbox *sandbox)
{
    enum sandbox_state state = sandbox->info.state;
    if ((state != SANDBOX_PAUSED && state != SANDBOX_RUNNING) || sandbox->is_helper)
        return;
    sandbox_hold(sandbox);
    command_tell_state(sandbox);
    eval_tell_state(sandbox);
    sandbox_unhold(sandbox);
}

/* What was found counts for so long. */
enum { CLEARED_MS = 5000 };

static void on_left(void *ctx, int64_t count)
{
    struct sandbox *sandbox = ctx;
    sandbox->is_looked_at = false;
    sandbox->cleared_at = count == 0 ? clock_boot_ms() : 0;
    if (count > 0)
        sandbox_touch(sandbox);
    sandbox_unhold(sandbox);
}

bool sandbox_is_idle(struct sandbox *sandbox)
{
    const struct provider_table *table = engine_table(sandbox->engine, sandbox->info.tier);
    if (sandbox->busy > 0 || feed_is_followed(sandbox->engine, sandbox->info.id))
        return false;
    if (table->left_running == NULL || sandbox->place == NULL ||
        sandbox->info.state != SANDBOX_RUNNING)
        return true;
    if (sandbox->cleared_at > sandbox->active_at &&
        sandbox->cleared_at + CLEARED_MS > clock_boot_ms())
        return true;
    if (!sandbox->is_looked_at) {
        sandbox->is_looked_at = true;
        sandbox_hold(sandbox);
        table->left_running(sandbox->place, on_left, sandbox);
    }
    return false;
}
