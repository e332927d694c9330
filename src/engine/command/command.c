/* Commands: their end, and what can be done to one that runs: input, signals, its window. */

#include "engine/command/command.h"

#include <signal.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "engine/answer.h"
#include "engine/command/command_internal.h"
#include "engine/feed_internal.h"
#include "engine/internal.h"
#include "engine/provider.h"
#include "engine/sandbox/sandbox_internal.h"
#include "runtime/memory_end.h"
#include "runtime/runtimes.h"
#include "store/store.h"

static const char *const stream_names[] = {"stdout", "stderr", "tty"};
static const char *const end_names[] = {"exited",        "killed",  "timeout",
                                        "out_of_memory", "stopped", "lost"};
_Static_assert(countof(end_names) == COMMAND_END_COUNT, "a name for each end");

const char *command_stream_name(enum command_stream stream)
{
    return stream_names[stream];
}

const char *command_end_name(enum command_end end)
{
    return end_names[end];
}

/* The peak is that of the command's control group: its processes together. A command that exited
 * was not killed itself: a process that it had started was. */
static void put_memory_reason(const struct command_info *command, struct buf *out)
{
    struct str name = command->arg_count > 0 ? command->argv[0] : command->shell;
    AUTO_BUF struct buf what = {0};
    buf_printf(&what, "%s'%.*s'", command->code >= 0 ? "a process of " : "",
               STR_ARG(str_slice(name, 0, 64)));
    memory_end_put(&(struct memory_end){.what = buf_str(&what),
                                        .rest = "the sandbox is still running",
                                        .sandbox = command->sandbox,
                                        .is_of_session = command->is_of_session,
                                        .limit_bytes = command->memory_bytes,
                                        .peak_bytes = command->peak_bytes},
                   out);
}

void command_put_reason(const struct command_info *command, struct buf *out)
{
    if (command->state != COMMAND_ENDED)
        return;
    switch (command->end) {
    case COMMAND_TIMEOUT:
        buf_put_cstr(out, "ended ");
        time_limit_put(&command->limit, out);
        break;
    case COMMAND_OOM:
        put_memory_reason(command, out);
        break;
    case COMMAND_STOPPED:
        if (str_eq(command->why_stopped, STR(SERVER_STOPPED)))
            buf_put_cstr(out, SERVER_STOPPED);
        else if (command->why_stopped.len > 0)
            buf_printf(out, "the sandbox was stopped: %.*s", STR_ARG(command->why_stopped));
        else
            buf_put_cstr(out, "the sandbox was stopped, deleted or rolled back");
        break;
    case COMMAND_LOST:
        buf_put_cstr(
            out,
            "the server or the sandbox ended unexpectedly; the command's exit status is unknown");
        break;
    default:
        break;
    }
}

struct command *command_find(struct engine *engine, const struct engine_caller *caller,
                             struct str id, struct err *err)
{
    loop_assert(engine->loop);
    struct command *command = id_is_valid(id) ? map_get(&engine->commands, id) : NULL;
    if (command != NULL && str_eq(command->tenant, caller->tenant) && command->starting == 0)
        return command;
    (void)err_set(err, ERR_NOT_FOUND, "no command '%.*s'", (int)MIN(id.len, (size_t)64),
                  id.ptr == NULL ? "" : id.ptr);
    return NULL;
}

struct command *command_free(struct command *command)
{
    if (command == NULL)
        return NULL;
    command_take(command);
    if (command->exec != NULL)
        command->table->exec_free(command->exec);
    if (command->open != NULL)
        command->table->exec_free(command->open);
    (void)timer_free(command->timer);
    for (size_t i = 0; i < countof(command->tail); i++)
        vec_done(&command->tail[i]);
    vec_done(&command->writes);
    arena_done(&command->arena);
    free(command);
    return NULL;
}

/* --- Its end --- */

/* What the store could not write stays in memory, and is written again later. */
static void on_end_saved(void *ctx, const struct err *why)
{
    struct command *command = ctx;
    command->is_unsaved = why != NULL;
    if (why != NULL)
        log_error("command.unsaved", LOG_VIEW("command", command->info.id),
                  LOG_ID("sandbox", command->info.sandbox), LOG_STR("error", why->msg));
    else
        command_count(command);
    command_log_complete(command);
}

