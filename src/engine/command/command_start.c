/* A command's start: what was asked for, checked; a sandbox that runs; a row; a process. */

#include "base/clock.h"
#include "base/id.h"
#include "base/map.h"
#include "engine/answer.h"
#include "engine/command/command_internal.h"
#include "engine/env.h"
#include "engine/feed_internal.h"
#include "engine/internal.h"
#include "engine/key.h"
#include "engine/network.h"
#include "engine/provider.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/spec.h"
#include "engine/session/session_internal.h"
#include "runtime/runtimes.h"
#include "store/store.h"

struct starting {
    struct session_want session;
    struct want want;
    struct engine *engine;
    struct command *command;
    struct arena arena;
    struct exec_plan plan;
    struct engine_pairs env;
    int64_t timeout_ms;
    bool waits, has_key, is_tools, is_detached;
};

static void starting_free(struct starting *starting)
{
    arena_done(&starting->arena);
    free(starting);
}

/* As if it had never been started: no row, no log. */
static void never_was(struct command *command)
{
    struct engine *engine = command->engine;
    struct sandbox *sandbox = sandbox_find_worked(engine, command->info.sandbox);
    struct store_batch *batch = store_begin(engine->store);
    store_remove(batch, &store_commands, command->info.id);
    key_forget(engine, command->tenant, command->info.id, batch);
    store_commit(batch, STORE_QUICK, NULL, NULL);
    if (sandbox != NULL) {
        sandbox->commands--;
        sandbox_end_work(sandbox);
    }
    (void)map_remove(&engine->commands, command->info.id);
    answer_give(command->start_answer, &command->start_err);
    (void)command_free(command);
}

static void one_started(struct command *command, const struct err *why)
{
    if (why != NULL && command->start_err.code == ERR_NONE)
        command->start_err = *why;
    if (--command->starting > 0)
        return;
    bool has_failed = command->start_err.code != ERR_NONE;
    if (has_failed && command->info.state == COMMAND_RUNNING) {
        never_was(command);
        return;
    }
    command_hold(command); /* command_deliver lets go */
    answer_give(command->start_answer, has_failed ? &command->start_err : NULL);
}

static void command_start_on_started(void *ctx, struct exec *exec, const struct err *why)
{
    struct command *command = ctx;
    command->exec = exec;
    command->info.pid = exec == NULL ? 0 : command->table->exec_pid(exec);
    one_started(command, why);
}

static void command_start_on_recorded(void *ctx, const struct err *why)
{
    one_started(ctx, why);
}

static void command_start_on_output(void *ctx, enum command_stream stream, struct str bytes)
{
    command_log_append(ctx, stream, bytes);
}

static void command_start_on_drain(void *ctx)
{
    struct command *command = ctx;
    VEC_EACH (answer, &command->writes)
        answer_give(*answer, NULL);
    command->writes.len = 0;
}

static void put_env(struct starting *starting, const struct sandbox *sandbox)
{
    static const struct engine_pair term = {{"TERM", 4}, {RUNTIME_TERM, sizeof RUNTIME_TERM - 1}};
    struct engine_pairs tty = {&term, starting->plan.tty};
    const struct engine_pairs *lists[] = {&tty, &sandbox->info.env, &starting->env};
    starting->plan.env =
        env_inside(sandbox->info.runtime, sandbox->net, lists, countof(lists), &starting->arena);
}

static void command_start_begin(struct starting *starting, struct sandbox *sandbox)
{
    static const struct exec_calls calls = {command_start_on_started, command_start_on_output,
                                            command_on_end, command_start_on_drain,
                                            command_on_closed};
    struct command *command = starting->command;
    struct engine *engine = command->engine;
    command->info.sandbox = arena_dup(&command->arena, sandbox->info.id);
    command->info.started_ms = clock_date_ms();
    command->table = engine_table(engine, sandbox->info.tier);
    sandbox_begin_work(sandbox);
    sandbox->commands++;
    command->info.limit =
        time_limit_of_command(sandbox, starting->timeout_ms, starting->is_detached);
    if (starting->is_tools && command->info.limit.by == TIME_LIMIT_BY_CALL)
        command->info.limit.by = TIME_LIMIT_BY_TOOL;
    put_env(starting, sandbox);
    (void)map_put(&engine->commands, command->info.id, command);
    struct store_batch *batch = store_begin(engine->store);
    command_save(command, batch);
    feed_publish(engine, batch, EVENT_COMMAND_STARTED, command->tenant, command->info.id,
                 sandbox->info.id, "", "");
    if (starting->waits) {
        store_commit(batch, STORE_LAZY, NULL, NULL); /* its end writes all of it again */
        command->starting--;
    } else {
        store_commit(batch, STORE_QUICK, command_start_on_recorded, command);
    }
    command->timer = timer_new(engine->loop, command_on_time, command);
    if (command->info.limit.ms > 0)
        timer_set(command->timer, command->info.limit.ms, 0);
    command->table->exec(sandbox->place, &starting->plan, &calls, command);
    one_started(command, NULL);
    starting_free(starting);
}

