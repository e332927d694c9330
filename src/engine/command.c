/* Commands: their end, and what can be done to one that runs: input, signals, its window. */

#include "engine/command.h"

#include <signal.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/command_internal.h"

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
    (void)timer_free(command->timer);
    for (size_t i = 0; i < countof(command->tail); i++)
        vec_done(&command->tail[i]);
    vec_done(&command->writes);
    arena_done(&command->arena);
    free(command);
    return NULL;
}

/* --- Its end --- */

/* What the store does not have stays in memory, and is told again. */
static void on_end_saved(void *ctx, const struct err *why)
{
    struct command *command = ctx;
    command->is_unsaved = why != NULL;
    if (why != NULL)
        log_error("command.unsaved", LOG_VIEW("command", command->info.id),
                  LOG_ID("sandbox", command->info.sandbox), LOG_STR("error", why->msg));
    else
        command_count(command);
    log_complete(command);
}

static enum command_end reason_of(const struct command *command, const struct exec_end *end,
                                  const struct sandbox *sandbox)
{
    if (command->timed_out)
        return COMMAND_TIMEOUT;
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
    struct exec_end copy = {0}; /* what is told goes with the handle */
    const struct exec_end *end = NULL;
    if (told != NULL) {
        copy = *told;
        end = &copy;
    }
    struct engine *engine = command->engine;
    struct command_info *info = &command->info;
    struct sandbox *sandbox = sandbox_find_worked(engine, info->sandbox);
    command->table->exec_free(command->exec);
    command->exec = NULL;
    command->timer = timer_free(command->timer);
    refuse_writes(command);
    info->state = COMMAND_ENDED;
    info->ended_ms = clock_date_ms();
    info->end = reason_of(command, end, sandbox);
    info->code = end == NULL || end->signal != 0 ? -1 : end->code;
    info->signal = end == NULL ? 0 : end->signal;
    info->wall_us = end == NULL ? -1 : end->wall_us;
    info->user_us = end == NULL ? -1 : end->user_us;
    info->system_us = end == NULL ? -1 : end->system_us;
    info->peak_bytes = end == NULL ? -1 : end->peak_bytes;
    if (sandbox != NULL) {
        sandbox->commands--;
        sandbox_end_work(sandbox);
    }
    struct store_batch *batch = store_begin(engine->store);
    command_save(command, batch);
    feed_publish(engine, batch, EVENT_COMMAND_ENDED, command->tenant, info->id, info->sandbox,
                 command_end_name(info->end), "");
    store_commit(batch, STORE_QUICK, on_end_saved, command);
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
    command->engine->figures.timeouts_command += !command->timed_out;
    command->timed_out = true;
    if (command->table->exec_signal(command->exec, signo, &err) < 0)
        log_warn("command.timeout", LOG_VIEW("command", command->info.id),
                 LOG_ID("sandbox", command->info.sandbox), LOG_STR("error", err.msg));
    timer_set(command->timer, COMMAND_GRACE_MS, 0);
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

/* NULL once the answer was given: one that is not in memory does not run, if it is at all. */
static struct command *find_running(struct answer *answer, const struct engine_caller *caller,
                                    struct str id)
{
    struct err err = {0};
    if (engine_check_caller(answer->engine, caller, &err) < 0) {
        answer_give(answer, &err);
        return NULL;
    }
    struct command *command = command_find(answer->engine, caller, id, &err);
    if (command == NULL || command->exec == NULL) {
        command_bring(answer->engine, caller, id, on_brought, answer);
        return NULL;
    }
    struct sandbox *sandbox = map_get(&answer->engine->sandboxes, command->info.sandbox);
    if (sandbox != NULL)
        sandbox_touch(sandbox);
    return command;
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
        answer_fail(answer, ERR_LIMIT, "%zu bytes wait to be read already", unsent);
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
    struct command *command = find_running(answer, caller, id);
    if (command == NULL)
        return;
    if (signo < 1 || signo > SIGRTMAX) {
        answer_fail(answer, ERR_INVALID, "signal: no signal %d", signo);
    } else if (command->table->exec_signal(command->exec, signo, &err) < 0) {
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
        answer_fail(answer, ERR_INVALID, "rows and cols: not between 1 and 1000");
    else
        answer_give(answer,
                    command->table->exec_resize(command->exec, rows, cols, &err) < 0 ? &err : NULL);
}
