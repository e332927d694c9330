/* Evaluates code: in the sandbox's place, or in a fresh place used only for this run. */

#include "engine/code/eval.h"

#include "base/clock.h"
#include "base/map.h"
#include "config/config.h"
#include "engine/code/eval_explain.h"
#include "engine/code/eval_modules.h"
#include "engine/command/command_internal.h"
#include "engine/internal.h"
#include "engine/keyring.h"
#include "engine/sandbox/ledger.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/spec.h"
#include "engine/session/session_internal.h"
#include "runtime/packages.h"
#include "runtime/runtimes.h"

struct evaluating {
    struct session_want session;
    struct want want;
    struct loop_task task;
    struct engine *engine;
    struct arena arena;
    struct eval_spec spec;
    struct str tenant;
    bool is_single;
    struct eval_calls calls;
    void *ctx;
    struct sandbox *sandbox;
    struct err err;
    bool has_failed;
    bool has_begun_state;    /* the isolate has run nothing before */
    struct evaluating *next; /* in its sandbox */
    bool was_paused;         /* the pause of its sandbox was reported to its caller */
};

static void eval_on_output(void *ctx, enum isolate_stream stream, struct str line)
{
    struct evaluating *evaluating = ctx;
    if (evaluating->calls.on_output != NULL)
        evaluating->calls.on_output(evaluating->ctx, stream, line);
}

static void on_value(void *ctx, const struct interpreter_part *parts, size_t count, bool main)
{
    struct evaluating *evaluating = ctx;
    if (evaluating->calls.on_value != NULL)
        evaluating->calls.on_value(evaluating->ctx, parts, count, main);
}

static void eval_ignore(UNUSED void *ctx, UNUSED const struct err *why)
{
}

/* A place that was made only for this run ends with it. */
static void leave(struct evaluating *evaluating)
{
    struct sandbox *sandbox = evaluating->sandbox;
    evaluating->sandbox = NULL;
    if (sandbox == NULL)
        return;
    struct evaluating **at = &sandbox->evals;
    while (*at != evaluating)
        at = &(*at)->next;
    *at = evaluating->next;
    sandbox_end_work(sandbox);
    struct engine_caller caller = {.tenant = sandbox->info.tenant};
    if (evaluating->is_single)
        engine_sandbox_delete(evaluating->engine, &caller, sandbox->info.id, eval_ignore, NULL);
}

/* What an isolate that cannot run again died of. */
static enum loss_reason isolate_loss(const struct isolate_result *run)
{
    return run->status == ISOLATE_TIMEOUT  ? LOSS_TIMEOUT
           : run->status == ISOLATE_MEMORY ? LOSS_OUT_OF_MEMORY
                                           : LOSS_EXITED;
}

/* What became of the variables of earlier runs, reported once. */
static void tell_loss(struct sandbox *sandbox, struct eval_result *result)
{
    enum loss_reason own = result->interpreter != NULL ? run_output_loss(result->interpreter)
                           : result->run->is_gone      ? isolate_loss(result->run)
                                                       : LOSS_NONE;
    if (result->interpreter == NULL && own != LOSS_NONE)
        sandbox_ledger_lost(sandbox, result->context, own);
    result->loss = sandbox_ledger_tell(sandbox, result->context, own != LOSS_NONE);
    if (result->loss.reason == LOSS_NONE && own != LOSS_NONE)
        result->loss = ledger_loss_now(own);
    if (result->loss.reason == LOSS_VOLUME_EXPIRED)
        session_told_expired(sandbox);
}

/* A context that ended with its place is not just unknown. */
static const struct err *explain(struct evaluating *evaluating, const struct err *why,
                                 struct err *ret_err)
{
    struct sandbox *sandbox = evaluating->sandbox;
    struct str context = evaluating->spec.context;
    char date[CLOCK_TEXT_SIZE];
    if (why == NULL || why->code != ERR_NOT_FOUND || sandbox == NULL || context.len == 0)
        return why;
    struct loss loss = sandbox_ledger_tell(sandbox, context, false);
    if (loss.reason == LOSS_NONE)
        return why;
    clock_format_utc(loss.at_ms, date);
    (void)err_set(ret_err, ERR_NOT_FOUND,
                  "context '%.*s' no longer exists: %s at %s; create another", STR_ARG(context),
                  loss_cause(loss.reason), date);
    return ret_err;
}

