/* A sandbox's life: the only file that changes its state, and the requests that wait for that. */

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "engine/answer.h"
#include "engine/feed_internal.h"
#include "engine/internal.h"
#include "engine/sandbox/ledger.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/sandbox_state.h"
#include "engine/sandbox/turn_internal.h"
#include "engine/session/session_internal.h"
#include "engine/volume/volume_internal.h"
#include "store/store.h"

enum { RETRY_MS = 60000, LATE_PAUSES_MAX = 10 };

/* --- Moves --- */

void sandbox_set_reason(struct sandbox *sandbox, struct str reason)
{
    (void)snprintf(sandbox->reason, sizeof sandbox->reason, "%.*s", STR_ARG(reason));
    sandbox->info.reason = str_of(sandbox->reason);
}

static bool is_over(enum sandbox_state state)
{
    return state == SANDBOX_STOPPED || state == SANDBOX_FAILED || state == SANDBOX_INTERRUPTED;
}

static void set_clocks(struct sandbox *sandbox)
{
    struct sandbox_info *info = &sandbox->info;
    int64_t now = clock_boot_ms(), date = clock_date_ms();
    if (info->state == SANDBOX_RUNNING) {
        info->started_ms = info->started_ms == 0 ? date : info->started_ms;
        info->ended_ms = 0;
        if (sandbox->expires_at == 0)
            sandbox_set_timeout(sandbox, info->timeout_ms);
        sandbox->idle_at = info->idle_ms > 0 ? now + info->idle_ms : 0;
        sandbox->active_at = now;
    } else if (!sandbox_is_moving(info->state)) {
        sandbox->expires_at = sandbox->idle_at = 0;
        info->expires_ms = 0;
    }
    if (is_over(info->state))
        info->ended_ms = date;
}

void sandbox_set_timeout(struct sandbox *sandbox, int64_t timeout_ms)
{
    sandbox->info.timeout_ms = timeout_ms;
    sandbox->is_warned = false;
    sandbox->expires_at = timeout_ms > 0 ? clock_boot_ms() + timeout_ms : 0;
    sandbox->info.expires_ms = timeout_ms > 0 ? clock_date_ms() + timeout_ms : 0;
}

void sandbox_move(struct sandbox *sandbox, enum sandbox_state state, const char *reason,
                  struct store_batch *batch)
{
    struct sandbox_info *info = &sandbox->info;
    assert(sandbox_may_move(info->state, state));
    log_debug("sandbox.state", LOG_VIEW("sandbox", info->id),
              LOG_STR("from", sandbox_state_name(info->state)),
              LOG_STR("to", sandbox_state_name(state)));
    info->state = state;
    info->version++;
    sandbox_set_reason(sandbox, str_of(reason));
    set_clocks(sandbox);
    /* Values stay in memory no longer than a place can use them. */
    if (state == SANDBOX_STOPPED || state == SANDBOX_FAILED || state == SANDBOX_INTERRUPTED)
        sandbox_set_net(sandbox, NULL);
    sandbox_save(sandbox, batch);
    feed_publish(sandbox->engine, batch, EVENT_SANDBOX_STATE, info->tenant, info->id, info->id,
                 sandbox_state_name(state), reason);
}

static void sandbox_life_settle(struct sandbox *sandbox);
static void begin_resume(struct sandbox *sandbox);

void sandbox_go(struct sandbox *sandbox, enum sandbox_state state, const char *reason,
                struct answer *answer)
{
    struct store_batch *batch = store_begin(sandbox->engine->store);
    sandbox_move(sandbox, state, reason, batch);
    sandbox_commit(sandbox, batch, state == SANDBOX_PAUSED ? STORE_DURABLE : STORE_QUICK, answer);
    sandbox_tell_attached(sandbox);
    sandbox_life_settle(sandbox);
}

/* --- Those who wait --- */

