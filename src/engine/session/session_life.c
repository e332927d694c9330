/* A session's sandbox: made at the first use, put to rest after a while, brought back with its
 * files when it is used again. */

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "engine/answer.h"
#include "engine/feed_internal.h"
#include "engine/internal.h"
#include "engine/key.h"
#include "engine/sandbox/ledger.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/spec.h"
#include "engine/sandbox/turn_internal.h"
#include "engine/sandbox/variables.h"
#include "engine/session/session.h"
#include "engine/session/session_internal.h"
#include "engine/volume/volume_internal.h"
#include "store/store.h"

enum { PACKAGES_WAIT_MS = 60000, PACKAGES_STEP_MS = 20 };

/* --- Its sandbox --- */

static void wake(struct session *session, struct sandbox *sandbox, const struct err *why)
{
    struct session_want *first = session->wants;
    session->wants = NULL;
    session->is_making = false;
    while (first != NULL) {
        struct session_want *want = first;
        first = want->next;
        want->call(want, sandbox, why);
    }
}

/* The kept interpreters were restored, or never will be: the sandbox has reported which. */
static void end_waking(struct session *session, struct sandbox *sandbox)
{
    struct live_interpreters *live = session->waking;
    session->waking = NULL;
    if (live != NULL)
        engine_table(session->engine, session->info.tier)->live_free(live);
    if (sandbox == NULL)
        return;
    sandbox->live = NULL;
    session->kept = variables_free(session->kept);
}

static void on_sandbox_made(void *ctx, struct sandbox *sandbox, const struct err *why)
{
    struct session *session = ctx;
    end_waking(session, sandbox);
    if (sandbox == NULL) {
        log_warn("session.use", LOG_VIEW("session", session->info.id),
                 LOG_ID("sandbox", str_of(session->sandbox)), LOG_STR("error", why->msg));
        session->sandbox[0] = '\0';
        wake(session, NULL, why);
        return;
    }
    session->info.state = SESSION_ACTIVE;
    session->info.active_ms = clock_date_ms();
    session->ledger.entries.len = 0; /* the sandbox has it */
    session->history.turns.len = 0;
    struct store_batch *batch = store_begin(session->engine->store);
    session_save(session, batch);
    feed_publish(session->engine, batch, EVENT_SESSION_ACTIVE, session->info.tenant,
                 session->info.id, sandbox->info.id, "active", "");
    store_commit(batch, STORE_QUICK, NULL, NULL);
    wake(session, sandbox, NULL);
}

static struct engine_caller caller_of(const struct session *session)
{
    return (struct engine_caller){
        .tenant = session->info.tenant, .is_operator = true, .quota = session->quota};
}

static void make_sandbox(struct session *session)
{
    struct engine_caller caller = caller_of(session);
    struct sandbox_spec spec = session->spec;
    struct sandbox *sandbox = NULL;
    struct err err = {0};
    AUTO_ARENA struct arena arena = {0};
    spec.volume = str_of(session->volume);
    spec.idle_ms = -1; /* the session's own counts */
    if (session_fill_spec(session, &arena, &spec, &err) < 0 ||
        sandbox_from_spec(session->engine, &caller, &spec, &sandbox, &err) < 0) {
        on_sandbox_made(session, NULL, &err);
        return;
    }
    sandbox->info.session = arena_dup(&sandbox->arena, session->info.id);
    ledger_copy(&sandbox->ledger, &session->ledger);
    time_limit_show(sandbox);
    history_copy(&sandbox->history, &session->history);
    sandbox->live = session->waking = variables_use(session->kept);
    (void)snprintf(session->sandbox, sizeof session->sandbox, "%.*s", STR_ARG(sandbox->info.id));
    sandbox_make(sandbox, &caller, (struct str){0}, on_sandbox_made, session);
}

static void on_volume_made(void *ctx, struct str id, const struct err *why)
{
    struct session *session = ctx;
    if (why != NULL) {
        wake(session, NULL, why);
        return;
    }
    (void)snprintf(session->volume, sizeof session->volume, "%.*s", STR_ARG(id));
    struct store_batch *batch = store_begin(session->engine->store);
    session_save(session, batch);
    store_commit(batch, STORE_QUICK, NULL, NULL);
    make_sandbox(session);
}

