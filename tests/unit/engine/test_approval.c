/* Approvals: the table of moves, and the engine's side of requests, decisions, uses and ends. */

#include "rig.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/sys.h"
#include "engine/approval/approval_internal.h"
#include "engine/approval/approval_state.h"
#include "engine/internal.h"
#include "store/store.h"

/* --- The table --- */

TEST(names_lead_back)
{
    for (unsigned i = 0; i < APPROVAL_STATE_COUNT; i++) {
        enum approval_state at = APPROVAL_STATE_COUNT;
        CHECK(approval_state_of_name(str_of(approval_state_name((enum approval_state)i)), &at));
        CHECK_INT(at, i);
    }
    enum approval_state none;
    CHECK(!approval_state_of_name(STR("maybe"), &none));
}

TEST(every_state_is_reached_and_only_open_ones_are_left)
{
    size_t count = 0;
    const struct approval_move *moves = approval_moves(&count);
    bool reached[APPROVAL_STATE_COUNT] = {[APPROVAL_PENDING] = true};
    bool left[APPROVAL_STATE_COUNT] = {0};
    for (size_t i = 0; i < count; i++) {
        CHECK(moves[i].from != moves[i].to);
        CHECK(moves[i].by != NULL);
        reached[moves[i].to] = left[moves[i].from] = true;
    }
    for (unsigned i = 0; i < APPROVAL_STATE_COUNT; i++) {
        CHECK(reached[i]);
        CHECK_INT(left[i], approval_is_open((enum approval_state)i));
    }
}

TEST(only_an_approved_one_is_used_and_a_decision_is_final)
{
    for (unsigned i = 0; i < APPROVAL_STATE_COUNT; i++) {
        enum approval_state at = (enum approval_state)i;
        CHECK_INT(approval_may_move(at, APPROVAL_USED), at == APPROVAL_APPROVED);
        CHECK_INT(approval_may_move(at, APPROVAL_APPROVED), at == APPROVAL_PENDING);
        CHECK_INT(approval_may_move(at, APPROVAL_REJECTED), at == APPROVAL_PENDING);
        CHECK(!approval_may_move(at, APPROVAL_PENDING));
    }
}

/* --- The engine --- */

static struct {
    int approved, rejected, used, refused;
    enum approval_state last;
    char note[64];
    bool uses, does_not_hold;
} seen;

static int check(UNUSED void *ctx, UNUSED struct engine *engine,
                 UNUSED const struct approval_info *approval, struct err *err)
{
    return seen.does_not_hold ? err_set(err, ERR_CONFLICT, "the target moved") : 0;
}

static void on_used(UNUSED void *ctx, const struct approval_info *approval, const struct err *why)
{
    if (why == NULL) {
        CHECK_INT(approval->state, APPROVAL_USED);
        seen.used++;
    } else {
        CHECK_INT(why->code, ERR_CONFLICT);
        seen.refused++;
    }
}

/* Uses it twice: only one of the calls succeeds. */
static void on_approved(void *ctx, struct engine *engine, const struct approval_info *approval)
{
    CHECK(ctx == &seen);
    CHECK_INT(approval->state, APPROVAL_APPROVED);
    seen.approved++;
    if (!seen.uses)
        return;
    struct engine_caller requester = {.tenant = approval->tenant};
    engine_approval_use(engine, &requester, approval->id, approval->digest, on_used, NULL);
    engine_approval_use(engine, &requester, approval->id, approval->digest, on_used, NULL);
}

static void on_rejected(void *ctx, UNUSED struct engine *engine,
                        const struct approval_info *approval)
{
    CHECK(ctx == &seen);
    seen.rejected++;
    seen.last = approval->state;
    (void)snprintf(seen.note, sizeof seen.note, "%.*s", STR_ARG(approval->note));
}

static const struct approval_kind test_kind = {
    .name = "test", .check = check, .on_approved = on_approved, .on_rejected = on_rejected};

