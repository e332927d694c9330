/* Decisions: recorded first, and only then in effect. The first decision wins; one that comes while
 * it is being recorded is refused too. */

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/sys.h"
#include "engine/answer.h"
#include "engine/approval/approval_internal.h"
#include "engine/internal.h"
#include "store/store.h"

/* A move that is being recorded: the approval as it will be. */
struct deciding {
    struct answer *answer;
    struct approval coming;
    enum approval_state from;
};

/* --- Words --- */

static struct str by_whom(const struct approval_info *info)
{
    return info->decided_by.len > 0 ? info->decided_by : STR("the engine");
}

static int refuse_decided(const struct approval_info *info, const char *did, struct err *err)
{
    char date[CLOCK_TEXT_SIZE];
    clock_format_utc(info->decided_ms, date);
    return err_set(err, ERR_CONFLICT, "approval '%.*s' was %s by '%.*s' at %s", STR_ARG(info->id),
                   did, STR_ARG(str_slice(by_whom(info), 0, ENGINE_NAME_MAX)), date);
}

int approval_refuse(const struct approval *approval, struct err *err)
{
    const struct approval_info *info =
        approval->deciding != NULL ? &approval->deciding->coming.info : &approval->info;
    char date[CLOCK_TEXT_SIZE];
    switch (info->state) {
    case APPROVAL_APPROVED:
        return refuse_decided(info, "approved", err);
    case APPROVAL_REJECTED:
        return refuse_decided(info, "rejected", err);
    case APPROVAL_USED:
        return refuse_decided(info, "used after it was approved", err);
    case APPROVAL_EXPIRED:
        clock_format_utc(info->expires_ms, date);
        return err_set(err, ERR_CONFLICT, "approval '%.*s' expired at %s; request it again",
                       STR_ARG(info->id), date);
    case APPROVAL_VOID:
        return err_set(err, ERR_CONFLICT, "approval '%.*s' is void: %.*s", STR_ARG(info->id),
                       STR_ARG(str_slice(info->reason, 0, 120)));
    case APPROVAL_PENDING:
    case APPROVAL_STATE_COUNT:
        break;
    }
    return err_set(err, ERR_CONFLICT, "approval '%.*s' is not decided yet", STR_ARG(info->id));
}

/* --- Recording --- */

/* The texts that the move brings, in the memory of the approval itself. */
static void take_over(struct approval *approval, const struct approval_info *coming)
{
    struct approval_info *info = &approval->info;
    info->decided_ms = coming->decided_ms;
    info->decided_by = arena_dup(&approval->arena, coming->decided_by);
    info->decided_token = arena_dup(&approval->arena, coming->decided_token);
    info->note = arena_dup(&approval->arena, coming->note);
}

static void approval_decide_on_recorded(void *ctx, const struct err *why)
{
    struct deciding *deciding = ctx;
    struct answer *answer = deciding->answer;
    struct err err = {0};
    struct approval *approval = map_get(&answer->engine->approvals, str_of(answer->id));
    CRASH_POINT("engine.approval.recorded");
    if (approval != NULL && approval->deciding == deciding)
        approval->deciding = NULL;
    if (why == NULL && (approval == NULL || approval->info.state != deciding->from)) {
        /* Void meanwhile; the store has that after this. */
        if (approval != NULL)
            (void)approval_refuse(approval, &err);
        else
            (void)err_set(&err, ERR_CONFLICT, "approval '%s' is void", answer->id);
        why = &err;
    }
    if (why == NULL) {
        take_over(approval, &deciding->coming.info);
        approval_move(approval, deciding->coming.info.state);
        approval->info.ended_ms = deciding->coming.info.ended_ms;
        log_info("approval.recorded", LOG_VIEW("approval", approval->info.id),
                 LOG_VIEW("kind", approval->info.kind),
                 LOG_STR("state", approval_state_name(approval->info.state)),
                 LOG_VIEW("by", approval->info.decided_token),
                 LOG_VIEW("digest", approval->info.digest));
        approval_tell(approval);
    }
    arena_done(&deciding->coming.arena);
    free(deciding);
    answer_give(answer, why);
}