static void on_done(void *ctx, const struct eval_result *result, const struct err *why)
{
    struct err gone = {0};
    struct evaluating *evaluating = ctx;
    struct engine *engine = evaluating->engine;
    struct eval_result shown = {0};
    struct eval_explanation told = {0};
    if (result != NULL) {
        shown = *result;
        shown.lang = evaluating->spec.lang;
        shown.hints = &evaluating->spec.hints;
        if (result->run != NULL && result->run->status == ISOLATE_TIMEOUT)
            eval_explain_timeout(&evaluating->spec, &shown, &told);
        else if (evaluating->sandbox != NULL)
            eval_explain_import(evaluating->sandbox, &shown, &told);
        shown.code_size = evaluating->spec.code.len;
        if (evaluating->sandbox != NULL && !evaluating->is_single) {
            shown.sandbox = arena_dup(&evaluating->arena, evaluating->sandbox->info.id);
            tell_loss(evaluating->sandbox, &shown);
        } else if (shown.interpreter != NULL && shown.interpreter->is_lost) {
            shown.loss = ledger_loss_now(run_output_loss(shown.interpreter));
        }
    } else if (evaluating->has_begun_state) {
        sandbox_ledger_lost(evaluating->sandbox, STR(""), LOSS_NONE);
    }
    why = explain(evaluating, why, &gone);
    leave(evaluating);
    evaluating->calls.on_done(evaluating->ctx, result == NULL ? NULL : &shown, why);
    eval_explanation_done(&told);
    engine->answers--;
    loop_release(engine->loop);
    arena_done(&evaluating->arena);
    free(evaluating);
}

/* What an isolate understands; with nothing said TypeScript, which JavaScript is too. */
static bool isolate_lang_of(const struct eval_spec *spec, enum isolate_lang *ret_lang)
{
    static const struct {
        const char *name;
        enum isolate_lang lang;
    } rows[] = {{"", ISOLATE_TS},   {"js", ISOLATE_JS},   {"javascript", ISOLATE_JS},
                {"ts", ISOLATE_TS}, {"tsx", ISOLATE_TSX}, {"typescript", ISOLATE_TS}};
    if (spec->runtime.len > 0 && !str_eq(spec->runtime, STR("js")))
        return false;
    for (size_t i = 0; i < countof(rows); i++)
        if (str_eq_nocase(spec->language, str_of(rows[i].name))) {
            *ret_lang = rows[i].lang;
            return true;
        }
    return false;
}

static int check_tier(struct evaluating *evaluating, enum engine_tier tier, struct err *err)
{
    struct eval_spec *spec = &evaluating->spec;
    if (engine_table(evaluating->engine, tier)->eval == NULL)
        return engine_unsupported(tier, "evaluate code", err);
    if (tier == ENGINE_TIER_ISOLATE && !isolate_lang_of(spec, &spec->lang)) {
        struct str word = spec->runtime.len > 0 ? spec->runtime : spec->language;
        return err_set(
            err, ERR_UNSUPPORTED,
            "an isolate runs only js, ts and tsx; for '%.*s' use a sandbox of the tier 'jail'",
            (int)MIN(word.len, (size_t)32), word.ptr);
    }
    if (tier == ENGINE_TIER_ISOLATE && spec->requirement_count > 0)
        return err_set(err, ERR_UNSUPPORTED, "requirements: an isolate has no packages");
    if (tier == ENGINE_TIER_ISOLATE && spec->context.len > 0)
        return err_set(err, ERR_UNSUPPORTED, "context: an isolate has no contexts");
    return 0;
}

struct isolate_limits eval_limits_of(const struct config *config)
{
    struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
    limits.timeout_ms = config->isolate.timeout_ms;
    limits.memory_bytes = (uint64_t)config->isolate.memory_mb << 20;
    limits.code_chars = (uint32_t)config->isolate.code_max_chars;
    limits.console_lines = (uint32_t)config->isolate.console_lines;
    limits.result_depth = (int)config->isolate.result_depth;
    limits.result_items = (uint32_t)config->isolate.result_items;
    return limits;
}

static struct time_limit limit_of(const struct evaluating *evaluating)
{
    struct time_limit single = {evaluating->engine->config->isolate.timeout_ms,
                                TIME_LIMIT_BY_ISOLATES};
    if (single.ms == 0)
        single = (struct time_limit){0};
    return time_limit_of_call(evaluating->spec.timeout_ms,
                              evaluating->sandbox != NULL ? time_limit_of_cells(evaluating->sandbox)
                                                          : single);
}