static enum command_end reason_of(const struct command *command, const struct exec_end *end,
                                  const struct sandbox *sandbox)
{
    if (command->timed_out)
        return COMMAND_TIMEOUT;
    if (end == NULL && command->engine->is_stopping)
        return COMMAND_STOPPED;
    if (end == NULL)
        return sandbox != NULL && (sandbox->info.state == SANDBOX_STOPPING ||
                                   sandbox->info.state == SANDBOX_RUNNING)
                   ? COMMAND_STOPPED
                   : COMMAND_LOST;
    if (end->oom)
        return COMMAND_OOM;
    return command->sent_signal != 0 && end->signal == command->sent_signal ? COMMAND_KILLED
                                                                            : COMMAND_EXITED;
}

static void refuse_writes(struct command *command)
{
    VEC_EACH (answer, &command->writes)
        answer_fail(*answer, ERR_CONFLICT, "the command has ended");
    command->writes.len = 0;
}

void command_on_end(void *ctx, const struct exec_end *told, UNUSED const struct err *why)
{
    struct command *command = ctx;
    struct exec_end copy = {0}; /* the original is freed with the handle */
    const struct exec_end *end = NULL;
    if (told != NULL) {
        copy = *told;
        end = &copy;
    }
    struct engine *engine = command->engine;
    struct command_info *info = &command->info;
    struct sandbox *sandbox = sandbox_find_worked(engine, info->sandbox);
    info->is_open = end != NULL && end->is_open;
    if (info->is_open)
        command->open = command->exec;
    else
        command->table->exec_free(command->exec);
    command->exec = NULL;
    command->timer = timer_free(command->timer);
    refuse_writes(command);
    info->state = COMMAND_ENDED;
    info->ended_ms = clock_date_ms();
    info->end = reason_of(command, end, sandbox);
    if (info->end == COMMAND_STOPPED && engine->is_stopping)
        info->why_stopped = STR(SERVER_STOPPED);
    else if (info->end == COMMAND_STOPPED && sandbox->info.state == SANDBOX_STOPPING)
        info->why_stopped = arena_dup(&command->arena, sandbox->info.reason);
    info->code = end == NULL || end->signal != 0 ? -1 : end->code;
    info->signal = end == NULL ? 0 : end->signal;
    info->wall_us = end == NULL ? (info->ended_ms - info->started_ms) * 1000 : end->wall_us;
    info->user_us = end == NULL ? -1 : end->user_us;
    info->system_us = end == NULL ? -1 : end->system_us;
    info->peak_bytes = end == NULL ? -1 : end->peak_bytes;
    info->memory_bytes =
        end != NULL && info->end == COMMAND_OOM ? MAX(end->memory_bytes, (int64_t)0) : 0;
    info->is_of_session =
        info->end == COMMAND_OOM && sandbox != NULL && sandbox->info.session.len > 0;
    if (sandbox != NULL && info->is_open) {
        sandbox->open_commands++;
    } else if (sandbox != NULL) {
        sandbox->commands--;
        sandbox_end_work(sandbox);
    }
    struct store_batch *batch = store_begin(engine->store);
    command_save(command, batch);
    feed_publish(engine, batch, EVENT_COMMAND_ENDED, command->tenant, info->id, info->sandbox,
                 command_end_name(info->end), "");
    store_commit(batch, STORE_QUICK, on_end_saved, command);
}

static void on_closed_saved(void *ctx, const struct err *why)
{
    struct command *command = ctx;
    command->holds--;
    command->is_unsaved |= why != NULL; /* then it is written again later */
    if (!command->is_unsaved)
        command_count(command);
    command_rest(command);
}

void command_on_closed(void *ctx)
{
    struct command *command = ctx;
    struct engine *engine = command->engine;
    struct sandbox *sandbox = sandbox_find_worked(engine, command->info.sandbox);
    command->table->exec_free(command->open);
    command->open = NULL;
    command->info.is_open = false;
    if (sandbox != NULL) {
        sandbox->open_commands--;
        sandbox->commands--;
        sandbox_end_work(sandbox);
    }
    command->holds++;
    struct store_batch *batch = store_begin(engine->store);
    command_save(command, batch);
    store_commit(batch, STORE_QUICK, on_closed_saved, command);
}

/* First asked, then killed. */
void command_on_time(void *ctx)
{
    struct command *command = ctx;
    struct err err = {0};
    const struct sandbox *sandbox = map_get(&command->engine->sandboxes, command->info.sandbox);
    if (sandbox != NULL && sandbox->info.state != SANDBOX_RUNNING) {
        timer_set(command->timer, 1000, 0); /* no time passes for it */
        return;
    }
    int signo = command->timed_out ? SIGKILL : SIGTERM;
    int sent = command->table->exec_signal(command->exec, signo, &err);
    if (sent < 0 && err.code == ERR_CONFLICT)
        return; /* it has exited in time: only its output is still being read */
    command->engine->figures.timeouts_command += !command->timed_out;
    command->timed_out = true;
    if (sent < 0)
        log_warn("command.timeout", LOG_VIEW("command", command->info.id),
                 LOG_ID("sandbox", command->info.sandbox), LOG_STR("error", err.msg));
    timer_set(command->timer, RUNTIME_GRACE_MS, 0);
}

