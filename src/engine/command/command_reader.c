/* Readers of logs, and requests that wait for a command's end. */

#include "base/clock.h"
#include "base/excerpt.h"
#include "base/map.h"
#include "engine/command/command_internal.h"
#include "engine/command/command_log.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox_internal.h"
#include "store/store.h"

enum { READ_BYTES = 256 << 10 };

struct command_waiter {
    struct command_waiter *next;
    struct command *command; /* NULL once its end was reported */
    command_done *done;
    void *ctx;
    struct timer *timer;
};

/* --- Readers --- */

void command_log_reader_unlink(struct command_log_reader *reader)
{
    struct command *command = reader->command;
    if (command == NULL)
        return;
    struct command_log_reader **at = &command->readers;
    while (*at != reader)
        at = &(*at)->next;
    *at = reader->next;
    reader->command = NULL;
    command_log_pace(command); /* it may have waited for this one */
    command_rest(command);
}

/* False: it was freed meanwhile. */
static bool let_go(struct command_log_reader *reader)
{
    bool is_there = !reader->hold.is_freed;
    if (hold_release(&reader->hold))
        free(reader);
    return is_there;
}

struct command_log_reader *command_log_reader_free(struct command_log_reader *reader)
{
    if (reader == NULL)
        return NULL;
    command_log_reader_unlink(reader);
    if (hold_end(&reader->hold))
        free(reader);
    return NULL;
}

/* Its caller holds the reader. */
static void report_gap(struct command_log_reader *reader, enum command_stream stream,
                       uint64_t offset, uint64_t bytes, int64_t lines)
{
    struct log_gap gap = {offset, stream, bytes, lines};
    if (reader->calls.on_gap != NULL)
        reader->calls.on_gap(reader->ctx, &gap);
}

/* What the store could not keep at the very end of a log. */
static void report_last_gaps(struct command_log_reader *reader)
{
    const struct command_info *info = &reader->command->info;
    if (!reader->command->is_complete || (reader->mode == LOG_KEPT && reader->end < info->log_end))
        return;
    for (int i = 0; i < 3 && !reader->hold.is_freed; i++)
        if (reader->seen[i].is_known && reader->seen[i].bytes < info->bytes[i])
            report_gap(reader, (enum command_stream)i, info->log_end,
                       info->bytes[i] - reader->seen[i].bytes, -1);
}

void command_log_reader_end(struct command_log_reader *reader, const struct err *why)
{
    struct command_info info = {0};
    if (reader->is_ended || reader->hold.is_freed)
        return;
    bool has_info = reader->command != NULL;
    hold_take(&reader->hold);
    if (has_info && why == NULL)
        report_last_gaps(reader);
    if (!reader->hold.is_freed) {
        if (has_info)
            info = reader->command->info;
        reader->is_ended = true;
        reader->calls.on_end(reader->ctx, has_info ? &info : NULL, why);
    }
    (void)let_go(reader);
}

/* Takes `count` bytes off a piece's start. */
static void skip(struct log_chunk *chunk, struct log_place *place, size_t count)
{
    struct str gone = str_slice(chunk->bytes, 0, count);
    place->bytes += count;
    place->lines += excerpt_count_lines(gone);
    chunk->offset += count;
    chunk->bytes = str_slice(chunk->bytes, count, chunk->bytes.len);
}

/* The bytes of its stream that are missing before a piece; the rest of a line whose beginning is
 * missing counts as missing, too. */
static uint64_t find_gap(const struct command_log_reader *reader, struct log_chunk *chunk,
                         struct log_place *place, int64_t *ret_lines)
{
    const struct log_place *seen = &reader->seen[chunk->stream];
    bool is_exact = seen->is_known && place->is_known;
    uint64_t jump = chunk->offset - reader->offset;
    if (is_exact ? place->bytes <= seen->bytes : jump == 0)
        return 0;
    size_t line_end = str_find_char(chunk->bytes, '\n');
    size_t cut = line_end + 1 < chunk->bytes.len ? line_end + 1 : 0;
    skip(chunk, place, cut);
    *ret_lines = is_exact ? (int64_t)(place->lines - seen->lines) : -1;
    return is_exact ? place->bytes - seen->bytes : jump + cut;
}