static void on_approval(void *ctx, const struct approval_info *approval, const struct err *why)
{
    struct rig *rig = ctx;
    CHECK((approval == NULL) == (why != NULL));
    if (approval != NULL)
        (void)snprintf(rig->id, sizeof rig->id, "%.*s", STR_ARG(approval->id));
    rig_on_plain(rig, why);
}

static void open_rig(struct rig *rig, const char *toml)
{
    memset(&seen, 0, sizeof seen);
    rig_open(rig, toml);
    rig->caller.token = STR("token1");
    rig->caller.token_name = STR("alice");
    rig->caller.may_approve = true;
    engine_approval_register(rig->engine, &test_kind, &seen);
}

static void reopen_rig(struct rig *rig)
{
    rig_reopen(rig);
    engine_approval_register(rig->engine, &test_kind, &seen);
}

static int ask_for(struct rig *rig, const char *subject, const char *digest, int64_t expires_ms)
{
    struct approval_spec spec = {.kind = STR("test"),
                                 .subject = str_of(subject),
                                 .digest = str_of(digest),
                                 .title = STR("Push to main"),
                                 .detail = STR("{\"files\":1}"),
                                 .expires_ms = expires_ms};
    return RIG_CALL(rig, engine_approval_request, &spec, on_approval);
}

static int decide(struct rig *rig, const char *id, const char *subject, bool is_approved)
{
    struct approval_decision decision = {
        .is_approved = is_approved, .subject = str_of(subject), .note = STR("as agreed")};
    return RIG_CALL(rig, engine_approval_decide, str_of(id), &decision, on_approval);
}

static struct approval_info look(struct rig *rig, const char *id)
{
    struct err err = {0};
    struct approval_info info = {0};
    CHECK_OK(engine_approval_get(rig->engine, &rig->caller, str_of(id), &info, &err));
    return info;
}

static void wait_for(struct rig *rig, const int *number, int least)
{
    int64_t until = clock_now_ms() + 60000;
    while (*number < least) {
        (void)loop_step(rig->loop);
        CHECK(clock_now_ms() < until);
    }
}

TEST(an_approval_is_recorded_used_once_and_survives)
{
    struct rig rig;
    struct err err = {0};
    open_rig(&rig, NULL);
    seen.uses = true;
    CHECK_INT(ask_for(&rig, "c0ffee", "d1", 0), 0);
    char id[64];
    (void)snprintf(id, sizeof id, "%s", rig.id);
    struct approval_info info = look(&rig, id);
    CHECK_INT(info.state, APPROVAL_PENDING);
    CHECK_STR(info.requested_by, "alice");
    CHECK_STR(info.requested_token, "token1");
    CHECK_INT(info.expires_ms - info.requested_ms, 24 * 3600000);
    CHECK_STR(look(&rig, "c0ffee").id, id); /* by subject */

    CHECK_INT(decide(&rig, id, "c0ffee", true), 0);
    CHECK_INT(seen.approved, 1);
    wait_for(&rig, &seen.used, 1);
    wait_for(&rig, &seen.refused, 1);
    info = look(&rig, id);
    CHECK_INT(info.state, APPROVAL_USED);
    CHECK_STR(info.decided_by, "alice");
    CHECK_STR(info.note, "as agreed");
    CHECK(info.decided_ms > 0 && info.ended_ms >= info.decided_ms);
    CHECK_INT(decide(&rig, id, "c0ffee", false), -1);
    CHECK_INT(rig.why.code, ERR_CONFLICT);
    CHECK(strstr(rig.why.msg, "by 'alice' at 20") != NULL);

    rig_close(&rig);
    reopen_rig(&rig);
    rig_run_ms(&rig, 500); /* a tick: nothing is called again */
    CHECK_INT(seen.approved, 1);
    info = look(&rig, id);
    CHECK_INT(info.state, APPROVAL_USED);
    CHECK_STR(info.digest, "d1");
    CHECK_STR(info.detail, "{\"files\":1}");
    CHECK_OK(store_check(rig.engine->store, &err));
    rig_done(&rig);
}