static void make_volume(struct session *session)
{
    struct engine *engine = session->engine;
    struct engine_caller caller = caller_of(session);
    struct err err = {0};
    if (session->volume[0] != '\0' ||
        engine_table(engine, spec_tier(engine, session->spec.tier))->volume_create == NULL) {
        make_sandbox(session);
        return;
    }
    struct volume_spec spec = {.tier = session->spec.tier, .ttl_ms = session_volume_ttl(session)};
    if (volume_make(engine, &caller, &spec, session->info.id, NULL, on_volume_made, session, &err) <
        0)
        wake(session, NULL, &err);
}

static bool waits_for_packages(const struct session *session)
{
    const struct engine_dependencies *built = &session->engine->dependencies;
    return session->spec.tier != ENGINE_TIER_MEMORY && built->slug[0] != '\0' &&
           strcmp(built->state, "building") == 0;
}

static void on_packages_tick(void *ctx)
{
    struct session *session = ctx;
    struct err err = {0};
    bool is_late = clock_now_ms() - session->packages_since_ms > PACKAGES_WAIT_MS;
    if (session->engine->is_stopping)
        (void)err_set(&err, ERR_UNAVAILABLE, "the server is stopping");
    else if (waits_for_packages(session) && is_late)
        (void)err_set(&err, ERR_BUSY,
                      "the packages of the configuration are still being installed (%.120s); try "
                      "again later",
                      session->engine->dependencies.detail);
    else if (waits_for_packages(session))
        return;
    session->packages_timer = timer_free(session->packages_timer);
    if (err.code != ERR_NONE)
        wake(session, NULL, &err);
    else
        make_volume(session);
}

/* A sandbox that is made before its packages are there would never have them. Where they cannot be
 * installed it is made without. */
static void make(struct session *session)
{
    session->is_making = true;
    if (!waits_for_packages(session)) {
        make_volume(session);
        return;
    }
    session->packages_since_ms = clock_now_ms();
    session->packages_timer = timer_new(session->engine->loop, on_packages_tick, session);
    timer_set(session->packages_timer, PACKAGES_STEP_MS, PACKAGES_STEP_MS);
}

/* NULL: none. */
static struct sandbox *sandbox_of(const struct session *session)
{
    return session->sandbox[0] == '\0'
               ? NULL
               : map_get(&session->engine->sandboxes, str_of(session->sandbox));
}

/* Callers that come at the same moment share what the first one makes. */
void session_use(struct session *session, struct session_want *want)
{
    struct sandbox *sandbox = sandbox_of(session);
    session->info.active_ms = clock_date_ms();
    if (sandbox != NULL && !session->is_making && !session->is_resting) {
        session->info.state = SESSION_ACTIVE;
        session->ledger.entries.len = 0; /* of a rest that a crash prevented */
        session->history.turns.len = 0;
        want->call(want, sandbox, NULL);
        return;
    }
    want->next = session->wants;
    session->wants = want;
    if (!session->is_making && !session->is_resting)
        make(session);
}

/* --- Using --- */

struct using
{
    struct session_want session;
    struct want want;
    struct answer *answer;
};

static void use_running(struct want *want, UNUSED struct sandbox *sandbox, const struct err *why)
{
    struct using *using = CONTAINER_OF(want, struct using, want);
    answer_give(using->answer, why);
    free(using);
}

static void use_sandbox(struct session_want *want, struct sandbox *sandbox, const struct err *why)
{
    struct using *using = (struct using *)want;
    if (why != NULL) {
        answer_give(using->answer, why);
        free(using);
        return;
    }
    (void)snprintf(using->answer->id, sizeof using->answer->id, "%.*s", STR_ARG(sandbox->info.id));
    sandbox_touch(sandbox);
    sandbox_wait(sandbox, &using->want);
}