bool command_log_reader_tell(struct command_log_reader *reader, const struct store_log *log)
{
    struct log_chunk chunk = {log->start, (enum command_stream)log->stream, log->bytes};
    struct log_place place = {log->at >= 0, (uint64_t)log->at, (uint64_t)log->lines};
    int64_t lines = -1;
    if (chunk.offset < reader->offset) /* it begins in the middle */
        skip(&chunk, &place, (size_t)(reader->offset - chunk.offset));
    uint64_t missing = find_gap(reader, &chunk, &place, &lines);
    if (reader->mode == LOG_KEPT && chunk.offset + chunk.bytes.len > reader->end)
        chunk.bytes =
            str_slice(chunk.bytes, 0, (size_t)(reader->end - MIN(chunk.offset, reader->end)));
    reader->offset = chunk.offset + chunk.bytes.len;
    if (chunk.bytes.len == 0)
        return true;
    reader->seen[chunk.stream] = (struct log_place){place.is_known, place.bytes + chunk.bytes.len,
                                                    place.lines + excerpt_count_lines(chunk.bytes)};
    hold_take(&reader->hold);
    if (missing > 0)
        report_gap(reader, chunk.stream, chunk.offset, missing, lines);
    if (!reader->hold.is_freed)
        reader->calls.on_chunk(reader->ctx, &chunk);
    return let_go(reader);
}

static bool is_at_end(const struct command_log_reader *reader)
{
    /* Of a command that has ended, what processes that it left put out later is not waited for. */
    return (reader->mode == LOG_KEPT || reader->command->is_complete) &&
           reader->offset >= reader->end;
}

static void command_reader_on_read(void *ctx, const struct store_log *logs, size_t count,
                                   const struct err *why)
{
    struct command_log_reader *reader = ctx;
    for (size_t i = 0; i < count && !reader->hold.is_freed && !reader->is_paused; i++)
        if (!command_log_reader_tell(reader, &logs[i]))
            break;
    reader->is_reading = false;
    if (!let_go(reader))
        return;
    if (why != NULL || reader->command == NULL) {
        struct err gone = {0};
        (void)err_set(&gone, ERR_GONE, "the log is no longer kept");
        command_log_reader_end(reader, why != NULL ? why : &gone);
        return;
    }
    if (count == 0) /* what is missing was not kept */
        reader->offset = MAX(reader->offset, reader->asked);
    command_log_pace(reader->command);
    command_log_reader_go_on(reader, false);
}

void command_log_reader_go_on(struct command_log_reader *reader, bool always)
{
    if (reader->is_reading || reader->is_paused || reader->is_ended || reader->command == NULL)
        return;
    if (!always && is_at_end(reader)) {
        command_log_reader_end(reader, NULL);
        return;
    }
    if (!always && reader->offset >= reader->command->info.log_end)
        return; /* it has caught up */
    reader->is_reading = true;
    hold_take(&reader->hold); /* until on_read */
    reader->asked = reader->command->info.log_end;
    store_read_log(reader->engine->store, reader->command->info.id, reader->offset, READ_BYTES,
                   command_reader_on_read, reader);
}

static bool is_paused(const struct command *command)
{
    const struct sandbox *sandbox = map_get(&command->engine->sandboxes, command->info.sandbox);
    return sandbox != NULL && sandbox->info.state == SANDBOX_PAUSED &&
           command->info.state == COMMAND_RUNNING;
}

int engine_log_open(struct engine *engine, const struct engine_caller *caller, struct str id,
                    uint64_t offset, enum log_mode mode, const struct log_calls *calls, void *ctx,
                    struct command_log_reader **ret_reader, struct err *err)
{
    struct command *command = command_find(engine, caller, id, err);
    if (command == NULL)
        return -1;
    if (offset > command->info.log_end)
        return err_set(err, ERR_INVALID, "offset: past the end of the log, which is at %llu",
                       (unsigned long long)command->info.log_end);
    struct command_log_reader *reader = mem_alloc(sizeof *reader);
    *reader = (struct command_log_reader){.next = command->readers,
                                          .engine = engine,
                                          .command = command,
                                          .calls = *calls,
                                          .ctx = ctx,
                                          .offset = offset,
                                          .end = command->info.log_end,
                                          .mode = mode};
    reader->was_paused = is_paused(command);
    for (size_t i = 0; i < countof(reader->seen); i++)
        reader->seen[i].is_known = offset == 0;
    command->readers = reader;
    command_take(command);
    /* Also when there is nothing: the end must not come from here. One that has caught up with a
     * command that runs will get what comes. */
    if (mode == LOG_KEPT || command->is_complete || offset < command->info.log_end)
        command_log_reader_go_on(reader, true);
    *ret_reader = reader;
    return 0;
}

void command_log_reader_pause(struct command_log_reader *reader)
{
    if (!reader->is_paused)
        reader->paused_at = clock_boot_ms();
    reader->is_paused = true;
}

void command_log_reader_resume(struct command_log_reader *reader)
{
    reader->is_paused = false;
    if (!command_log_reader_is_told(reader))
        command_log_reader_go_on(reader, true);
}