static void forget_key(const struct command *command)
{
    struct store_batch *batch = store_begin(command->engine->store);
    key_forget(command->engine, command->tenant, command->info.id, batch);
    store_commit(batch, STORE_QUICK, NULL, NULL);
}

static void command_start_refuse(struct starting *starting, const struct err *why)
{
    if (starting->has_key)
        forget_key(starting->command);
    answer_give(starting->command->start_answer, why);
    (void)command_free(starting->command);
    starting_free(starting);
}

static void refuse_more(const struct sandbox *sandbox, struct err *err)
{
    if (sandbox->open_commands == 0)
        (void)err_set(err, ERR_LIMIT, "this sandbox already runs %d commands, the most allowed",
                      COMMANDS_RUNNING_MAX);
    else
        (void)err_set(err, ERR_LIMIT,
                      "this sandbox already has %d commands, the most allowed: %zu have ended but "
                      "left processes that hold their output; end those (KILL to the command), or "
                      "start them with their output in a file",
                      COMMANDS_RUNNING_MAX, sandbox->open_commands);
}

static void running(struct want *want, struct sandbox *sandbox, const struct err *why)
{
    struct starting *starting = CONTAINER_OF(want, struct starting, want);
    struct err err = {0};
    if (why == NULL && engine_table(starting->engine, sandbox->info.tier)->exec == NULL) {
        (void)engine_unsupported(sandbox->info.tier, "run commands", &err);
        why = &err;
    } else if (why == NULL && sandbox->commands >= COMMANDS_RUNNING_MAX) {
        refuse_more(sandbox, &err);
        why = &err;
    }
    if (why != NULL)
        command_start_refuse(starting, why);
    else
        command_start_begin(starting, sandbox);
}

static void with_sandbox(struct session_want *want, struct sandbox *sandbox, const struct err *why)
{
    struct starting *starting = (struct starting *)want;
    if (why != NULL)
        command_start_refuse(starting, why);
    else
        sandbox_wait(sandbox, &starting->want);
}

/* --- What was asked for --- */

static int check_texts(const struct command_spec *spec, struct err *err)
{
    size_t bytes = spec->shell.len;
    if ((spec->arg_count > 0) == (spec->shell.len > 0))
        return err_set(err, ERR_INVALID, "give either argv or shell, not both");
    if (spec->arg_count > COMMAND_ARGS_MAX)
        return err_set(err, ERR_TOO_LARGE, "argv: at most %d arguments", COMMAND_ARGS_MAX);
    for (size_t i = 0; i < spec->arg_count; i++) {
        if (str_find_char(spec->argv[i], '\0') != spec->argv[i].len)
            return err_set(err, ERR_INVALID, "argv[%zu]: contains a NUL byte", i);
        bytes += spec->argv[i].len + 1;
    }
    if (str_find_char(spec->shell, '\0') != spec->shell.len)
        return err_set(err, ERR_INVALID, "shell: contains a NUL byte");
    if (bytes > 64 << 10)
        return err_set(err, ERR_TOO_LARGE, "argv: more than 64 KiB");
    if (spec->cwd.len > 0 && (spec->cwd.ptr[0] != '/' || spec->cwd.len > 4095 ||
                              str_find_char(spec->cwd, '\0') != spec->cwd.len))
        return err_set(err, ERR_BAD_CWD, "cwd: must be an absolute path");
    if (spec->user.len > 0 && !str_eq(spec->user, STR("sandbox")))
        return err_set(err, ERR_UNSUPPORTED, "user: must be 'sandbox', the only user");
    if (spec->input.len > COMMAND_STDIN_MAX)
        return err_set(err, ERR_TOO_LARGE, "stdin: more than %d bytes at once", COMMAND_STDIN_MAX);
    return spec_check_time(spec->timeout_ms, "timeoutMs", err);
}

