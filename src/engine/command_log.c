/* Logs: what commands put out, with offsets. Written as it comes, read at any pace. */

#include "base/log.h"
#include "engine/command_internal.h"

enum { READ_BYTES = 256 << 10 };

/* Behind (it asks the store, some at a time) or abreast (it is told as output comes). A command
 * that goes leaves its readers with `command` NULL. */
struct log_reader {
    struct loop_task task; /* frees it, when that must wait */
    struct log_reader *next;
    struct engine *engine;
    struct command *command;
    struct log_calls calls;
    void *ctx;
    uint64_t offset, end; /* `end`: where it stops, unless it follows */
    uint64_t asked;       /* the log's end when the store was asked */
    bool follows, is_paused, is_reading, is_telling, is_freed, is_ended;
};

struct command_waiter {
    struct command_waiter *next;
    struct command *command; /* NULL once it was told */
    command_done *done;
    void *ctx;
    struct timer *timer;
};

/* --- Readers --- */

static void unlink_reader(struct log_reader *reader)
{
    if (reader->command == NULL)
        return;
    struct log_reader **at = &reader->command->readers;
    while (*at != reader)
        at = &(*at)->next;
    *at = reader->next;
    command_rest(reader->command);
    reader->command = NULL;
}

static void free_later(struct loop_task *task)
{
    free((char *)task - offsetof(struct log_reader, task));
}

struct log_reader *log_reader_free(struct log_reader *reader)
{
    if (reader == NULL)
        return NULL;
    unlink_reader(reader);
    reader->is_freed = true;
    if (reader->is_reading)
        return NULL; /* on_read frees it */
    if (reader->is_telling) {
        reader->task.run = free_later;
        loop_post(reader->engine->loop, &reader->task);
    } else {
        free(reader);
    }
    return NULL;
}

static void end_reader(struct log_reader *reader, const struct err *why)
{
    struct command_info info = {0};
    if (reader->is_ended || reader->is_freed)
        return;
    if (reader->command != NULL)
        info = reader->command->info;
    bool has_info = reader->command != NULL;
    reader->is_ended = true;
    reader->calls.on_end(reader->ctx, has_info ? &info : NULL, why);
}

/* False when the reader was freed by it. */
static bool tell(struct log_reader *reader, const struct store_log *log)
{
    struct log_chunk chunk = {log->start, (enum command_stream)log->stream, log->bytes};
    if (chunk.offset < reader->offset) { /* it begins in the middle */
        chunk.bytes =
            str_slice(chunk.bytes, (size_t)(reader->offset - chunk.offset), chunk.bytes.len);
        chunk.offset = reader->offset;
    }
    if (!reader->follows && chunk.offset + chunk.bytes.len > reader->end)
        chunk.bytes =
            str_slice(chunk.bytes, 0, (size_t)(reader->end - MIN(chunk.offset, reader->end)));
    reader->offset = chunk.offset + chunk.bytes.len;
    if (chunk.bytes.len == 0)
        return true;
    reader->is_telling = true;
    reader->calls.on_chunk(reader->ctx, &chunk);
    reader->is_telling = false;
    return !reader->is_freed;
}

static bool is_at_end(const struct log_reader *reader)
{
    if (!reader->follows)
        return reader->offset >= reader->end;
    return reader->command->is_complete && reader->offset >= reader->command->info.log_end;
}

static void read_on(struct log_reader *reader, bool always);

static void on_read(void *ctx, const struct store_log *logs, size_t count, const struct err *why)
{
    struct log_reader *reader = ctx;
    for (size_t i = 0; i < count && !reader->is_freed && !reader->is_paused; i++)
        if (!tell(reader, &logs[i]))
            break;
    reader->is_reading = false;
    if (reader->is_freed) {
        free(reader);
        return;
    }
    if (why != NULL || reader->command == NULL) {
        struct err gone = {0};
        (void)err_set(&gone, ERR_GONE, "the log is no longer kept");
        end_reader(reader, why != NULL ? why : &gone);
        return;
    }
    if (count == 0) /* what is missing was not kept */
        reader->offset = MAX(reader->offset, reader->asked);
    read_on(reader, false);
}

static void read_on(struct log_reader *reader, bool always)
{
    if (reader->is_reading || reader->is_paused || reader->is_ended || reader->command == NULL)
        return;
    if (!always && is_at_end(reader)) {
        end_reader(reader, NULL);
        return;
    }
    if (!always && reader->offset >= reader->command->info.log_end)
        return; /* abreast */
    reader->is_reading = true;
    reader->asked = reader->command->info.log_end;
    store_read_log(reader->engine->store, reader->command->info.id, reader->offset, READ_BYTES,
                   on_read, reader);
}

int engine_log_open(struct engine *engine, const struct engine_caller *caller, struct str id,
                    uint64_t offset, bool follow, const struct log_calls *calls, void *ctx,
                    struct log_reader **ret_reader, struct err *err)
{
    struct command *command = command_find(engine, caller, id, err);
    if (command == NULL)
        return -1;
    if (offset > command->info.log_end)
        return err_set(err, ERR_INVALID, "offset: the log ends at %llu",
                       (unsigned long long)command->info.log_end);
    struct log_reader *reader = mem_alloc(sizeof *reader);
    *reader = (struct log_reader){.next = command->readers,
                                  .engine = engine,
                                  .command = command,
                                  .calls = *calls,
                                  .ctx = ctx,
                                  .offset = offset,
                                  .end = command->info.log_end,
                                  .follows = follow};
    command->readers = reader;
    command_take(command);
    /* Also when there is nothing: the end must not come from here. One that is abreast of a command
     * that runs will be told. */
    if (!follow || command->is_complete || offset < command->info.log_end)
        read_on(reader, true);
    *ret_reader = reader;
    return 0;
}

