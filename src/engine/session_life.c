/* A session's sandbox: made at the first use, put to rest after a while, brought back with its
 * files when it is used again. */

#include "base/clock.h"
#include "base/log.h"
#include "engine/session.h"
#include "engine/session_internal.h"

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

static void on_sandbox_made(void *ctx, struct sandbox *sandbox, const struct err *why)
{
    struct session *session = ctx;
    if (sandbox == NULL) {
        log_warn("session.use", LOG_VIEW("session", session->info.id),
                 LOG_ID("sandbox", str_of(session->sandbox)), LOG_STR("error", why->msg));
        session->sandbox[0] = '\0';
        wake(session, NULL, why);
        return;
    }
    session->info.state = SESSION_ACTIVE;
    session->info.active_ms = clock_date_ms();
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
    spec.volume = str_of(session->volume);
    spec.idle_ms = -1; /* the session's own counts */
    if (sandbox_from_spec(session->engine, &caller, &spec, &sandbox, &err) < 0) {
        on_sandbox_made(session, NULL, &err);
        return;
    }
    sandbox->info.session = arena_dup(&sandbox->arena, session->info.id);
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

static void make(struct session *session)
{
    struct engine *engine = session->engine;
    struct engine_caller caller = caller_of(session);
    struct err err = {0};
    session->is_making = true;
    if (session->volume[0] != '\0' ||
        engine_table(engine, spec_tier(engine, session->spec.tier))->volume_create == NULL) {
        make_sandbox(session);
        return;
    }
    struct volume_spec spec = {.tier = session->spec.tier};
    if (volume_make(engine, &caller, &spec, session->info.id, NULL, on_volume_made, session, &err) <
        0)
        wake(session, NULL, &err);
}

struct sandbox *session_sandbox(const struct session *session)
{
    return session->sandbox[0] == '\0'
               ? NULL
               : map_get(&session->engine->sandboxes, str_of(session->sandbox));
}

/* Callers that come at the same moment share what the first one makes. */
void session_use(struct session *session, struct session_want *want)
{
    struct sandbox *sandbox = session_sandbox(session);
    session->info.active_ms = clock_date_ms();
    if (sandbox != NULL && !session->is_making && !session->is_resting) {
        session->info.state = SESSION_ACTIVE;
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
    struct using *using = (struct using *)((char *)want - offsetof(struct using, want));
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
    struct want want;
    struct session *session;
    struct answer *answer;
    bool is_deleting;
};

static void on_gone(void *ctx, const struct err *why)
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
            store_commit(batch, STORE_DURABLE, on_gone, answer);
        }
        (void)map_remove(&engine->sessions, session->row_id);
        struct err gone = {0};
        (void)err_set(&gone, ERR_NOT_FOUND, "the session was deleted");
        wake(session, NULL, &gone);
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

/* Where there is no volume, what the sandbox holds is all there is: it is paused, not closed. */
static void rest(struct session *session, bool is_deleting, struct answer *answer)
{
    struct engine *engine = session->engine;
    struct sandbox *sandbox = session_sandbox(session);
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
    if (!is_deleting && table->volume_create == NULL && table->pause != NULL)
        engine_sandbox_pause(engine, &caller, sandbox->info.id, on_put_aside, resting);
    else
        engine_sandbox_delete(engine, &caller, sandbox->info.id, rest_done, resting);
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
        answer_fail(answer, ERR_BUSY, "session '%.*s' is on its way already", STR_ARG(id));
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
        answer_fail(answer, ERR_BUSY, "session '%.*s' is on its way; try again", STR_ARG(id));
    } else {
        session->is_deleting = true;
        rest(session, true, answer);
    }
}

void session_tick(struct engine *engine, int64_t now)
{
    MAP_EACH (entry, &engine->sessions) {
        struct session *session = entry->value;
        const struct sandbox *sandbox = session_sandbox(session);
        if (session->info.state != SESSION_ACTIVE || session->is_making || session->is_resting ||
            session->is_deleting || session->info.idle_ms == 0 || sandbox == NULL)
            continue;
        if (sandbox->busy == 0 && !sandbox_is_moving(sandbox->info.state) &&
            now - sandbox->active_at >= session->info.idle_ms)
            rest(session, false, NULL);
    }
}