static void fill(struct command *command, struct starting *starting,
                 const struct command_spec *spec)
{
    struct command_info *info = &command->info;
    struct arena *arena = &command->arena;
    struct str *words = arena_array(arena, struct str, spec->arg_count + 1);
    const char **argv = arena_array(&starting->arena, const char *, spec->arg_count + 4);
    for (size_t i = 0; i < spec->arg_count; i++) {
        words[i] = arena_dup(arena, spec->argv[i]);
        argv[i] = words[i].ptr;
    }
    info->shell = arena_dup(arena, spec->shell);
    if (spec->shell.len > 0) {
        argv[0] = "/bin/sh";
        argv[1] = "-c";
        argv[2] = info->shell.ptr;
    }
    info->argv = words;
    info->arg_count = spec->arg_count;
    info->cwd = spec->cwd.len > 0 ? arena_dup(arena, spec->cwd) : STR("/workspace");
    info->user = STR("sandbox");
    info->tty = spec->tty;
    info->wall_us = info->user_us = info->system_us = info->peak_bytes = -1;
    info->code = -1;
    starting->plan = (struct exec_plan){
        .argv = argv,
        .cwd = info->cwd.ptr,
        .has_stdin = spec->has_stdin || spec->input.len > 0,
        .keeps_stdin = spec->has_stdin,
        .tty = spec->tty,
        .rows = spec->rows,
        .cols = spec->cols,
    };
    starting->env = pairs_dup(&spec->env, &starting->arena);
    starting->plan.input = arena_dup(&starting->arena, spec->input);
    starting->timeout_ms = spec->timeout_ms;
    starting->waits = spec->waits;
    starting->is_tools = spec->is_tools;
    starting->is_detached = spec->is_detached || spec->tty;
}

int session_or_sandbox_find(struct engine *engine, const struct engine_caller *caller,
                            struct str sandbox_id, struct str session_id,
                            struct sandbox **ret_sandbox, struct session **ret_session,
                            struct err *err)
{
    if ((sandbox_id.len > 0) == (session_id.len > 0))
        return err_set(err, ERR_INVALID, "name either a sandbox or a session, not both");
    if (sandbox_id.len > 0)
        *ret_sandbox = sandbox_find(engine, caller, sandbox_id, err);
    else
        *ret_session = session_of_caller(engine, caller, session_id, err);
    return *ret_sandbox == NULL && *ret_session == NULL ? -1 : 0;
}

/* A command must not run again, and its output cannot be sent again: a repeated key gets the first
 * command. */
static int check_key(struct engine *engine, const struct engine_caller *caller, struct err *err)
{
    struct str first = {0};
    int known = key_find(engine, caller, &first, err);
    if (known > 0)
        return err_set(err, ERR_CONFLICT,
                       "this idempotency key has already started command '%.*s': use that command",
                       STR_ARG(first));
    return known;
}

static void take_key(struct engine *engine, const struct engine_caller *caller, struct str id)
{
    if (caller->key.len == 0)
        return;
    struct store_batch *batch = store_begin(engine->store);
    key_remember(engine, caller, id, batch);
    store_commit(batch, STORE_QUICK, NULL, NULL);
}

void engine_command_start(struct engine *engine, const struct engine_caller *caller,
                          const struct command_spec *spec, command_done *done, void *ctx)
{
    struct answer *answer = answer_new(engine, command_deliver, ctx);
    struct sandbox *sandbox = NULL;
    struct session *session = NULL;
    struct err err = {0};
    answer->done.command = done;
    if (engine_check_caller(engine, caller, &err) < 0 || check_texts(spec, &err) < 0 ||
        check_key(engine, caller, &err) < 0 ||
        session_or_sandbox_find(engine, caller, spec->sandbox, spec->session, &sandbox, &session,
                                &err) < 0) {
        answer_give(answer, &err);
        return;
    }
    id_new(answer->id);
    take_key(engine, caller, str_of(answer->id));
    struct command *command = mem_alloc(sizeof *command);
    struct starting *starting = mem_alloc(sizeof *starting);
    command->engine = engine;
    command->start_answer = answer;
    command->starting = 3; /* its row, its process, and begin() itself */
    command->ord = engine_order(engine);
    command->tenant = arena_dup(&command->arena, caller->tenant);
    command->info.id = arena_dup(&command->arena, str_of(answer->id));
    starting->engine = engine;
    starting->command = command;
    starting->has_key = caller->key.len > 0;
    starting->session.call = with_sandbox;
    starting->want = (struct want){
        .needs_running = true, .call = running, .changes = "exec", .quota = caller->quota};
    fill(command, starting, spec);
    if (session != NULL)
        session_use(session, &starting->session);
    else
        sandbox_wait(sandbox, &starting->want);
}