static int refuse_want(const struct sandbox *sandbox, struct err *err)
{
    const struct sandbox_info *info = &sandbox->info;
    if (sandbox->engine->is_stopping)
        return err_set(err, ERR_UNAVAILABLE, "the server is stopping");
    if (info->state == SANDBOX_FAILED)
        return err_set(err, ERR_GONE, "sandbox '%.*s' has failed: %s", STR_ARG(info->id),
                       sandbox->reason);
    return err_set(err, ERR_GONE, "sandbox '%.*s' has stopped", STR_ARG(info->id));
}

/* Takes the first who need wait no longer. */
static struct want *take_want(struct sandbox *sandbox, bool *ret_refused)
{
    enum sandbox_state state = sandbox->info.state;
    for (struct want **at = &sandbox->wants; *at != NULL; at = &(*at)->next) {
        struct want *want = *at;
        bool is_ready = !want->needs_running || state == SANDBOX_RUNNING;
        *ret_refused =
            want->needs_running && (state == SANDBOX_STOPPED || state == SANDBOX_FAILED ||
                                    (sandbox->engine->is_stopping && state != SANDBOX_RUNNING));
        if (!is_ready && !*ret_refused)
            continue;
        *at = want->next;
        if (*at == NULL)
            sandbox->last_want = at;
        want->next = NULL;
        return want;
    }
    return NULL;
}

/* A call-back may start another state change: then the remaining requests keep waiting. */
static void sandbox_life_settle(struct sandbox *sandbox)
{
    struct err err = {0};
    bool is_refused = false;
    if (sandbox->is_settling)
        return;
    sandbox->is_settling = true;
    sandbox_hold(sandbox);
    struct want *want = NULL;
    while (!sandbox_is_moving(sandbox->info.state) &&
           (want = take_want(sandbox, &is_refused)) != NULL) {
        if (is_refused)
            (void)refuse_want(sandbox, &err);
        if (!is_refused && turn_before(sandbox, want))
            continue;
        want->call(want, sandbox, is_refused ? &err : NULL);
        if (sandbox->hold.is_freed)
            break;
    }
    sandbox->is_settling = false;
    sandbox_unhold(sandbox);
    if (sandbox->hold.is_freed)
        return;
    if (sandbox->wants != NULL &&
        (sandbox->info.state == SANDBOX_PAUSED || sandbox->info.state == SANDBOX_INTERRUPTED))
        begin_resume(sandbox);
}

void sandbox_wait(struct sandbox *sandbox, struct want *want)
{
    want->next = NULL;
    if (sandbox->wants == NULL)
        sandbox->last_want = &sandbox->wants;
    *sandbox->last_want = want;
    sandbox->last_want = &want->next;
    sandbox_life_settle(sandbox);
}

/* Requests that need it running, or all requests, fail with the reason. */
void sandbox_refuse(struct sandbox *sandbox, const struct err *why, bool all)
{
    struct want *first = sandbox->wants, *kept = NULL, **last = &kept;
    sandbox->wants = NULL;
    sandbox->last_want = &sandbox->wants;
    while (first != NULL) {
        struct want *want = first;
        first = want->next;
        want->next = NULL;
        if (want->needs_running || all) {
            want->call(want, sandbox, why);
        } else {
            *last = want;
            last = &want->next;
        }
    }
    *last = sandbox->wants; /* requests that came meanwhile */
    sandbox->wants = kept;
    for (sandbox->last_want = &sandbox->wants; *sandbox->last_want != NULL;)
        sandbox->last_want = &(*sandbox->last_want)->next;
}

/* --- Work and time --- */

void sandbox_touch(struct sandbox *sandbox)
{
    sandbox->info.active_ms = clock_date_ms();
    sandbox->active_at = clock_boot_ms();
    if (sandbox->info.idle_ms > 0 && sandbox->info.state == SANDBOX_RUNNING)
        sandbox->idle_at = clock_boot_ms() + sandbox->info.idle_ms;
}