/* --- Verbs --- */

static void on_brought(void *ctx, struct command *command, const struct err *why)
{
    struct answer *answer = ctx;
    if (why != NULL)
        answer_give(answer, why);
    else
        answer_fail(answer, ERR_CONFLICT, "command '%.*s' has ended", STR_ARG(command->info.id));
}

/* One that runs, or whose processes still hold its output. NULL once the answer was given: one that
 * is not in memory does not run, if it is at all. */
static struct command *find_live(struct answer *answer, const struct engine_caller *caller,
                                 struct str id)
{
    struct err err = {0};
    if (engine_check_caller(answer->engine, caller, &err) < 0) {
        answer_give(answer, &err);
        return NULL;
    }
    struct command *command = command_find(answer->engine, caller, id, &err);
    if (command == NULL || (command->exec == NULL && command->open == NULL)) {
        command_bring(answer->engine, caller, id, on_brought, answer);
        return NULL;
    }
    struct sandbox *sandbox = map_get(&answer->engine->sandboxes, command->info.sandbox);
    if (sandbox != NULL)
        sandbox_touch(sandbox);
    return command;
}

static struct command *find_running(struct answer *answer, const struct engine_caller *caller,
                                    struct str id)
{
    struct command *command = find_live(answer, caller, id);
    if (command == NULL || command->exec != NULL)
        return command;
    answer_fail(answer, ERR_CONFLICT, "command '%.*s' has ended", STR_ARG(id));
    return NULL;
}

void engine_command_write(struct engine *engine, const struct engine_caller *caller, struct str id,
                          struct str bytes, engine_done *done, void *ctx)
{
    struct answer *answer = answer_plain(engine, done, ctx);
    struct err err = {0};
    struct command *command = find_running(answer, caller, id);
    if (command == NULL)
        return;
    size_t unsent = command->table->exec_unsent(command->exec);
    if (unsent + bytes.len > COMMAND_STDIN_MAX) {
        answer_fail(answer, ERR_LIMIT,
                    "%zu bytes of standard input are still waiting to be read; the command must "
                    "read them first",
                    unsent);
    } else if (command->table->exec_write(command->exec, bytes, &err) < 0) {
        answer_give(answer, &err);
    } else if (command->table->exec_unsent(command->exec) > 0) {
        *vec_push(&command->writes) = answer; /* until it is taken */
    } else {
        answer_give(answer, NULL);
    }
}

void engine_command_close_stdin(struct engine *engine, const struct engine_caller *caller,
                                struct str id, engine_done *done, void *ctx)
{
    struct answer *answer = answer_plain(engine, done, ctx);
    struct command *command = find_running(answer, caller, id);
    if (command == NULL)
        return;
    command->table->exec_close_stdin(command->exec);
    answer_give(answer, NULL);
}

void engine_command_signal(struct engine *engine, const struct engine_caller *caller, struct str id,
                           int signo, engine_done *done, void *ctx)
{
    struct answer *answer = answer_plain(engine, done, ctx);
    struct err err = {0};
    struct command *command = find_live(answer, caller, id);
    if (command == NULL)
        return;
    struct exec *exec = command->exec != NULL ? command->exec : command->open;
    if (signo < 1 || signo > SIGRTMAX) {
        answer_fail(answer, ERR_INVALID, "signal: %d is not a signal number", signo);
    } else if (command->table->exec_signal(exec, signo, &err) < 0) {
        answer_give(answer, &err);
    } else {
        command->sent_signal = signo;
        answer_give(answer, NULL);
    }
}

void engine_command_resize(struct engine *engine, const struct engine_caller *caller, struct str id,
                           uint16_t rows, uint16_t cols, engine_done *done, void *ctx)
{
    struct answer *answer = answer_plain(engine, done, ctx);
    struct err err = {0};
    struct command *command = find_running(answer, caller, id);
    if (command == NULL)
        return;
    if (!command->info.tty)
        answer_fail(answer, ERR_CONFLICT, "command '%.*s' has no terminal",
                    STR_ARG(command->info.id));
    else if (rows == 0 || cols == 0 || rows > 1000 || cols > 1000)
        answer_fail(answer, ERR_INVALID, "rows and cols: must be between 1 and 1000");
    else
        answer_give(answer,
                    command->table->exec_resize(command->exec, rows, cols, &err) < 0 ? &err : NULL);
}