void engine_session_use(struct engine *engine, const struct engine_caller *caller, struct str id,
                        sandbox_done *done, void *ctx)
{
    struct answer *answer = answer_sandbox(engine, done, ctx);
    struct err err = {0};
    struct session *session = session_of_caller(engine, caller, id, &err);
    if (session == NULL) {
        answer_give(answer, &err);
        return;
    }
    struct using *using = mem_alloc(sizeof *using);
    *using = (struct using){.session = {.call = use_sandbox},
                            .want = {.needs_running = true, .call = use_running},
                            .answer = answer};
    session_use(session, &using->session);
}

/* --- Resting --- */

struct resting {
    struct loop_task task;
    struct session *session;
    struct answer *answer;
    bool is_deleting;
    struct sandbox *sandbox;        /* while its interpreters write down what they hold */
    struct live_interpreters *live; /* which is this */
};

static void session_life_on_gone(void *ctx, const struct err *why)
{
    struct answer *answer = ctx;
    answer_give(answer, why);
}

/* The sandbox is closed. */
static void rested(struct session *session, bool is_deleting, struct answer *answer)
{
    struct engine *engine = session->engine;
    session->is_resting = false;
    session->info.state = SESSION_DORMANT;
    struct store_batch *batch = store_begin(engine->store);
    if (is_deleting) {
        store_remove(batch, &store_sessions, session->row_id);
        key_forget(engine, session->info.tenant, session->info.id, batch);
        feed_publish(engine, batch, EVENT_SESSION_DELETED, session->info.tenant, session->info.id,
                     (struct str){0}, "", "");
        if (session->volume[0] != '\0') {
            store_commit(batch, STORE_DURABLE, NULL, NULL);
            volume_drop(engine, str_of(session->volume), answer);
        } else {
            store_commit(batch, STORE_DURABLE, session_life_on_gone, answer);
        }
        (void)map_remove(&engine->sessions, session->row_id);
        struct err gone = {0};
        (void)err_set(&gone, ERR_NOT_FOUND, "the session was deleted");
        wake(session, NULL, &gone);
        docs_remove_modules(session);
        (void)session_free(session);
        return;
    }
    session_save(session, batch);
    feed_publish(engine, batch, EVENT_SESSION_DORMANT, session->info.tenant, session->info.id,
                 (struct str){0}, "dormant", "");
    store_commit(batch, STORE_QUICK, NULL, NULL);
    answer_give(answer, NULL);
    if (session->wants != NULL) /* used again meanwhile */
        make(session);
}

static void rest_done(void *ctx, UNUSED const struct err *why)
{
    struct resting *resting = ctx;
    resting->session->sandbox[0] = '\0';
    rested(resting->session, resting->is_deleting, resting->answer);
    free(resting);
}

static void on_put_aside(void *ctx, UNUSED const struct sandbox_info *info, const struct err *why)
{
    struct resting *resting = ctx;
    if (why != NULL)
        log_warn("session.rest", LOG_VIEW("session", resting->session->info.id),
                 LOG_ID("sandbox", str_of(resting->session->sandbox)), LOG_STR("error", why->msg));
    rested(resting->session, resting->is_deleting, resting->answer);
    free(resting);
}

static void close_sandbox(struct resting *resting)
{
    struct session *session = resting->session;
    struct engine_caller caller = caller_of(session);
    engine_sandbox_delete(session->engine, &caller, str_of(session->sandbox), rest_done, resting);
}

/* What its row says is true for the next server as well. */
static void give_up_rest(struct resting *resting)
{
    struct session *session = resting->session;
    struct err err = {0};
    (void)err_set(&err, ERR_UNAVAILABLE, "the server is stopping");
    session->is_resting = false;
    if (resting->live != NULL)
        engine_table(session->engine, resting->sandbox->info.tier)->live_free(resting->live);
    sandbox_end_work(resting->sandbox);
    answer_give(resting->answer, &err);
    wake(session, NULL, &err);
    free(resting);
}

