/* Approvals in the store, their moves and the events of these. */

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "engine/answer.h"
#include "engine/approval/approval_internal.h"
#include "engine/feed_internal.h"
#include "engine/internal.h"
#include "store/store.h"

void approval_save(const struct approval *approval, struct store_batch *batch)
{
    const struct approval_info *info = &approval->info;
    store_put(batch, &store_approvals,
              &(struct store_approval){
                  .id = info->id,
                  .tenant = info->tenant,
                  .ord = approval->ord,
                  .kind = info->kind,
                  .subject = info->subject,
                  .digest = info->digest,
                  .title = info->title,
                  .detail = info->detail,
                  .sandbox = info->sandbox,
                  .state = str_of(approval_state_name(info->state)),
                  .requested_by = info->requested_by,
                  .requested_token = info->requested_token,
                  .requested_ms = info->requested_ms,
                  .expires_ms = info->expires_ms,
                  .decided_by = info->decided_by,
                  .decided_token = info->decided_token,
                  .decided_ms = info->decided_ms,
                  .note = info->note,
                  .reason = info->reason,
                  .ended_ms = info->ended_ms,
                  .told = approval->is_told,
              });
}

static struct approval *read_row(struct engine *engine, const struct store_approval *row)
{
    struct approval *approval = approval_new(engine, row->tenant);
    struct arena *arena = &approval->arena;
    approval->info = (struct approval_info){
        .id = arena_dup(arena, row->id),
        .tenant = approval->info.tenant,
        .kind = arena_dup(arena, row->kind),
        .subject = arena_dup(arena, row->subject),
        .digest = arena_dup(arena, row->digest),
        .title = arena_dup(arena, row->title),
        .detail = arena_dup(arena, row->detail),
        .sandbox = arena_dup(arena, row->sandbox),
        .requested_by = arena_dup(arena, row->requested_by),
        .requested_token = arena_dup(arena, row->requested_token),
        .requested_ms = row->requested_ms,
        .expires_ms = row->expires_ms,
        .decided_by = arena_dup(arena, row->decided_by),
        .decided_token = arena_dup(arena, row->decided_token),
        .decided_ms = row->decided_ms,
        .note = arena_dup(arena, row->note),
        .reason = arena_dup(arena, row->reason),
        .ended_ms = row->ended_ms,
    };
    approval->is_told = row->told != 0;
    approval->ord = row->ord;
    return approval;
}

static void approval_row_load(void *ctx, const void *data)
{
    struct engine *engine = ctx;
    const struct store_approval *row = data;
    struct approval *approval = read_row(engine, row);
    /* A state that this version does not know permits nothing. */
    if (!approval_state_of_name(row->state, &approval->info.state)) {
        log_warn("approval.state", LOG_VIEW("approval", row->id), LOG_VIEW("state", row->state));
        approval->info.state = APPROVAL_VOID;
    }
    engine->last_order = MAX(engine->last_order, row->ord);
    (void)map_put(&engine->approvals, approval->info.id, approval);
}

int approval_load(struct engine *engine, struct err *err)
{
    approval_open(engine);
    engine->approvals_due_ms = 0;
    engine->approvals_resume = true;
    return store_each(engine->store, &store_approvals, approval_row_load, engine, err);
}

void approval_move(struct approval *approval, enum approval_state to)
{
    assert(approval_may_move(approval->info.state, to));
    approval->info.state = to;
    approval->is_told = false;
    if (!approval_is_open(to))
        approval->info.ended_ms = clock_date_ms();
}

static enum event_kind event_of(enum approval_state state)
{
    static const enum event_kind kinds[] = {
        [APPROVAL_PENDING] = EVENT_APPROVAL_REQUESTED, [APPROVAL_APPROVED] = EVENT_APPROVAL_DECIDED,
        [APPROVAL_REJECTED] = EVENT_APPROVAL_DECIDED,  [APPROVAL_USED] = EVENT_APPROVAL_USED,
        [APPROVAL_EXPIRED] = EVENT_APPROVAL_EXPIRED,   [APPROVAL_VOID] = EVENT_APPROVAL_VOID,
    };
    _Static_assert(countof(kinds) == APPROVAL_STATE_COUNT, "an event for each state");
    return kinds[state];
}

bool approval_has_end_handler(const struct approval *approval)
{
    const struct approval_registered *of = approval_kind(approval->engine, approval->info.kind);
    enum approval_state state = approval->info.state;
    return of != NULL && of->kind->on_rejected != NULL &&
           (state == APPROVAL_REJECTED || state == APPROVAL_EXPIRED);
}

void approval_publish(struct approval *approval, struct store_batch *batch)
{
    const struct approval_info *info = &approval->info;
    approval->is_told = !approval_has_end_handler(approval); /* else: when that was called */
    approval_save(approval, batch);
    feed_publish(approval->engine, batch, event_of(info->state), info->tenant, info->id,
                 info->sandbox, approval_state_name(info->state),
                 info->state == APPROVAL_VOID ? info->reason.ptr : info->title.ptr);
}

/* --- Ends without a decision --- */

struct saving {
    struct engine *engine;
    struct str id;
    struct arena arena;
    struct answer *answer; /* NULL: nobody waits */
};

static void approval_row_on_saved(void *ctx, const struct err *why)
{
    struct saving *saving = ctx;
    struct approval *approval = map_get(&saving->engine->approvals, saving->id);
    if (why != NULL)
        log_error("approval.save", LOG_VIEW("approval", saving->id), LOG_STR("error", why->msg));
    if (approval != NULL)
        approval->is_unsaved = why != NULL;
    answer_give(saving->answer, why);
    arena_done(&saving->arena);
    free(saving);
}

void approval_commit(struct approval *approval, struct store_batch *batch, struct answer *answer)
{
    struct saving *saving = mem_alloc(sizeof *saving);
    saving->engine = approval->engine;
    saving->answer = answer;
    saving->id = arena_dup(&saving->arena, approval->info.id);
    store_commit(batch, STORE_DURABLE, approval_row_on_saved, saving);
}

void approval_end(struct approval *approval, enum approval_state to, const char *reason,
                  struct answer *answer)
{
    struct store_batch *batch = store_begin(approval->engine->store);
    approval_move(approval, to);
    approval->info.reason = arena_dup(&approval->arena, str_of(reason));
    log_info("approval.ended", LOG_VIEW("approval", approval->info.id),
             LOG_VIEW("kind", approval->info.kind), LOG_STR("state", approval_state_name(to)),
             LOG_VIEW("digest", approval->info.digest));
    approval_publish(approval, batch);
    approval_commit(approval, batch, answer);
}