void sandbox_tick(struct sandbox *sandbox, int64_t now)
{
    struct sandbox_info *info = &sandbox->info;
    sandbox_save_again(sandbox);
    if (info->state != SANDBOX_RUNNING)
        return;
    bool is_old = sandbox->expires_at > 0 && now >= sandbox->expires_at;
    bool is_idle = sandbox->idle_at > 0 && now >= sandbox->idle_at && sandbox_is_idle(sandbox);
    sandbox_warn(sandbox, now);
    if (!is_old && !is_idle)
        return;
    struct engine_figures *figures = &sandbox->engine->figures;
    *(is_old ? &figures->timeouts_absolute : &figures->timeouts_idle) += 1;
    log_info("sandbox.timeout", LOG_VIEW("sandbox", info->id),
             LOG_STR("kind", is_old ? "absolute" : "idle"));
    /* Asked again later, should it not work out. */
    sandbox->expires_at = is_old ? now + RETRY_MS : sandbox->expires_at;
    sandbox->idle_at = is_idle ? now + RETRY_MS : sandbox->idle_at;
    const struct provider_table *table = engine_table(sandbox->engine, info->tier);
    sandbox->is_late = true;
    sandbox->is_late_by_idle = !is_old;
    if (info->on_timeout == SANDBOX_KILL_AT_TIMEOUT || table->pause == NULL) {
        AUTO_BUF struct buf reason = {0};
        sandbox_put_limit_reason(sandbox, &reason);
        sandbox_begin_stop(sandbox, buf_cstr(&reason), NULL);
        return;
    }
    sandbox_begin_pause(sandbox, NULL);
}

/* --- Pausing --- */

struct moving {
    struct sandbox *sandbox;
    struct answer *answer;
};

static struct moving *moving_new(struct sandbox *sandbox, struct answer *answer)
{
    struct moving *moving = mem_alloc(sizeof *moving);
    *moving = (struct moving){sandbox, answer};
    return moving;
}

/* Nothing but time heals a host that is short of something; whatever else stands in the way is in
 * the files of the sandbox, which must not buy itself time with them. */
static bool may_try_again(struct sandbox *sandbox, const struct err *why)
{
    static const enum err_code of_the_host[] = {ERR_NO_SPACE,    ERR_LIMIT,   ERR_BUSY,
                                                ERR_UNAVAILABLE, ERR_TIMEOUT, ERR_INTERNAL};
    for (size_t i = 0; i < countof(of_the_host); i++)
        if (why->code == of_the_host[i])
            return ++sandbox->late_pauses < LATE_PAUSES_MAX;
    return false;
}

static void not_paused(struct sandbox *sandbox, const struct err *why)
{
    AUTO_BUF struct buf reason = {0};
    sandbox_go(sandbox, SANDBOX_RUNNING, "the sandbox could not be paused", NULL);
    if (!sandbox->is_late || may_try_again(sandbox, why))
        return;
    sandbox_put_limit_reason(sandbox, &reason);
    buf_printf(&reason, ", and it could not be paused: %s", why->msg);
    sandbox_begin_stop(sandbox, buf_cstr(&reason), NULL);
}

static void paused(struct sandbox *sandbox, struct answer *answer, struct str image,
                   const struct err *why)
{
    if (sandbox->info.state != SANDBOX_PAUSING) { /* it died meanwhile */
        answer_fail(answer, ERR_GONE, "sandbox '%.*s' died while it was being paused",
                    STR_ARG(sandbox->info.id));
        return;
    }
    if (why != NULL) {
        log_warn("sandbox.pause", LOG_VIEW("sandbox", sandbox->info.id),
                 LOG_STR("error", why->msg));
        answer_give(answer, why);
        not_paused(sandbox, why);
        sandbox->is_late = false;
        return;
    }
    AUTO_BUF struct buf old = sandbox->image, reason = {0};
    sandbox_put_limit_reason(sandbox, &reason);
    sandbox->is_late = false;
    sandbox->late_pauses = 0;
    sandbox->image = (struct buf){0};
    sandbox_set_image(sandbox, image);
    sandbox_release_image(sandbox->engine, sandbox->info.tier, buf_str(&old));
    sandbox_go(sandbox, SANDBOX_PAUSED, buf_cstr(&reason), answer);
}

