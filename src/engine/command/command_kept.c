/* Ended commands. Their records and logs are in the store; memory has only those in use and the
 * last few, which are likely to be requested. The others are loaded when they are named. */

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "config/config.h"
#include "engine/answer.h"
#include "engine/command/command_internal.h"
#include "engine/command/command_log.h"
#include "engine/internal.h"
#include "store/store.h"

/* --- In memory --- */

static bool is_wanted(const struct command *command)
{
    return !command->is_complete || command->is_unsaved || command->starting > 0 ||
           command->open != NULL || command->holds > 0 || command->readers != NULL ||
           command->waiters != NULL;
}

void command_take(struct command *command)
{
    struct recent_commands *recent = &command->engine->recent;
    if (!command->is_recent)
        return;
    *(command->newer == NULL ? &recent->newest : &command->newer->older) = command->older;
    *(command->older == NULL ? &recent->oldest : &command->older->newer) = command->newer;
    command->newer = command->older = NULL;
    command->is_recent = false;
    recent->len--;
}

void command_rest(struct command *command)
{
    struct recent_commands *recent = &command->engine->recent;
    if (command->is_recent || is_wanted(command))
        return;
    command->older = recent->newest;
    *(recent->newest == NULL ? &recent->oldest : &recent->newest->newer) = command;
    recent->newest = command;
    command->is_recent = true;
    recent->len++;
}

void command_hold(struct command *command)
{
    command_take(command);
    command->holds++;
}

static void unhold(struct command *command)
{
    assert(command->holds > 0);
    command->holds--;
    command_rest(command);
}

static void command_kept_forget(struct command *command)
{
    command_take(command);
    (void)map_remove(&command->engine->commands, command->info.id);
    (void)command_free(command);
}

void command_tick(struct engine *engine)
{
    while (engine->recent.len > COMMANDS_RECENT)
        command_kept_forget(engine->recent.oldest);
    int64_t now = clock_boot_ms();
    MAP_EACH (entry, &engine->commands) {
        struct command *command = entry->value;
        if (command->is_stopped)
            command_log_drop_stalled(command, now);
    }
}

/* --- Brought back --- */

struct bringing {
    struct engine *engine;
    char id[ID_SIZE];
    struct buf tenant;
    command_ready *call;
    void *ctx;
};

/* Another request may have loaded the command meanwhile. */
static void on_row(void *ctx, const struct store_command *rows, size_t count, const struct err *why)
{
    struct bringing *bringing = ctx;
    struct engine *engine = bringing->engine;
    struct err none = {0};
    struct engine_caller caller = {.tenant = buf_str(&bringing->tenant)};
    if (count > 0 && str_eq(rows[0].tenant, caller.tenant) &&
        !map_has(&engine->commands, rows[0].id))
        (void)command_of_row(engine, &rows[0]);
    struct command *command =
        why == NULL ? command_find(engine, &caller, str_of(bringing->id), &none) : NULL;
    if (command == NULL) {
        bringing->call(bringing->ctx, NULL, why != NULL ? why : &none);
    } else {
        command_hold(command);
        bringing->call(bringing->ctx, command, NULL);
        unhold(command);
    }
    buf_done(&bringing->tenant);
    free(bringing);
}

void command_bring(struct engine *engine, const struct engine_caller *caller, struct str id,
                   command_ready *call, void *ctx)
{
    struct err err = {0};
    struct command *command = command_find(engine, caller, id, &err);
    /* One that is in memory and not the caller's, or not started yet, is not there for it. */
    if (command != NULL || !id_is_valid(id) || map_has(&engine->commands, id)) {
        call(ctx, command, command == NULL ? &err : NULL);
        return;
    }
    struct bringing *bringing = mem_alloc(sizeof *bringing);
    bringing->engine = engine;
    bringing->call = call;
    bringing->ctx = ctx;
    (void)snprintf(bringing->id, sizeof bringing->id, "%.*s", STR_ARG(id));
    buf_put(&bringing->tenant, caller->tenant);
    store_read_command(engine->store, id, on_row, bringing);
}

void command_deliver(struct answer *answer, const struct err *why)
{
    struct command *command = map_get(&answer->engine->commands, str_of(answer->id));
    struct err gone = {0};
    if (why == NULL && command == NULL) {
        (void)err_set(&gone, ERR_NOT_FOUND, "no command '%s'", answer->id);
        why = &gone;
    }
    struct command_info info = {0};
    if (command != NULL)
        info = command->info;
    answer->done.command(answer->ctx, why == NULL ? &info : NULL, why);
    if (command == NULL)
        return;
    if (command->start_answer == answer) {
        command->start_answer = NULL;
        command_log_pace(command);
    }
    unhold(command);
}

static void command_kept_on_found(void *ctx, struct command *command, const struct err *why)
{
    struct answer *answer = ctx;
    if (command != NULL) {
        (void)snprintf(answer->id, sizeof answer->id, "%.*s", STR_ARG(command->info.id));
        command_hold(command);
    }
    answer_give(answer, why);
}