TEST(a_decision_must_name_what_the_person_saw)
{
    struct rig rig;
    open_rig(&rig, NULL);
    CHECK_INT(ask_for(&rig, "s", "d1", 0), 0);
    char id[64];
    (void)snprintf(id, sizeof id, "%s", rig.id);
    CHECK_INT(decide(&rig, id, "other", true), -1);
    CHECK_INT(rig.why.code, ERR_CONFLICT);
    struct approval_decision decision = {
        .is_approved = true, .subject = STR("s"), .digest = STR("d2")};
    CHECK_INT(RIG_CALL(&rig, engine_approval_decide, str_of(id), &decision, on_approval), -1);
    CHECK_INT(rig.why.code, ERR_CONFLICT);
    CHECK_INT(decide(&rig, "s", "s", true), -1); /* by id only */
    CHECK_INT(rig.why.code, ERR_NOT_FOUND);
    rig.caller.may_approve = false;
    CHECK_INT(decide(&rig, id, "s", true), -1);
    CHECK_INT(rig.why.code, ERR_FORBIDDEN);
    rig.caller.may_approve = true;
    rig.caller.tenant = STR("two");
    CHECK_INT(decide(&rig, id, "s", true), -1);
    CHECK_INT(rig.why.code, ERR_NOT_FOUND);
    rig.caller.tenant = STR("one");
    CHECK_INT(look(&rig, id).state, APPROVAL_PENDING);
    CHECK_INT(seen.approved, 0);
    rig_done(&rig);
}

TEST(of_two_decisions_at_once_the_first_wins)
{
    struct rig rig;
    open_rig(&rig, NULL);
    CHECK_INT(ask_for(&rig, "s", "d1", 0), 0);
    char id[64];
    (void)snprintf(id, sizeof id, "%s", rig.id);
    struct rig other = {.awaited = 1};
    struct engine_caller bob = {.tenant = STR("one"), .token = STR("b"), .may_approve = true};
    struct approval_decision yes = {.is_approved = true, .subject = STR("s")};
    struct approval_decision no = {.subject = STR("s")};
    rig.awaited++;
    engine_approval_decide(rig.engine, &rig.caller, str_of(id), &yes, on_approval, &rig);
    engine_approval_decide(rig.engine, &bob, str_of(id), &no, on_approval, &other);
    CHECK_INT(look(&rig, id).state, APPROVAL_PENDING); /* not in effect before it is recorded */
    wait_for(&rig, &other.answers, 1);
    CHECK_INT(rig_wait(&rig), 0);
    CHECK(other.failed);
    CHECK_INT(other.why.code, ERR_CONFLICT);
    CHECK(strstr(other.why.msg, "was approved by 'alice' at") != NULL);
    CHECK_INT(look(&rig, id).state, APPROVAL_APPROVED);
    CHECK_INT(seen.approved, 1);
    CHECK_INT(seen.rejected, 0);
    rig_done(&rig);
}

TEST(other_content_makes_the_earlier_request_void_and_the_same_is_asked_once)
{
    struct rig rig;
    open_rig(&rig, NULL);
    CHECK_INT(ask_for(&rig, "s", "d1", 0), 0);
    char first[64], second[64];
    (void)snprintf(first, sizeof first, "%s", rig.id);
    CHECK_INT(ask_for(&rig, "s", "d1", 0), 0);
    CHECK_CSTR(rig.id, first);
    CHECK_INT(ask_for(&rig, "s", "d2", 0), 0);
    (void)snprintf(second, sizeof second, "%s", rig.id);
    CHECK(strcmp(first, second) != 0);
    CHECK_INT(look(&rig, first).state, APPROVAL_VOID);
    CHECK_INT(decide(&rig, first, "s", true), -1);
    CHECK_INT(rig.why.code, ERR_CONFLICT);
    CHECK(strstr(rig.why.msg, "is void: replaced") != NULL);
    CHECK_STR(look(&rig, "s").id, second);
    CHECK_INT(RIG_CALL(&rig, engine_approval_withdraw, str_of(second), on_approval), 0);
    CHECK_INT(RIG_CALL(&rig, engine_approval_withdraw, str_of(second), on_approval), -1);
    CHECK_INT(rig.why.code, ERR_CONFLICT);
    CHECK_STR(look(&rig, second).reason, "withdrawn by the requester");
    CHECK_INT(seen.approved + seen.rejected, 0);
    rig_done(&rig);
}