static void keep_and_close(struct loop_task *task)
{
    struct resting *resting = (struct resting *)task;
    struct session *session = resting->session;
    session->engine->answers--;
    if (session->engine->is_stopping) {
        give_up_rest(resting);
        return;
    }
    session->kept = variables_free(session->kept);
    session->kept =
        variables_keep(session->engine, resting->sandbox, session->info.id, resting->live);
    resting->live = NULL;
    sandbox_end_work(resting->sandbox);
    close_sandbox(resting);
}

/* Called from within the place, which ends with the sandbox: that waits for the next turn. */
static void on_taken(void *ctx, struct live_interpreters *live, UNUSED const struct err *why)
{
    struct resting *resting = ctx;
    resting->live = live;
    resting->task.run = keep_and_close;
    loop_post(resting->session->engine->loop, &resting->task);
}

/* Where there is no volume, what the sandbox holds is all there is: it is paused, not closed. */
static void rest(struct session *session, bool is_deleting, struct answer *answer)
{
    struct engine *engine = session->engine;
    struct sandbox *sandbox = sandbox_of(session);
    struct engine_caller caller = caller_of(session);
    if (sandbox == NULL) {
        session->sandbox[0] = '\0';
        rested(session, is_deleting, answer);
        return;
    }
    struct resting *resting = mem_alloc(sizeof *resting);
    *resting = (struct resting){.session = session, .answer = answer, .is_deleting = is_deleting};
    session->is_resting = true;
    const struct provider_table *table = engine_table(engine, sandbox->info.tier);
    if (!is_deleting && table->volume_create == NULL && table->pause != NULL) {
        engine_sandbox_pause(engine, &caller, sandbox->info.id, on_put_aside, resting);
        return;
    }
    bool is_kept = !is_deleting && variables_are_wanted(sandbox);
    if (!is_deleting) {
        /* Written before the sandbox's row goes: a crash in between loses neither. */
        struct store_batch *batch = store_begin(engine->store);
        session_keep_ledger(session, sandbox, LOSS_DORMANT);
        session_save(session, batch);
        store_commit(batch, STORE_QUICK, NULL, NULL);
    }
    if (!is_kept) {
        close_sandbox(resting);
        return;
    }
    resting->sandbox = sandbox;
    sandbox_begin_work(sandbox);
    engine->answers++; /* what is under way ends before the engine does */
    variables_take(sandbox, on_taken, resting);
}

void engine_session_rest(struct engine *engine, const struct engine_caller *caller, struct str id,
                         session_done *done, void *ctx)
{
    struct answer *answer = session_answer(engine, done, ctx);
    struct err err = {0};
    struct session *session = session_of_caller(engine, caller, id, &err);
    if (session == NULL) {
        answer_give(answer, &err);
        return;
    }
    answer->number = (uint64_t)session->ord;
    if (session->is_making || session->is_resting)
        answer_fail(answer, ERR_BUSY, "session '%.*s' is already starting or going dormant",
                    STR_ARG(id));
    else
        rest(session, false, answer);
}

void engine_session_delete(struct engine *engine, const struct engine_caller *caller, struct str id,
                           engine_done *done, void *ctx)
{
    struct answer *answer = answer_plain(engine, done, ctx);
    struct err err = {0};
    struct session *session = session_of_caller(engine, caller, id, &err);
    if (session == NULL) {
        answer_give(answer, &err);
    } else if (session->is_making || session->is_resting) {
        answer_fail(answer, ERR_BUSY, "session '%.*s' is starting or going dormant; try again",
                    STR_ARG(id));
    } else {
        session->is_deleting = true;
        rest(session, true, answer);
    }
}

void session_tick(struct engine *engine, int64_t now)
{
    MAP_EACH (entry, &engine->sessions) {
        struct session *session = entry->value;
        struct sandbox *sandbox = sandbox_of(session);
        if (session->info.state != SESSION_ACTIVE || session->is_making || session->is_resting ||
            session->is_deleting || session->info.idle_ms == 0 || sandbox == NULL)
            continue;
        if (now - sandbox->active_at >= session->info.idle_ms &&
            !sandbox_is_moving(sandbox->info.state) && sandbox_is_idle(sandbox))
            rest(session, false, NULL);
    }
}