static void run(struct evaluating *evaluating)
{
    static const struct eval_calls calls = {eval_on_output, on_done, on_value};
    struct engine *engine = evaluating->engine;
    struct sandbox *sandbox = evaluating->sandbox;
    enum engine_tier tier = sandbox != NULL ? sandbox->info.tier : ENGINE_TIER_ISOLATE;
    struct provider *provider = NULL;
    evaluating->spec.limit = limit_of(evaluating);
    if (!evaluating->has_failed && sandbox != NULL && sandbox->info.state != SANDBOX_RUNNING)
        evaluating->has_failed =
            err_set(&evaluating->err, ERR_GONE, "sandbox '%.*s' is %s", STR_ARG(sandbox->info.id),
                    sandbox_state_name(sandbox->info.state)) < 0;
    if (!evaluating->has_failed)
        evaluating->has_failed = engine_provider(engine, tier, &provider, &evaluating->err) < 0;
    if (!evaluating->has_failed)
        evaluating->has_failed = check_tier(evaluating, tier, &evaluating->err) < 0;
    if (tier == ENGINE_TIER_ISOLATE && sandbox != NULL && sandbox->info.session.len > 0)
        session_add_modules(engine, &evaluating->arena, &evaluating->spec);
    if (evaluating->has_failed) {
        on_done(evaluating, NULL, &evaluating->err);
        return;
    }
    if (sandbox != NULL && tier == ENGINE_TIER_ISOLATE) {
        evaluating->has_begun_state = !ledger_has_state(&sandbox->ledger, STR(""));
        sandbox_ledger_begin(sandbox, STR(""));
    }
    engine_table(engine, tier)
        ->eval(provider, sandbox == NULL ? NULL : sandbox->place, evaluating->tenant,
               &evaluating->spec, &calls, evaluating);
}

static void eval_run_later(struct loop_task *task)
{
    run(CONTAINER_OF(task, struct evaluating, task));
}

/* On a later turn of the loop, so that no call-back comes from the call itself. */
static void go(struct evaluating *evaluating)
{
    evaluating->task.run = eval_run_later;
    loop_post(evaluating->engine->loop, &evaluating->task);
}

static void eval_fail(struct evaluating *evaluating, const struct err *why)
{
    evaluating->has_failed = true;
    evaluating->err = *why;
    go(evaluating);
}

static void running(struct want *want, struct sandbox *sandbox, const struct err *why)
{
    struct evaluating *evaluating = CONTAINER_OF(want, struct evaluating, want);
    if (why != NULL) {
        eval_fail(evaluating, why);
        return;
    }
    evaluating->sandbox = sandbox;
    evaluating->next = sandbox->evals;
    sandbox->evals = evaluating;
    sandbox_begin_work(sandbox);
    go(evaluating);
}

static void with_sandbox(struct session_want *want, struct sandbox *sandbox, const struct err *why)
{
    struct evaluating *evaluating = (struct evaluating *)want;
    if (why != NULL)
        eval_fail(evaluating, why);
    else
        sandbox_wait(sandbox, &evaluating->want);
}

/* --- The state of its sandbox --- */

static void ignore_done(UNUSED void *ctx, UNUSED const struct eval_result *result,
                        UNUSED const struct err *why)
{
}

static struct evaluating *find_untold(const struct sandbox *sandbox)
{
    struct evaluating *evaluating = sandbox->evals;
    while (evaluating != NULL && !sandbox_is_news(&sandbox->info, &evaluating->was_paused))
        evaluating = evaluating->next;
    return evaluating;
}

void eval_tell_state(struct sandbox *sandbox)
{
    struct err err = {0};
    sandbox_paused_err(sandbox, &err);
    for (struct evaluating *evaluating; (evaluating = find_untold(sandbox)) != NULL;) {
        struct eval_calls calls = evaluating->calls;
        /* The run does not continue after the server has stopped. */
        if (calls.on_state != NULL && !sandbox->engine->is_stopping) {
            calls.on_state(evaluating->ctx, &sandbox->info);
        } else if (sandbox->info.state == SANDBOX_PAUSED) {
            evaluating->calls = (struct eval_calls){.on_done = ignore_done};
            calls.on_done(evaluating->ctx, NULL, &err);
        }
    }
}

/* --- What was asked for --- */

static int fill(struct evaluating *evaluating, const struct engine_caller *caller,
                const struct eval_spec *spec, const struct session *session, struct err *err)
{
    struct arena *arena = &evaluating->arena;
    AUTO_BUF struct buf policy = {0};
    if (!str_is_utf8(spec->code))
        return err_set(err, ERR_INVALID, "code: not UTF-8");
    if (spec_check_env(&spec->env, err) < 0 ||
        spec_check_time(spec->timeout_ms, "timeoutMs", err) < 0)
        return -1;
    for (size_t i = 0; i < spec->requirement_count; i++)
        if (package_check(spec->requirements[i], err) < 0)
            return err_wrap(err, "requirements");
    if (spec_policy(caller, spec->network, &policy, err) < 0)
        return -1;
    evaluating->spec = *spec;
    evaluating->spec.sandbox = evaluating->spec.session = (struct str){0};
    evaluating->spec.code = arena_dup(arena, spec->code);
    evaluating->spec.file = arena_dup(arena, spec->file);
    evaluating->spec.runtime = arena_dup(arena, spec->runtime);
    evaluating->spec.language = arena_dup(arena, spec->language);
    evaluating->spec.context = arena_dup(arena, spec->context);
    struct str *requirements = arena_array(arena, struct str, spec->requirement_count + 1);
    for (size_t i = 0; i < spec->requirement_count; i++)
        requirements[i] = arena_dup(arena, spec->requirements[i]);
    evaluating->spec.requirements = requirements;
    evaluating->spec.env = pairs_dup(&spec->env, arena);
    evaluating->spec.network = arena_dup(arena, buf_str(&policy));
    if (spec_check_secrets(evaluating->engine, caller, &spec->secrets, buf_str(&policy), err) < 0 ||
        keyring_keep(evaluating->engine, caller->tenant, &spec->secrets, NULL, arena,
                     &evaluating->spec.secrets, err) < 0)
        return -1;
    evaluating->tenant = arena_dup(arena, caller->tenant);
    eval_put_modules(spec, session, arena, &evaluating->spec);
    return 0;
}