TEST(void_while_a_decision_is_recorded_wins)
{
    struct rig rig;
    open_rig(&rig, NULL);
    CHECK_INT(ask_for(&rig, "s", "d1", 0), 0);
    char id[64];
    (void)snprintf(id, sizeof id, "%s", rig.id);
    struct approval_decision yes = {.is_approved = true, .subject = STR("s")};
    struct rig other = {.awaited = 1};
    rig.awaited++;
    engine_approval_decide(rig.engine, &rig.caller, str_of(id), &yes, on_approval, &rig);
    engine_approval_withdraw(rig.engine, &rig.caller, str_of(id), on_approval, &other);
    CHECK_INT(rig_wait(&rig), -1);
    CHECK_INT(rig.why.code, ERR_CONFLICT);
    wait_for(&rig, &other.answers, 1);
    CHECK(!other.failed);
    CHECK_INT(seen.approved, 0);
    rig_close(&rig);
    reopen_rig(&rig);
    rig_run_ms(&rig, 500);
    CHECK_INT(look(&rig, id).state, APPROVAL_VOID);
    CHECK_INT(seen.approved, 0);
    rig_done(&rig);
}

TEST(what_does_not_hold_any_more_is_void)
{
    struct rig rig;
    open_rig(&rig, NULL);
    CHECK_INT(ask_for(&rig, "s", "d1", 0), 0);
    char id[64];
    (void)snprintf(id, sizeof id, "%s", rig.id);
    seen.does_not_hold = true;
    CHECK_INT(decide(&rig, id, "s", true), -1);
    CHECK_INT(rig.why.code, ERR_CONFLICT);
    CHECK(strstr(rig.why.msg, "is void: the target moved") != NULL);
    CHECK_INT(look(&rig, id).state, APPROVAL_VOID);
    CHECK_INT(seen.approved, 0);
    rig_done(&rig);
}

TEST(a_rejection_and_an_expiry_are_reported_with_the_note)
{
    struct rig rig;
    open_rig(&rig, NULL);
    CHECK_INT(ask_for(&rig, "s", "d1", 0), 0);
    char id[64];
    (void)snprintf(id, sizeof id, "%s", rig.id);
    CHECK_INT(decide(&rig, id, "s", false), 0);
    CHECK_INT(seen.rejected, 1);
    CHECK_INT(seen.last, APPROVAL_REJECTED);
    CHECK_CSTR(seen.note, "as agreed");
    CHECK_INT(ask_for(&rig, "t", "d1", 1), 0);
    (void)snprintf(id, sizeof id, "%s", rig.id);
    wait_for(&rig, &seen.rejected, 2);
    CHECK_INT(seen.last, APPROVAL_EXPIRED);
    CHECK_INT(look(&rig, id).state, APPROVAL_EXPIRED);
    CHECK_INT(decide(&rig, id, "t", true), -1);
    CHECK_INT(rig.why.code, ERR_CONFLICT);
    CHECK(strstr(rig.why.msg, "expired at") != NULL);
    rig_done(&rig);
}