struct approval_info *approval_decide_begin(struct approval *approval, enum approval_state to)
{
    assert(approval->deciding == NULL);
    struct deciding *deciding = mem_alloc(sizeof *deciding);
    deciding->from = approval->info.state;
    deciding->coming.engine = approval->engine;
    deciding->coming.info = approval->info;
    deciding->coming.ord = approval->ord;
    approval_move(&deciding->coming, to);
    approval->deciding = deciding;
    return &deciding->coming.info;
}

void approval_decide_record(struct approval *approval, struct answer *answer)
{
    struct deciding *deciding = approval->deciding;
    deciding->answer = answer;
    (void)snprintf(answer->id, sizeof answer->id, "%.*s", STR_ARG(approval->info.id));
    struct store_batch *batch = store_begin(approval->engine->store);
    approval_save(&deciding->coming, batch);
    store_commit(batch, STORE_DURABLE, approval_decide_on_recorded, deciding);
}

/* --- Deciding --- */

static int check_seen(const struct approval_info *info, const struct approval_decision *decision,
                      struct err *err)
{
    if (!str_eq(decision->subject, info->subject))
        return err_set(err, ERR_CONFLICT,
                       "approval '%.*s' is about '%.*s', not '%.*s'; look at it again before you "
                       "decide",
                       STR_ARG(info->id), STR_ARG(str_slice(info->subject, 0, 60)),
                       STR_ARG(str_slice(decision->subject, 0, 60)));
    if (decision->digest.len > 0 && !str_eq(decision->digest, info->digest))
        return err_set(err, ERR_CONFLICT,
                       "approval '%.*s' has another digest; look at it again before you decide",
                       STR_ARG(info->id));
    if (decision->note.len > APPROVAL_NOTE_MAX || !str_is_utf8(decision->note))
        return err_set(err, ERR_INVALID, "note: must be UTF-8 of at most %d bytes",
                       APPROVAL_NOTE_MAX);
    return 0;
}

static int check_decision(struct approval *approval, const struct approval_decision *decision,
                          struct err *err)
{
    if (check_seen(&approval->info, decision, err) < 0)
        return -1;
    if (approval->deciding == NULL && approval_is_open(approval->info.state) &&
        approval->info.expires_ms <= clock_date_ms())
        approval_end(approval, APPROVAL_EXPIRED, "", NULL);
    if (approval->deciding != NULL || approval->info.state != APPROVAL_PENDING)
        return approval_refuse(approval, err);
    return decision->is_approved ? approval_check(approval, err) : 0;
}

static void record(struct approval *approval, const struct engine_caller *caller,
                   const struct approval_decision *decision, struct answer *answer)
{
    struct approval_info *coming = approval_decide_begin(
        approval, decision->is_approved ? APPROVAL_APPROVED : APPROVAL_REJECTED);
    struct arena *arena = &approval->deciding->coming.arena;
    struct str by = caller->token_name.len > 0 ? caller->token_name : caller->token;
    coming->decided_ms = clock_date_ms();
    coming->decided_by = arena_dup(arena, by);
    coming->decided_token = arena_dup(arena, caller->token);
    coming->note = arena_dup(arena, decision->note);
    approval_decide_record(approval, answer);
}

void engine_approval_decide(struct engine *engine, const struct engine_caller *caller,
                            struct str id, const struct approval_decision *decision,
                            approval_done *done, void *ctx)
{
    struct answer *answer = approval_answer(engine, done, ctx);
    struct err err = {0};
    if (engine_check_caller(engine, caller, &err) < 0) {
        answer_give(answer, &err);
        return;
    }
    if (!caller->may_approve) {
        answer_fail(answer, ERR_FORBIDDEN, "only a token with the scope 'approve' may decide");
        return;
    }
    struct approval *approval = approval_find(engine, caller->tenant, id, &err);
    if (approval == NULL || check_decision(approval, decision, &err) < 0) {
        answer_give(answer, &err);
        return;
    }
    record(approval, caller, decision, answer);
}