void log_reader_pause(struct log_reader *reader)
{
    reader->is_paused = true;
}

void log_reader_resume(struct log_reader *reader)
{
    reader->is_paused = false;
    if (!reader->is_telling)
        read_on(reader, true);
}

/* --- Writing --- */

struct flush {
    struct engine *engine;
    char command[ID_SIZE];
    size_t bytes;
};

/* A reader of a terminal that nobody keeps up with must not fill our memory. */
static void on_flushed(void *ctx, const struct err *why)
{
    struct flush *flush = ctx;
    struct command *command = map_get(&flush->engine->commands, str_of(flush->command));
    if (why != NULL)
        log_error("command.log", LOG_STR("command", flush->command),
                  LOG_ID("sandbox", command == NULL ? STR("") : command->info.sandbox),
                  LOG_STR("error", why->msg));
    if (command != NULL) {
        command->unflushed -= flush->bytes;
        if (command->is_stopped && command->unflushed < LOG_UNFLUSHED_LOW) {
            command->is_stopped = false;
            if (command->exec != NULL)
                command->table->exec_flow(command->exec, false);
        }
    }
    free(flush);
}

/* The first half of what is kept stays; the second moves on with the end. */
static void keep(struct command *command, enum command_stream stream, uint64_t start, size_t len,
                 struct store_batch *batch)
{
    if (command->head[stream] < LOG_HALF_BYTES) {
        command->head[stream] += len;
        return;
    }
    *vec_push(&command->tail[stream]) = (struct log_piece){start, len};
    command->tail_bytes[stream] += len;
    while (command->tail_first[stream] < command->tail[stream].len) {
        struct log_piece oldest = command->tail[stream].ptr[command->tail_first[stream]];
        if (command->tail_bytes[stream] - oldest.len < LOG_HALF_BYTES)
            break;
        store_cut_log(batch, command->info.id, stream, oldest.start, oldest.start + 1);
        command->tail_bytes[stream] -= oldest.len;
        command->tail_first[stream]++;
        command->info.truncated = true;
    }
    if (command->tail_first[stream] > 1024) { /* the dropped ones take no room for ever */
        size_t dropped = command->tail_first[stream];
        memmove(command->tail[stream].ptr, command->tail[stream].ptr + dropped,
                (command->tail[stream].len - dropped) * sizeof(struct log_piece));
        command->tail[stream].len -= dropped;
        command->tail_first[stream] = 0;
    }
}

/* Looked for anew each time: whoever is told may free any reader. One that was told is past it. */
static struct log_reader *find_abreast(const struct command *command, const struct store_log *log)
{
    for (struct log_reader *reader = command->readers; reader != NULL; reader = reader->next)
        if (reader->follows && !reader->is_paused && !reader->is_reading && !reader->is_telling &&
            !reader->is_ended && reader->offset == log->start)
            return reader;
    return NULL;
}

static void tell_readers(struct command *command, const struct store_log *log)
{
    for (struct log_reader *reader; (reader = find_abreast(command, log)) != NULL;)
        (void)tell(reader, log);
}

static void append_piece(struct command *command, enum command_stream stream, struct str bytes)
{
    struct engine *engine = command->engine;
    struct store_log log = {command->info.id, command->info.log_end, stream, bytes};
    struct flush *flush = mem_alloc(sizeof *flush);
    flush->engine = engine;
    flush->bytes = bytes.len;
    (void)snprintf(flush->command, sizeof flush->command, "%.*s", STR_ARG(command->info.id));
    struct store_batch *batch = store_begin(engine->store);
    store_put_log(batch, &log);
    keep(command, stream, log.start, bytes.len, batch);
    command->info.log_end += bytes.len;
    command->info.bytes[stream] += bytes.len;
    command->unflushed += bytes.len;
    store_commit(batch, STORE_LAZY, on_flushed, flush);
    tell_readers(command, &log);
}

void log_append(struct command *command, enum command_stream stream, struct str bytes)
{
    while (bytes.len > 0) {
        append_piece(command, stream, str_slice(bytes, 0, COMMAND_CHUNK_MAX));
        bytes = str_slice(bytes, COMMAND_CHUNK_MAX, bytes.len);
    }
    if (command->unflushed > LOG_UNFLUSHED_MAX && !command->is_stopped && command->exec != NULL) {
        command->is_stopped = true;
        command->table->exec_flow(command->exec, true);
    }
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
    (void)err_set(&err, ERR_TIMEOUT, "command '%.*s' still runs",
                  STR_ARG(waiter->command->info.id));
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
    if (command->is_complete || timeout_ms >= 0)
        timer_set(waiter->timer, command->is_complete ? 0 : timeout_ms, 0);
    *ret_waiter = waiter;
    return 0;
}

/* The same as above: each that is found reads or has ended afterwards. */
static struct log_reader *find_still(const struct command *command)
{
    for (struct log_reader *reader = command->readers; reader != NULL; reader = reader->next)
        if (!reader->is_paused && !reader->is_reading && !reader->is_telling && !reader->is_ended)
            return reader;
    return NULL;
}

void log_complete(struct command *command)
{
    command->is_complete = true;
    for (struct log_reader *reader; (reader = find_still(command)) != NULL;)
        read_on(reader, false);
    while (command->waiters != NULL)
        tell_waiter(command->waiters, NULL);
    command_rest(command);
}

void log_drop(struct command *command, const struct err *why)
{
    while (command->readers != NULL) {
        struct log_reader *reader = command->readers;
        unlink_reader(reader);
        if (!reader->is_reading)
            end_reader(reader, why);
    }
    while (command->waiters != NULL)
        tell_waiter(command->waiters, why);
}