TEST(what_expired_while_the_server_was_down_is_not_begun)
{
    struct rig rig;
    open_rig(&rig, NULL);
    CHECK_INT(ask_for(&rig, "s", "d1", 0), 0);
    char id[64];
    (void)snprintf(id, sizeof id, "%s", rig.id);
    CHECK_INT(decide(&rig, id, "s", true), 0); /* not used: on_approved does nothing */
    CHECK_INT(seen.approved, 1);
    struct approval *approval = map_get(&rig.engine->approvals, str_of(id));
    struct store_batch *batch = store_begin(rig.engine->store);
    approval->info.expires_ms = clock_date_ms() - 1;
    approval_save(approval, batch);
    store_commit(batch, STORE_DURABLE, NULL, NULL);
    rig_free(&rig); /* before this engine looks for expired ones */
    CHECK_INT(seen.rejected, 0);
    reopen_rig(&rig);
    wait_for(&rig, &seen.rejected, 1);
    CHECK_INT(look(&rig, id).state, APPROVAL_EXPIRED);
    CHECK_INT(seen.approved, 1);
    rig_done(&rig);
}

TEST(an_approval_that_was_not_used_is_given_again_after_a_restart)
{
    struct rig rig;
    struct err err = {0};
    open_rig(&rig, NULL);
    CHECK_INT(ask_for(&rig, "s", "d1", 0), 0);
    char id[64];
    (void)snprintf(id, sizeof id, "%s", rig.id);
    CHECK_INT(decide(&rig, id, "s", true), 0);
    CHECK_INT(seen.approved, 1);
    CHECK_INT(look(&rig, id).state, APPROVAL_APPROVED);
    CHECK_INT(ask_for(&rig, "s", "d1", 0), 0); /* the requester finds it approved */
    CHECK_CSTR(rig.id, id);
    CHECK_INT(RIG_CALL(&rig, engine_approval_use, str_of(id), STR("other"), on_approval), -1);
    CHECK_INT(rig.why.code, ERR_CONFLICT);
    rig_close(&rig);
    seen.uses = true;
    reopen_rig(&rig);
    wait_for(&rig, &seen.used, 1);
    CHECK_INT(seen.approved, 2);
    CHECK_INT(look(&rig, id).state, APPROVAL_USED);
    CHECK_INT(RIG_CALL(&rig, engine_approval_use, str_of(id), STR("d1"), on_approval), -1);
    CHECK_INT(rig.why.code, ERR_CONFLICT);
    CHECK_OK(store_check(rig.engine->store, &err));
    rig_done(&rig);
}

TEST(requests_are_checked_and_counted)
{
    struct rig rig;
    open_rig(&rig, "[sandbox]\nprovider = \"memory\"\n[limits]\napprovals = 2\n"
                   "[approvals]\nexpire_hours = 3\n");
    struct approval_spec good = {.kind = STR("custom"), .subject = STR("s"), .title = STR("t")};
    struct approval_spec spec = good;
#define REFUSED(expected)                                                                          \
    CHECK_INT(RIG_CALL(&rig, engine_approval_request, &spec, on_approval), -1);                    \
    CHECK_INT(rig.why.code, (expected));                                                           \
    spec = good
    spec.kind = STR("unknown");
    REFUSED(ERR_INVALID);
    spec.subject = STR("");
    REFUSED(ERR_INVALID);
    spec.title = STR("two\nlines");
    REFUSED(ERR_INVALID);
    spec.title = STR("\033[2Jgone");
    REFUSED(ERR_INVALID);
    spec.title = STR("to \xe2\x80\xaeniam"); /* right to left */
    REFUSED(ERR_INVALID);
    spec.detail = STR("{not json");
    REFUSED(ERR_INVALID);
    spec.expires_ms = APPROVAL_EXPIRES_MAX_MS + 1;
    REFUSED(ERR_INVALID);
    CHECK_INT(RIG_CALL(&rig, engine_approval_request, &spec, on_approval), 0);
    struct approval_info info = look(&rig, rig.id);
    CHECK_INT(info.digest.len, 64);
    CHECK_INT(info.expires_ms - info.requested_ms, 3 * 3600000);
    spec.subject = STR("s2");
    CHECK_INT(RIG_CALL(&rig, engine_approval_request, &spec, on_approval), 0);
    spec.subject = STR("s3");
    REFUSED(ERR_LIMIT);
    rig_done(&rig);
}

