/* Code that is evaluated: led to the place, or to a fresh one for this run alone. */

#include "engine/eval.h"

#include "engine/config.h"
#include "engine/keyring.h"
#include "engine/session_internal.h"

struct evaluating {
    struct session_want session;
    struct want want;
    struct loop_task task;
    struct engine *engine;
    struct arena arena;
    struct eval_spec spec;
    struct str tenant;
    struct eval_calls calls;
    void *ctx;
    struct sandbox *sandbox;
    struct err err;
    bool has_failed;
};

static void on_output(void *ctx, enum isolate_stream stream, struct str line)
{
    struct evaluating *evaluating = ctx;
    if (evaluating->calls.on_output != NULL)
        evaluating->calls.on_output(evaluating->ctx, stream, line);
}

static void on_done(void *ctx, const struct eval_result *result, const struct err *why)
{
    struct evaluating *evaluating = ctx;
    struct engine *engine = evaluating->engine;
    struct eval_result shown = {0};
    if (evaluating->sandbox != NULL)
        sandbox_end_work(evaluating->sandbox);
    if (result != NULL) {
        shown = *result;
        shown.lang = evaluating->spec.lang;
        shown.hints = &evaluating->spec.hints;
        shown.code_size = evaluating->spec.code.len;
        shown.sandbox =
            evaluating->sandbox == NULL ? (struct str){0} : evaluating->sandbox->info.id;
    }
    evaluating->calls.on_done(evaluating->ctx, result == NULL ? NULL : &shown, why);
    engine->answers--;
    loop_release(engine->loop);
    arena_done(&evaluating->arena);
    free(evaluating);
}

static void run(struct evaluating *evaluating)
{
    static const struct eval_calls calls = {on_output, on_done};
    struct engine *engine = evaluating->engine;
    struct sandbox *sandbox = evaluating->sandbox;
    enum engine_tier tier = sandbox != NULL ? sandbox->info.tier : ENGINE_TIER_ISOLATE;
    struct provider *provider = NULL;
    if (!evaluating->has_failed && sandbox != NULL && sandbox->info.state != SANDBOX_RUNNING)
        evaluating->has_failed =
            err_set(&evaluating->err, ERR_GONE, "sandbox '%.*s' is %s", STR_ARG(sandbox->info.id),
                    sandbox_state_name(sandbox->info.state)) < 0;
    if (!evaluating->has_failed)
        evaluating->has_failed = engine_provider(engine, tier, &provider, &evaluating->err) < 0;
    if (!evaluating->has_failed && engine_table(engine, tier)->eval == NULL)
        evaluating->has_failed = engine_unsupported(tier, "evaluate code", &evaluating->err) < 0;
    if (evaluating->has_failed)
        on_done(evaluating, NULL, &evaluating->err);
    else
        engine_table(engine, tier)
            ->eval(provider, sandbox == NULL ? NULL : sandbox->place, evaluating->tenant,
                   &evaluating->spec, &calls, evaluating);
}

static void run_later(struct loop_task *task)
{
    run((struct evaluating *)((char *)task - offsetof(struct evaluating, task)));
}

/* On a later turn of the loop, so that no call-back comes from the call itself. */
static void go(struct evaluating *evaluating)
{
    evaluating->task.run = run_later;
    loop_post(evaluating->engine->loop, &evaluating->task);
}

static void fail(struct evaluating *evaluating, const struct err *why)
{
    evaluating->has_failed = true;
    evaluating->err = *why;
    go(evaluating);
}

static void running(struct want *want, struct sandbox *sandbox, const struct err *why)
{
    struct evaluating *evaluating =
        (struct evaluating *)((char *)want - offsetof(struct evaluating, want));
    if (why != NULL) {
        fail(evaluating, why);
        return;
    }
    evaluating->sandbox = sandbox;
    sandbox_begin_work(sandbox);
    go(evaluating);
}