static void on_paused(void *ctx, struct str image, UNUSED int64_t size, const struct err *why)
{
    struct moving *moving = ctx;
    paused(moving->sandbox, moving->answer, image, why);
    sandbox_unhold(moving->sandbox);
    free(moving);
}

void sandbox_begin_pause(struct sandbox *sandbox, struct answer *answer)
{
    const struct provider_table *table = engine_table(sandbox->engine, sandbox->info.tier);
    sandbox_go(sandbox, SANDBOX_PAUSING, "", NULL);
    sandbox_hold(sandbox);
    table->pause(sandbox->place, on_paused, moving_new(sandbox, answer));
}

/* --- Resuming --- */

static void resumed(struct sandbox *sandbox, const struct err *why)
{
    if (sandbox->info.state != SANDBOX_RESUMING)
        return;
    if (why == NULL) {
        sandbox_go(sandbox, SANDBOX_RUNNING, "", NULL);
        return;
    }
    log_warn("sandbox.resume", LOG_VIEW("sandbox", sandbox->info.id), LOG_STR("error", why->msg));
    /* What was put aside is still there: a later try may work. */
    struct store_batch *batch = store_begin(sandbox->engine->store);
    sandbox_move(sandbox, SANDBOX_PAUSED, why->msg, batch);
    sandbox_commit(sandbox, batch, STORE_QUICK, NULL);
    sandbox_refuse(sandbox, why, false);
    sandbox_life_settle(sandbox);
}

static void on_resumed(void *ctx, const struct err *why)
{
    struct sandbox *sandbox = ctx;
    if (sandbox->place != NULL) /* else it died meanwhile */
        resumed(sandbox, why);
    sandbox_unhold(sandbox);
}

static void on_remade(void *ctx, struct place *place, const struct err *why)
{
    struct sandbox *sandbox = ctx;
    sandbox->place = place;
    if (why == NULL)
        sandbox->is_disk_new = false;
    if (why != NULL && sandbox->info.volume.len > 0) {
        struct store_batch *batch = store_begin(sandbox->engine->store);
        volume_release(sandbox->engine, sandbox->info.volume, sandbox->info.id, batch);
        store_commit(batch, STORE_QUICK, NULL, NULL);
    }
    resumed(sandbox, why);
    sandbox_unhold(sandbox);
}

static void begin_resume(struct sandbox *sandbox)
{
    const struct provider_table *table = engine_table(sandbox->engine, sandbox->info.tier);
    if (sandbox->place == NULL && sandbox->disk[0] == '\0') {
        /* The saved state was a copy: the sandbox continues from it, on a disk. */
        AUTO_BUF struct buf image = {0};
        buf_put(&image, sandbox_last_image(sandbox));
        sandbox_want_disk(sandbox);
        if (sandbox->disk[0] != '\0')
            sandbox_set_image(sandbox, buf_str(&image));
    }
    sandbox_go(sandbox, SANDBOX_RESUMING, "", NULL);
    sandbox_hold(sandbox);
    /* An isolate comes back from its image; a jail's processes were only stopped. */
    if (sandbox->place != NULL && sandbox->info.tier == ENGINE_TIER_ISOLATE)
        sandbox_renew_network(sandbox, NULL, NULL);
    if (sandbox->place != NULL)
        table->resume(sandbox->place, on_resumed, sandbox);
    else
        sandbox_make_place(sandbox, sandbox_last_image(sandbox), on_remade, sandbox);
}

/* --- Stopping --- */