TEST(ended_ones_go_after_keep_days_and_above_their_number)
{
    struct rig rig;
    open_rig(&rig, NULL);
    rig.config->limits.approvals = 0;
    CHECK_INT(ask_for(&rig, "old", "d", 0), 0);
    CHECK_INT(decide(&rig, rig.id, "old", false), 0);
    for (int i = 0; i < APPROVALS_UNDECIDED_KEPT + 10; i++) {
        char digest[16];
        (void)snprintf(digest, sizeof digest, "d%d", i);
        CHECK_INT(ask_for(&rig, "s", digest, 0), 0);
    }
    /* One is open, one was decided; of those that are void the oldest went. */
    CHECK_INT(rig.engine->approvals.len, APPROVALS_UNDECIDED_KEPT + 2);
    CHECK_INT(look(&rig, "old").state, APPROVAL_REJECTED);
    MAP_EACH (entry, &rig.engine->approvals) {
        struct approval *approval = entry->value;
        if (approval->info.ended_ms > 0)
            approval->info.ended_ms -= INT64_C(364) * 86400000;
    }
    approval_sweep(rig.engine);
    CHECK_INT(rig.engine->approvals.len, APPROVALS_UNDECIDED_KEPT + 2);
    rig.config->approvals.keep_days = 30;
    approval_sweep(rig.engine);
    CHECK_INT(rig.engine->approvals.len, 1);
    rig_close(&rig);
    reopen_rig(&rig);
    CHECK_INT(rig.engine->approvals.len, 1);
    rig_done(&rig);
}

#ifdef SG_FAULTS
/* The child is killed when the decision is in the store and before anything else happened. */
static void decide_and_die(const char *dir, bool is_approved)
{
    pid_t child = fork();
    if (child == 0) {
        struct rig rig = {.caller = {.tenant = STR("one"), .token = STR("t"), .may_approve = true}};
        struct err err = {0};
        char path[8192];
        (void)snprintf(rig.dir, sizeof rig.dir, "%s", dir);
        (void)snprintf(path, sizeof path, "%s/config.toml", dir);
        CHECK_OK(config_load(path, &rig.config, &err));
        CHECK_OK(loop_open(&rig.loop, &err));
        reopen_rig(&rig);
        sys_crash_at("engine.approval.recorded");
        (void)ask_for(&rig, is_approved ? "yes" : "no", "d", 0);
        (void)decide(&rig, rig.id, is_approved ? "yes" : "no", is_approved);
        _exit(3);
    }
    int status = 0;
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status));
}

TEST(a_kill_after_the_record_runs_the_handlers_at_the_next_start)
{
    struct rig rig;
    open_rig(&rig, NULL);
    rig_close(&rig);
    decide_and_die(rig.dir, true);
    decide_and_die(rig.dir, false);
    CHECK_INT(seen.approved + seen.rejected, 0);
    seen.uses = true;
    reopen_rig(&rig);
    wait_for(&rig, &seen.used, 1);
    wait_for(&rig, &seen.rejected, 1);
    CHECK_INT(look(&rig, "yes").state, APPROVAL_USED);
    CHECK_INT(look(&rig, "no").state, APPROVAL_REJECTED);
    CHECK_CSTR(seen.note, "as agreed");
    rig_close(&rig);
    reopen_rig(&rig);
    rig_run_ms(&rig, 500);
    CHECK_INT(seen.approved, 1);
    CHECK_INT(seen.rejected, 1);
    rig_done(&rig);
}
#endif