static void ignore_made(UNUSED void *ctx, UNUSED struct sandbox *sandbox,
                        UNUSED const struct err *why)
{
}

/* A jail only for this run: it is not listed, but it counts against limits like any other. */
static int make_single(struct evaluating *evaluating, const struct engine_caller *caller,
                       const struct eval_spec *spec, struct sandbox **ret_sandbox, struct err *err)
{
    const struct runtime *runtime = NULL;
    if (runtime_choose(spec->runtime, spec->language, STR("python3"), &runtime, err) < 0)
        return -1;
    struct sandbox_spec wanted = {.tier = ENGINE_TIER_JAIL,
                                  .runtime = str_of(runtime->name),
                                  .limits.memory_bytes = spec->memory_bytes,
                                  .network = spec->network,
                                  .secrets = spec->secrets,
                                  .timeout_ms = -1,
                                  .idle_ms = -1,
                                  .on_timeout = SANDBOX_KILL_AT_TIMEOUT};
    struct engine_caller creator = {.tenant = caller->tenant};
    if (sandbox_from_spec(evaluating->engine, caller, &wanted, ret_sandbox, err) < 0)
        return -1;
    (*ret_sandbox)->is_helper = true;
    sandbox_make(*ret_sandbox, &creator, (struct str){0}, ignore_made, NULL);
    return 0;
}

/* Once: an isolate where one will do. */
static int begin_single(struct evaluating *evaluating, const struct engine_caller *caller,
                        const struct eval_spec *spec, struct err *err)
{
    struct sandbox *sandbox = NULL;
    enum isolate_lang ignored;
    if (isolate_lang_of(spec, &ignored)) {
        go(evaluating);
        return 0;
    }
    evaluating->spec.context = (struct str){0};
    if (make_single(evaluating, caller, spec, &sandbox, err) < 0)
        return -1;
    sandbox_wait(sandbox, &evaluating->want);
    return 0;
}

void engine_eval_flow(struct evaluating *evaluating, bool stop)
{
    struct sandbox *sandbox = evaluating->sandbox;
    if (sandbox == NULL || sandbox->place == NULL)
        return;
    const struct provider_table *table = engine_table(evaluating->engine, sandbox->info.tier);
    if (table->eval_flow != NULL)
        table->eval_flow(sandbox->place, evaluating, stop);
}

struct evaluating *engine_eval(struct engine *engine, const struct engine_caller *caller,
                               const struct eval_spec *spec, const struct eval_calls *calls,
                               void *ctx)
{
    loop_assert(engine->loop);
    struct evaluating *evaluating = mem_alloc(sizeof *evaluating);
    struct sandbox *sandbox = NULL;
    struct session *session = NULL;
    struct err err = {0};
    evaluating->is_single = spec->sandbox.len == 0 && spec->session.len == 0;
    evaluating->engine = engine;
    evaluating->calls = *calls;
    evaluating->ctx = ctx;
    evaluating->session.call = with_sandbox;
    evaluating->want = (struct want){
        .needs_running = true, .call = running, .changes = "run_code", .quota = caller->quota};
    engine->answers++;
    loop_hold(engine->loop);
    if (engine_check_caller(engine, caller, &err) < 0 ||
        (!evaluating->is_single &&
         session_or_sandbox_find(engine, caller, spec->sandbox, spec->session, &sandbox, &session,
                                 &err) < 0) ||
        fill(evaluating, caller, spec, session, &err) < 0 ||
        (evaluating->is_single && begin_single(evaluating, caller, spec, &err) < 0))
        eval_fail(evaluating, &err);
    else if (evaluating->is_single)
        return evaluating;
    else if (session != NULL)
        session_use(session, &evaluating->session);
    else
        sandbox_wait(sandbox, &evaluating->want);
    return evaluating;
}