/* --- Waiters --- */

static void unlink_waiter(struct command_waiter *waiter)
{
    if (waiter->command == NULL)
        return;
    for (struct command_waiter **at = &waiter->command->waiters; *at != NULL; at = &(*at)->next)
        if (*at == waiter) {
            *at = waiter->next;
            break;
        }
    command_rest(waiter->command);
    waiter->command = NULL;
}

struct command_waiter *command_waiter_free(struct command_waiter *waiter)
{
    if (waiter == NULL)
        return NULL;
    unlink_waiter(waiter);
    (void)timer_free(waiter->timer);
    free(waiter);
    return NULL;
}

static void tell_waiter(struct command_waiter *waiter, const struct err *why)
{
    struct command *command = waiter->command;
    assert(command != NULL);
    unlink_waiter(waiter);
    timer_clear(waiter->timer);
    struct command_info info = command->info;
    waiter->done(waiter->ctx, why == NULL ? &info : NULL, why);
}

static void on_wait_time(void *ctx)
{
    struct command_waiter *waiter = ctx;
    struct err err = {0};
    if (waiter->command == NULL)
        return;
    if (waiter->command->is_complete) {
        tell_waiter(waiter, NULL);
        return;
    }
    const struct sandbox *sandbox =
        map_get(&waiter->command->engine->sandboxes, waiter->command->info.sandbox);
    if (is_paused(waiter->command))
        sandbox_paused_err(sandbox, &err);
    else
        (void)err_set(&err, ERR_TIMEOUT, "command '%.*s' is still running",
                      STR_ARG(waiter->command->info.id));
    tell_waiter(waiter, &err);
}

/* --- The state of the sandbox --- */

/* A reader of the sandbox's running commands that does not know the sandbox's state yet. */
static struct command_log_reader *find_untold(const struct sandbox *sandbox)
{
    MAP_EACH (entry, &sandbox->engine->commands) {
        struct command *command = entry->value;
        if (command->info.state != COMMAND_RUNNING ||
            !str_eq(command->info.sandbox, sandbox->info.id))
            continue;
        for (struct command_log_reader *reader = command->readers; reader != NULL;
             reader = reader->next)
            if (reader->mode != LOG_KEPT && !reader->is_ended && !reader->hold.is_freed &&
                sandbox_is_news(&sandbox->info, &reader->was_paused))
                return reader;
    }
    return NULL;
}

static struct command_waiter *find_waiter(const struct sandbox *sandbox)
{
    MAP_EACH (entry, &sandbox->engine->commands) {
        const struct command *command = entry->value;
        if (command->waiters != NULL && command->info.state == COMMAND_RUNNING &&
            str_eq(command->info.sandbox, sandbox->info.id))
            return command->waiters;
    }
    return NULL;
}

void command_tell_state(struct sandbox *sandbox)
{
    struct err err = {0};
    sandbox_paused_err(sandbox, &err);
    if (sandbox->commands == 0)
        return;
    for (struct command_log_reader *reader; (reader = find_untold(sandbox)) != NULL;) {
        hold_take(&reader->hold);
        /* The command does not continue after the server has stopped. */
        if (reader->calls.on_state != NULL && !sandbox->engine->is_stopping)
            reader->calls.on_state(reader->ctx, &sandbox->info);
        else if (sandbox->info.state == SANDBOX_PAUSED)
            command_log_reader_end(reader, &err);
        (void)let_go(reader);
    }
    for (struct command_waiter *waiter;
         sandbox->info.state == SANDBOX_PAUSED && (waiter = find_waiter(sandbox)) != NULL;)
        tell_waiter(waiter, &err);
}

int engine_command_wait(struct engine *engine, const struct engine_caller *caller, struct str id,
                        int64_t timeout_ms, command_done *done, void *ctx,
                        struct command_waiter **ret_waiter, struct err *err)
{
    struct command *command = command_find(engine, caller, id, err);
    if (command == NULL)
        return -1;
    struct command_waiter *waiter = mem_alloc(sizeof *waiter);
    *waiter = (struct command_waiter){command->waiters, command, done, ctx,
                                      timer_new(engine->loop, on_wait_time, waiter)};
    command->waiters = waiter;
    command_take(command);
    bool is_known = command->is_complete || is_paused(command);
    if (is_known || timeout_ms >= 0)
        timer_set(waiter->timer, is_known ? 0 : timeout_ms, 0);
    *ret_waiter = waiter;
    return 0;
}

void command_tell_waiters(struct command *command, const struct err *why)
{
    while (command->waiters != NULL)
        tell_waiter(command->waiters, why);
}
