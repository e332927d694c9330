/* Commands as rows of the store. */

#include "base/clock.h"
#include "base/format/json.h"
#include "base/log.h"
#include "base/map.h"
#include "engine/command/command_internal.h"
#include "engine/internal.h"
#include "store/store.h"

/* The state of a row whose command has ended while processes that it left still hold its output:
 * the store neither counts nor drops it, and gives it to the next start of the server. */
enum { ROW_OPEN = 2 };

static void put_spec(const struct command_info *info, struct buf *out)
{
    struct json_out json = {.buf = out};
    json_begin_object(&json);
    json_key(&json, "cwd"), json_put_str(&json, info->cwd);
    json_key(&json, "user"), json_put_str(&json, info->user);
    json_key(&json, "tty"), json_put_bool(&json, info->tty);
    time_limit_put_json(&info->limit, &json);
    if (info->why_stopped.len > 0)
        json_key(&json, "whyStopped"), json_put_str(&json, info->why_stopped);
    if (info->memory_bytes > 0)
        json_key(&json, "memoryBytes"), json_put_i64(&json, info->memory_bytes);
    if (info->is_of_session)
        json_key(&json, "isOfSession"), json_put_bool(&json, true);
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
                  .state = info->is_open ? ROW_OPEN : (int)info->state,
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
                  .missing = (int64_t)info->missing,
              });
}

static void read_spec(struct command_info *info, struct str text, struct arena *arena)
{
    AUTO_JSON struct json_t *object = NULL;
    struct err err = {0};
    struct str value = {0};
    if (json_parse(text, &object, &err) < 0)
        return;
    info->cwd =
        json_to_str(json_get(object, "cwd"), &value) ? arena_dup(arena, value) : (struct str){0};
    info->user = STR("sandbox");
    info->shell =
        json_to_str(json_get(object, "shell"), &value) ? arena_dup(arena, value) : (struct str){0};
    (void)!json_to_bool(json_get(object, "tty"), &info->tty);
    info->limit = time_limit_read_json(object);
    if (json_to_str(json_get(object, "whyStopped"), &value))
        info->why_stopped = arena_dup(arena, value);
    (void)!json_to_i64(json_get(object, "memoryBytes"), &info->memory_bytes);
    (void)!json_to_bool(json_get(object, "isOfSession"), &info->is_of_session);
    const struct json_t *argv = json_get(object, "argv");
    struct str *words = arena_array(arena, struct str, json_len(argv) + 1);
    for (size_t i = 0; i < json_len(argv); i++)
        if (json_to_str(json_at(argv, i), &value))
            words[info->arg_count++] = arena_dup(arena, value);
    info->argv = words;
}

/* One that the row says runs, and that is not in memory, is lost. */
struct command_info command_info_of_row(const struct store_command *row, struct arena *arena)
{
    bool has_ended = row->state == COMMAND_ENDED || row->state == ROW_OPEN;
    struct command_info info = {
        .id = arena_dup(arena, row->id),
        .sandbox = arena_dup(arena, row->sandbox),
        .state = COMMAND_ENDED,
        .end = has_ended && row->end_reason >= 0 && row->end_reason < COMMAND_END_COUNT
                   ? (enum command_end)row->end_reason
                   : COMMAND_LOST,
        .code = (int)row->code,
        .signal = (int)row->signal,
        .started_ms = row->started_ms,
        .ended_ms = has_ended ? row->ended_ms : row->started_ms,
        .wall_us = row->wall_us,
        .user_us = row->user_us,
        .system_us = row->system_us,
        .peak_bytes = row->peak_bytes,
        .log_end = (uint64_t)row->log_end,
        .bytes = {(uint64_t)row->bytes_out, (uint64_t)row->bytes_err, (uint64_t)row->bytes_tty},
        .truncated = row->truncated != 0,
        .missing = (uint64_t)row->missing,
    };
    read_spec(&info, row->spec, arena);
    return info;
}

struct command *command_of_row(struct engine *engine, const struct store_command *row)
{
    struct command *command = mem_alloc(sizeof *command);
    command->engine = engine;
    command->tenant = arena_dup(&command->arena, row->tenant);
    command->ord = row->ord;
    command->info = command_info_of_row(row, &command->arena);
    command->is_complete = true;
    (void)map_put(&engine->commands, row->id, command);
    return command;
}

/* --- At start --- */

static void command_row_load(void *ctx, const void *row)
{
    (void)command_of_row(ctx, row);
}

static void count(void *ctx, struct str tenant, int64_t commands, int64_t bytes)
{
    struct kept_commands *kept = command_kept_of_tenant(ctx, tenant);
    kept->count += (uint64_t)commands;
    kept->bytes += (uint64_t)bytes;
}

int command_load(struct engine *engine, struct err *err)
{
    int64_t last = 0;
    if (store_each_running(engine->store, command_row_load, engine, err) < 0 ||
        store_count_commands(engine->store, count, engine, err) < 0 ||
        store_last_command(engine->store, &last, err) < 0)
        return -1;
    engine->last_order = MAX(engine->last_order, last);
    return 0;
}

/* How far its log got, the log itself says. */
void command_reconcile(struct engine *engine, struct store_batch *batch)
{
    struct err err = {0};
    MAP_EACH (entry, &engine->commands) {
        struct command *command = entry->value;
        struct command_info *info = &command->info;
        /* It ended with its server, which has said until then that it lives; one that had ended
         * before has only output of processes that it left. */
        if (info->end == COMMAND_LOST) {
            info->ended_ms = MAX(store_last_alive_ms(engine->store), info->started_ms);
            info->wall_us = (info->ended_ms - info->started_ms) * 1000;
        }
        if (store_log_end(engine->store, command->info.id, &command->info.log_end, &err) < 0)
            log_error("reconcile.command", LOG_VIEW("command", command->info.id),
                      LOG_ID("sandbox", command->info.sandbox), LOG_STR("error", err.msg));
        command_save(command, batch);
        command_count(command);
        command_rest(command);
        log_info("reconcile.command", LOG_VIEW("command", command->info.id),
                 LOG_ID("sandbox", command->info.sandbox));
    }
}