void engine_command_get(struct engine *engine, const struct engine_caller *caller, struct str id,
                        command_done *done, void *ctx)
{
    struct answer *answer = answer_new(engine, command_deliver, ctx);
    answer->done.command = done;
    command_bring(engine, caller, id, command_kept_on_found, answer);
}

bool engine_command_peek(struct engine *engine, const struct engine_caller *caller, struct str id,
                         struct command_info *ret_command)
{
    struct err err = {0};
    const struct command *command = command_find(engine, caller, id, &err);
    if (command == NULL)
        return false;
    *ret_command = command->info;
    return true;
}

/* --- Kept for their time --- */

struct kept_commands *command_kept_of_tenant(struct engine *engine, struct str tenant)
{
    struct kept_commands *kept = map_get(&engine->kept_commands, tenant);
    if (kept != NULL)
        return kept;
    kept = mem_alloc(sizeof *kept);
    kept->engine = engine;
    (void)map_put(&engine->kept_commands, tenant, kept);
    buf_put(&kept->tenant, tenant);
    return kept;
}

static struct kept_commands *kept_free(struct kept_commands *kept)
{
    buf_done(&kept->tenant);
    free(kept);
    return NULL;
}

void command_count(struct command *command)
{
    if (command->is_counted || command->open != NULL)
        return;
    command->is_counted = true;
    struct kept_commands *kept = command_kept_of_tenant(command->engine, command->tenant);
    kept->count++;
    kept->bytes += command->info.log_end - command->info.missing;
}

static void drop_some(struct kept_commands *kept);

static void on_dropped(void *ctx, const struct store_dropped *dropped, const struct err *why)
{
    struct kept_commands *kept = ctx;
    struct engine *engine = kept->engine;
    struct err gone = {0};
    (void)err_set(&gone, ERR_GONE, "the log is no longer kept");
    kept->is_dropping = false;
    if (why != NULL) {
        log_warn("command.sweep", LOG_STR("error", why->msg));
        return;
    }
    for (size_t i = 0; i < dropped->count; i++) {
        struct command *command = map_get(&engine->commands, dropped->ids[i]);
        if (command == NULL)
            continue;
        command_log_drop(command, &gone);
        command_kept_forget(command);
    }
    kept->count -= MIN((uint64_t)dropped->count, kept->count);
    kept->bytes -= MIN(dropped->bytes, kept->bytes);
    if (!dropped->is_all)
        drop_some(kept);
}

static uint64_t over(uint64_t has, uint64_t most)
{
    return has > most ? has - most : 0;
}

/* Drops commands of a tenant that is over its limit. If all tenants together are over the limit,
 * drops those of the tenant with the most. */
static void drop_some(struct kept_commands *kept)
{
    struct engine *engine = kept->engine;
    uint64_t count = 0, bytes = 0, most_count = 0, most_bytes = 0;
    if (kept->is_dropping || engine->is_stopping)
        return;
    MAP_EACH (entry, &engine->kept_commands) {
        const struct kept_commands *one = entry->value;
        count += one->count;
        bytes += one->bytes;
        most_count = MAX(most_count, one->count);
        most_bytes = MAX(most_bytes, one->bytes);
    }
    uint64_t limit = (uint64_t)engine->config->limits.commands;
    struct store_drop drop = {
        .tenant = buf_str(&kept->tenant),
        .before_ms = clock_date_ms() - engine->config->logs.keep_hours * 3600000,
        .count = limit == 0 ? 0 : over(kept->count, limit),
    };
    if (kept->count == most_count)
        drop.count = MAX(drop.count, MIN(over(count, COMMANDS_MAX), kept->count));
    if (kept->bytes == most_bytes)
        drop.bytes = MIN(over(bytes, (uint64_t)engine->config->logs.total_mb << 20), kept->bytes);
    kept->is_dropping = true;
    store_drop_commands(engine->store, &drop, on_dropped, kept);
}

static void on_saved_again(void *ctx, const struct err *why)
{
    struct command *command = ctx;
    command->is_saving = false;
    if (why != NULL)
        return;
    command->is_unsaved = false;
    command_count(command);
    command_rest(command);
}

void command_save_again(struct engine *engine)
{
    MAP_EACH (entry, &engine->commands) {
        struct command *command = entry->value;
        if (!command->is_unsaved || command->is_saving)
            continue;
        command->is_saving = true;
        struct store_batch *batch = store_begin(engine->store);
        command_save(command, batch);
        store_commit(batch, STORE_QUICK, on_saved_again, command);
    }
}

void command_sweep(struct engine *engine)
{
    command_save_again(engine);
    MAP_EACH (entry, &engine->kept_commands) {
        struct kept_commands *kept = entry->value;
        if (kept->count > 0)
            drop_some(kept);
    }
}

void command_done_all(struct engine *engine)
{
    struct err gone = {0};
    (void)err_set(&gone, ERR_UNAVAILABLE, "the server is stopping");
    MAP_EACH (entry, &engine->commands) {
        command_log_drop(entry->value, &gone);
        (void)command_free(entry->value);
    }
    map_done(&engine->commands);
    MAP_EACH (entry, &engine->kept_commands)
        (void)kept_free(entry->value);
    map_done(&engine->kept_commands);
}