static void on_stopped(void *ctx, const struct err *why)
{
    struct moving *moving = ctx;
    struct sandbox *sandbox = moving->sandbox;
    struct answer *answer = moving->answer;
    struct engine *engine = sandbox->engine;
    free(moving);
    if (why != NULL)
        log_warn("sandbox.stop", LOG_VIEW("sandbox", sandbox->info.id), LOG_STR("error", why->msg));
    struct store_batch *batch = store_begin(engine->store);
    volume_release(engine, sandbox->info.volume, sandbox->info.id, batch);
    AUTO_BUF struct buf reason = {0};
    buf_put_cstr(&reason, sandbox->reason);
    sandbox_move(sandbox, SANDBOX_STOPPED, buf_cstr(&reason), batch);
    sandbox_drop_images(sandbox);
    session_sandbox_ended(engine, sandbox, batch);
    if (sandbox->is_deleting) {
        sandbox_remove(sandbox, batch, answer);
        return;
    }
    sandbox_commit(sandbox, batch, STORE_QUICK, answer);
    sandbox_life_settle(sandbox);
}

void sandbox_begin_stop(struct sandbox *sandbox, const char *reason, struct answer *answer)
{
    const struct provider_table *table = engine_table(sandbox->engine, sandbox->info.tier);
    struct place *place = sandbox->place;
    struct moving *moving = moving_new(sandbox, answer);
    sandbox->place = NULL;
    sandbox_go(sandbox, SANDBOX_STOPPING, reason, NULL);
    if (place == NULL)
        on_stopped(moving, NULL);
    else
        table->sandbox_end(place, false, on_stopped, moving);
}

/* The record goes, and with it the sandbox; commands and their logs stay for their time. */
void sandbox_remove(struct sandbox *sandbox, struct store_batch *batch, struct answer *answer)
{
    struct engine *engine = sandbox->engine;
    struct err gone = {0};
    assert(sandbox->info.state == SANDBOX_STOPPED);
    (void)err_set(&gone, ERR_NOT_FOUND, "no sandbox '%.*s'", STR_ARG(sandbox->info.id));
    store_remove(batch, &store_sandboxes, sandbox->info.id);
    feed_publish(engine, batch, EVENT_SANDBOX_DELETED, sandbox->info.tenant, sandbox->info.id,
                 sandbox->info.id, "", "");
    sandbox_commit(sandbox, batch, STORE_QUICK, answer);
    sandbox_refuse(sandbox, &gone, true);
    sandbox_leave(sandbox);
}

/* --- News from below --- */

static void sandbox_life_ignore(UNUSED void *ctx, UNUSED const struct err *why)
{
}

/* The place is no more. Its handle is given back; what was put aside stays. */
void sandbox_lost(struct sandbox *sandbox, enum sandbox_state to, const struct err *why)
{
    struct engine *engine = sandbox->engine;
    const struct provider_table *table = engine_table(engine, sandbox->info.tier);
    struct place *place = sandbox->place;
    if (sandbox->info.state == SANDBOX_CREATING) {
        /* Its record is still being written: sandbox_make answers waiting requests and cleans
         * up. */
        sandbox->is_lost = true;
        sandbox_set_reason(sandbox, str_of(why->msg));
        sandbox->place = NULL;
        if (place != NULL)
            table->sandbox_end(place, true, sandbox_life_ignore, NULL);
        return;
    }
    if (!sandbox_may_move(sandbox->info.state, to))
        return;
    log_warn("sandbox.lost", LOG_VIEW("sandbox", sandbox->info.id),
             LOG_STR("state", sandbox_state_name(to)), LOG_STR("error", why->msg));
    sandbox->place = NULL;
    struct loss loss = ledger_loss_now(LOSS_SANDBOX_ENDED);
    (void)ledger_lose_all(&sandbox->ledger, &loss);
    struct store_batch *batch = store_begin(engine->store);
    volume_release(engine, sandbox->info.volume, sandbox->info.id, batch);
    sandbox_move(sandbox, to, why->msg, batch);
    session_sandbox_ended(engine, sandbox, batch);
    sandbox_commit(sandbox, batch, STORE_QUICK, NULL);
    if (place != NULL)
        table->sandbox_end(place, true, sandbox_life_ignore, NULL);
    sandbox_refuse(sandbox, why, false);
    sandbox_life_settle(sandbox);
}
