/* What happens to approvals without a call: handlers, expiry, retention, and what the last run of
 * the server did not finish. */

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "config/config.h"
#include "engine/approval/approval_internal.h"
#include "engine/internal.h"
#include "store/store.h"

#define DAY_MS INT64_C(86400000)

/* --- The kind's handlers --- */

int approval_check(struct approval *approval, struct err *err)
{
    const struct approval_registered *of = approval_kind(approval->engine, approval->info.kind);
    struct err why = {0};
    if (of == NULL)
        return err_set(err, ERR_UNSUPPORTED, "this server has no approvals of the kind '%.*s'",
                       STR_ARG(approval->info.kind));
    if (of->kind->check == NULL ||
        of->kind->check(of->ctx, approval->engine, &approval->info, &why) == 0)
        return 0;
    if (approval_is_open(approval->info.state))
        approval_end(approval, APPROVAL_VOID, why.msg, NULL);
    return approval_refuse(approval, err);
}

/* Recorded after the handler was called: a kill -9 in between calls it again. */
static void call_end_handler(struct approval *approval)
{
    struct engine *engine = approval->engine;
    const struct approval_registered *of = approval_kind(engine, approval->info.kind);
    char id[ID_SIZE];
    (void)snprintf(id, sizeof id, "%.*s", STR_ARG(approval->info.id));
    of->kind->on_rejected(of->ctx, engine, &approval->info);
    approval =
        map_get(&engine->approvals, str_of(id)); /* the handler may have caused its removal */
    if (approval == NULL)
        return;
    struct store_batch *batch = store_begin(engine->store);
    approval->is_told = true;
    approval_save(approval, batch);
    store_commit(batch, STORE_LAZY, NULL, NULL);
}

static void call_handler(struct approval *approval)
{
    const struct approval_registered *of = approval_kind(approval->engine, approval->info.kind);
    if (approval_has_end_handler(approval)) {
        call_end_handler(approval);
    } else if (approval->info.state == APPROVAL_APPROVED && of != NULL &&
               of->kind->on_approved != NULL && !approval->is_called) {
        approval->is_called = true;
        of->kind->on_approved(of->ctx, approval->engine, &approval->info);
    }
}

void approval_tell(struct approval *approval)
{
    struct store_batch *batch = store_begin(approval->engine->store);
    approval_publish(approval, batch);
    store_commit(batch, STORE_LAZY, NULL, NULL);
    call_handler(approval);
}

/* --- Walks --- */

typedef bool is_wanted(const struct approval *approval, int64_t now_ms);
typedef void act(struct approval *approval);

/* Collects first: what acts may add and remove approvals. */
static void act_on(struct engine *engine, is_wanted *wanted, act *call)
{
    AUTO_ARENA struct arena arena = {0};
    VEC(struct str) ids = {0};
    int64_t now_ms = clock_date_ms();
    MAP_EACH (entry, &engine->approvals)
        if (wanted(entry->value, now_ms))
            *vec_push(&ids) = arena_dup(&arena, entry->key);
    VEC_EACH (id, &ids) {
        struct approval *approval = map_get(&engine->approvals, *id);
        if (approval != NULL && wanted(approval, now_ms))
            call(approval);
    }
    vec_done(&ids);
}

static bool is_expired(const struct approval *approval, int64_t now_ms)
{
    return approval_is_open(approval->info.state) && !approval->is_new &&
           approval->deciding == NULL && approval->info.expires_ms <= now_ms;
}

static void expire(struct approval *approval)
{
    approval_end(approval, APPROVAL_EXPIRED, "", NULL);
    call_handler(approval);
}

/* Of the last run: a state whose event was not published, or an approval that was not used. */
static bool is_unfinished(const struct approval *approval, UNUSED int64_t now_ms)
{
    const struct approval_registered *of = approval_kind(approval->engine, approval->info.kind);
    bool is_uncalled = approval->info.state == APPROVAL_APPROVED && !approval->is_called &&
                       of != NULL && of->kind->on_approved != NULL;
    return !approval->is_new && approval->deciding == NULL && (!approval->is_told || is_uncalled);
}

static void approval_due_finish(struct approval *approval)
{
    struct err err = {0};
    log_info("approval.resumed", LOG_VIEW("approval", approval->info.id),
             LOG_STR("state", approval_state_name(approval->info.state)));
    if (approval->info.state == APPROVAL_APPROVED &&
        approval_kind(approval->engine, approval->info.kind) != NULL &&
        approval_check(approval, &err) < 0)
        return; /* void now */
    if (approval->is_told)
        call_handler(approval);
    else
        approval_tell(approval);
}

void approval_due(struct engine *engine, int64_t date_ms)
{
    engine->approvals_due_ms = MIN(engine->approvals_due_ms, date_ms);
}

static void set_next_due(struct engine *engine)
{
    engine->approvals_due_ms = INT64_MAX;
    MAP_EACH (entry, &engine->approvals) {
        const struct approval *approval = entry->value;
        if (approval_is_open(approval->info.state))
            approval_due(engine, approval->info.expires_ms);
    }
}

void approval_tick(struct engine *engine)
{
    /* Expiry first: what expired while the server was down is not begun. */
    if (clock_date_ms() >= engine->approvals_due_ms) {
        act_on(engine, is_expired, expire);
        set_next_due(engine);
    }
    if (engine->approvals_resume) {
        engine->approvals_resume = false;
        act_on(engine, is_unfinished, approval_due_finish);
    }
}

/* --- Retention --- */

static bool is_old(const struct approval *approval, int64_t now_ms)
{
    int64_t days = approval->engine->config->approvals.keep_days;
    return days > 0 && !approval_is_open(approval->info.state) && approval->is_told &&
           now_ms - approval->info.ended_ms > days * DAY_MS;
}

static void approval_due_drop(struct approval *approval)
{
    struct store_batch *batch = store_begin(approval->engine->store);
    log_info("approval.retention", LOG_VIEW("approval", approval->info.id),
             LOG_STR("state", approval_state_name(approval->info.state)));
    approval_remove(approval, batch);
    store_commit(batch, STORE_QUICK, NULL, NULL);
}

static bool is_unsaved(const struct approval *approval, UNUSED int64_t now_ms)
{
    return approval->is_unsaved;
}

static void save_again(struct approval *approval)
{
    struct store_batch *batch = store_begin(approval->engine->store);
    approval_save(approval, batch);
    approval_commit(approval, batch, NULL);
}

void approval_sweep(struct engine *engine)
{
    act_on(engine, is_unsaved, save_again);
    act_on(engine, is_old, approval_due_drop);
}
