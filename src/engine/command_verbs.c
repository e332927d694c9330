/* What can be done to a command that runs: input, signals, its window; and commands as rows. */

#include <errno.h>
#include <signal.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/command_internal.h"

static struct command *find_running(struct answer *answer, const struct engine_caller *caller,
                                    struct str id)
{
    struct err err = {0};
    struct command *command = NULL;
    if (engine_check_caller(answer->engine, caller, &err) == 0)
        command = command_find(answer->engine, caller, id, &err);
    if (command == NULL) {
        answer_give(answer, &err);
        return NULL;
    }
    if (command->exec == NULL) {
        answer_fail(answer, ERR_CONFLICT, "command '%.*s' has ended", STR_ARG(command->info.id));
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

/* --- The store --- */

static void put_spec(const struct command_info *info, struct buf *out)
{
    struct json_out json = {.buf = out};
    json_begin_object(&json);
    json_key(&json, "cwd"), json_put_str(&json, info->cwd);
    json_key(&json, "user"), json_put_str(&json, info->user);
    json_key(&json, "tty"), json_put_bool(&json, info->tty);
    json_key(&json, "shell"), json_put_str(&json, info->shell);
    json_key(&json, "argv");
    json_begin_array(&json);
    for (size_t i = 0; i < info->arg_count; i++)
        json_put_str(&json, info->argv[i]);
    json_end_array(&json);
    json_end_object(&json);
}

void command_save(const struct command *command, struct store_batch *batch)
{
    const struct command_info *info = &command->info;
    AUTO_BUF struct buf spec = {0};
    put_spec(info, &spec);
    store_put(batch, &store_commands,
              &(struct store_command){
                  .id = info->id,
                  .tenant = command->tenant,
                  .ord = command->ord,
                  .sandbox = info->sandbox,
                  .spec = buf_str(&spec),
                  .state = info->state,
                  .end_reason = info->end,
                  .code = info->code,
                  .signal = info->signal,
                  .started_ms = info->started_ms,
                  .ended_ms = info->ended_ms,
                  .wall_us = info->wall_us,
                  .user_us = info->user_us,
                  .system_us = info->system_us,
                  .peak_bytes = info->peak_bytes,
                  .log_end = (int64_t)info->log_end,
                  .bytes_out = (int64_t)info->bytes[COMMAND_STDOUT],
                  .bytes_err = (int64_t)info->bytes[COMMAND_STDERR],
                  .bytes_tty = (int64_t)info->bytes[COMMAND_TTY],
                  .truncated = info->truncated,
              });
}

static void read_spec(struct command *command, struct str text)
{
    AUTO_JSON struct json_t *object = NULL;
    struct err err = {0};
    struct command_info *info = &command->info;
    struct str value = {0};
    if (json_parse(text, &object, &err) < 0)
        return;
    info->cwd = json_to_str(json_get(object, "cwd"), &value) ? arena_dup(&command->arena, value)
                                                             : (struct str){0};
    info->user = STR("sandbox");
    info->shell = json_to_str(json_get(object, "shell"), &value) ? arena_dup(&command->arena, value)
                                                                 : (struct str){0};
    (void)!json_to_bool(json_get(object, "tty"), &info->tty);
    const struct json_t *argv = json_get(object, "argv");
    struct str *words = arena_array(&command->arena, struct str, json_len(argv) + 1);
    for (size_t i = 0; i < json_len(argv); i++)
        if (json_to_str(json_at(argv, i), &value))
            words[info->arg_count++] = arena_dup(&command->arena, value);
    info->argv = words;
}

static void load(void *ctx, const void *data)
{
    struct engine *engine = ctx;
    const struct store_command *row = data;
    struct command *command = mem_alloc(sizeof *command);
    struct command_info *info = &command->info;
    command->engine = engine;
    command->tenant = arena_dup(&command->arena, row->tenant);
    command->ord = row->ord;
    info->id = arena_dup(&command->arena, row->id);
    info->sandbox = arena_dup(&command->arena, row->sandbox);
    read_spec(command, row->spec);
    info->state = row->state == COMMAND_ENDED ? COMMAND_ENDED : COMMAND_RUNNING;
    info->end = row->end_reason >= 0 && row->end_reason < COMMAND_END_COUNT
                    ? (enum command_end)row->end_reason
                    : COMMAND_LOST;
    info->code = (int)row->code;
    info->signal = (int)row->signal;
    info->started_ms = row->started_ms;
    info->ended_ms = row->ended_ms;
    info->wall_us = row->wall_us;
    info->user_us = row->user_us;
    info->system_us = row->system_us;
    info->peak_bytes = row->peak_bytes;
    info->log_end = (uint64_t)row->log_end;
    info->bytes[COMMAND_STDOUT] = (uint64_t)row->bytes_out;
    info->bytes[COMMAND_STDERR] = (uint64_t)row->bytes_err;
    info->bytes[COMMAND_TTY] = (uint64_t)row->bytes_tty;
    info->truncated = row->truncated != 0;
    command->is_complete = true;
    engine->last_order = MAX(engine->last_order, row->ord);
    (void)map_put(&engine->commands, row->id, command);
}

int command_load(struct engine *engine, struct err *err)
{
    return store_each(engine->store, &store_commands, load, engine, err);
}

/* How far its log got, the log itself says. */
void command_reconcile(struct engine *engine, struct store_batch *batch)
{
    struct err err = {0};
    MAP_EACH (entry, &engine->commands) {
        struct command *command = entry->value;
        if (command->info.state != COMMAND_RUNNING)
            continue;
        command->info.state = COMMAND_ENDED;
        command->info.end = COMMAND_LOST;
        command->info.ended_ms = clock_date_ms();
        if (store_log_end(engine->store, command->info.id, &command->info.log_end, &err) < 0)
            log_error("reconcile.command", LOG_VIEW("command", command->info.id),
                      LOG_ID("sandbox", command->info.sandbox), LOG_STR("error", err.msg));
        command_save(command, batch);
        log_info("reconcile.command", LOG_VIEW("command", command->info.id),
                 LOG_ID("sandbox", command->info.sandbox));
    }
}

void command_sweep(struct engine *engine)
{
    int64_t now = clock_date_ms();
    struct err gone = {0};
    struct store_batch *batch = NULL;
    (void)err_set(&gone, ERR_GONE, "the log is no longer kept");
    MAP_EACH (entry, &engine->commands) {
        struct command *command = entry->value;
        if (!command->is_complete ||
            (now - command->info.ended_ms < COMMAND_TTL_MS &&
             engine->commands.len <= COMMANDS_MAX && engine->log_bytes <= LOG_TOTAL_MAX))
            continue;
        if (batch == NULL)
            batch = store_begin(engine->store);
        store_remove(batch, &store_commands, command->info.id);
        (void)map_remove(&engine->commands, entry->key);
        log_drop(command, &gone);
        (void)command_free(command);
    }
    if (batch != NULL)
        store_commit(batch, STORE_QUICK, NULL, NULL);
}

void command_done_all(struct engine *engine)
{
    struct err gone = {0};
    (void)err_set(&gone, ERR_UNAVAILABLE, "the server stops");
    MAP_EACH (entry, &engine->commands) {
        log_drop(entry->value, &gone);
        (void)command_free(entry->value);
    }
    map_done(&engine->commands);
}