static void with_sandbox(struct session_want *want, struct sandbox *sandbox, const struct err *why)
{
    struct evaluating *evaluating = (struct evaluating *)want;
    if (why != NULL)
        fail(evaluating, why);
    else
        sandbox_wait(sandbox, &evaluating->want);
}

/* --- What was asked for --- */

/* The session's own modules, then those of the call, which win. */
static void put_modules(struct evaluating *evaluating, const struct eval_spec *spec,
                        const struct session *session)
{
    struct arena *arena = &evaluating->arena;
    size_t kept = session == NULL ? 0 : session->modules.len, count = 0;
    struct isolate_module *list =
        arena_array(arena, struct isolate_module, spec->module_count + kept + 1);
    for (size_t i = 0; i < spec->module_count; i++)
        list[count++] = (struct isolate_module){arena_dup(arena, spec->modules[i].path),
                                                arena_dup(arena, spec->modules[i].source)};
    size_t given = count;
    if (session != NULL)
        MAP_EACH (entry, &session->modules) {
            const struct module *module = entry->value;
            size_t at = 0;
            while (at < given && !str_eq(list[at].path, entry->key))
                at++;
            if (at == given)
                list[count++] =
                    (struct isolate_module){arena_dup(arena, entry->key),
                                            arena_dup(arena, str_n(module->source, module->len))};
        }
    evaluating->spec.modules = list;
    evaluating->spec.module_count = count;
}

static int fill(struct evaluating *evaluating, const struct engine_caller *caller,
                const struct eval_spec *spec, const struct session *session, struct err *err)
{
    struct arena *arena = &evaluating->arena;
    AUTO_BUF struct buf policy = {0};
    if (!str_is_utf8(spec->code))
        return err_set(err, ERR_INVALID, "code: not UTF-8");
    if (spec_policy(caller, spec->network, &policy, err) < 0)
        return -1;
    evaluating->spec = *spec;
    evaluating->spec.sandbox = evaluating->spec.session = (struct str){0};
    evaluating->spec.code = arena_dup(arena, spec->code);
    evaluating->spec.file = arena_dup(arena, spec->file);
    evaluating->spec.env = pairs_dup(&spec->env, arena);
    evaluating->spec.network = arena_dup(arena, buf_str(&policy));
    if (spec_check_secrets(evaluating->engine, caller, &spec->secrets, buf_str(&policy), err) < 0 ||
        keyring_keep(evaluating->engine, caller->tenant, &spec->secrets, NULL, arena,
                     &evaluating->spec.secrets, err) < 0)
        return -1;
    evaluating->tenant = arena_dup(arena, caller->tenant);
    put_modules(evaluating, spec, session);
    return 0;
}

void engine_eval(struct engine *engine, const struct engine_caller *caller,
                 const struct eval_spec *spec, const struct eval_calls *calls, void *ctx)
{
    loop_assert(engine->loop);
    struct evaluating *evaluating = mem_alloc(sizeof *evaluating);
    struct sandbox *sandbox = NULL;
    struct session *session = NULL;
    struct err err = {0};
    bool is_single = spec->sandbox.len == 0 && spec->session.len == 0;
    evaluating->engine = engine;
    evaluating->calls = *calls;
    evaluating->ctx = ctx;
    evaluating->session.call = with_sandbox;
    evaluating->want = (struct want){.needs_running = true, .call = running};
    engine->answers++;
    loop_hold(engine->loop);
    if (engine_check_caller(engine, caller, &err) < 0 ||
        (!is_single &&
         place_find(engine, caller, spec->sandbox, spec->session, &sandbox, &session, &err) < 0) ||
        fill(evaluating, caller, spec, session, &err) < 0)
        fail(evaluating, &err);
    else if (is_single)
        go(evaluating);
    else if (session != NULL)
        session_use(session, &evaluating->session);
    else
        sandbox_wait(sandbox, &evaluating->want);
}
