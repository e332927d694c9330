/* Logs: what commands put out, with offsets. Written as it comes; what is kept of each stream is
 * its beginning and its end.
 *
 * A reader that is attached (LOG_ATTACH) gets every byte. Nothing is cut from a log that such a
 * reader has yet to read: the command's output waits instead, in its pipes, until the reader has
 * taken enough. A reader that opens a log whose middle is gone already is attached from the end of
 * that gap on. */

#include "engine/command/command_log.h"

#include "base/clock.h"
#include "base/excerpt.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "config/config.h"
#include "engine/command/command_internal.h"
#include "engine/internal.h"
#include "store/store.h"

/* --- Pace --- */

static bool is_attached(const struct command_log_reader *reader)
{
    return reader->mode == LOG_ATTACH && !reader->is_ended && !reader->hold.is_freed &&
           reader->offset >= reader->command->cut_end;
}

/* The offset from which the log must be kept for readers that get all of it. The caller that starts
 * a command attaches its reader in the call-back of the start; until then the whole log is kept. */
static uint64_t hold_from(const struct command *command)
{
    uint64_t from = command->start_answer != NULL ? 0 : UINT64_MAX;
    for (const struct command_log_reader *reader = command->readers; reader != NULL;
         reader = reader->next)
        if (is_attached(reader))
            from = MIN(from, reader->offset);
    return from;
}

static uint64_t half_bytes(const struct command *command)
{
    return (uint64_t)command->engine->config->logs.stream_mb << 19;
}

/* Of one row: many short ones must not cost more than few long ones. */
static uint64_t cost_of(size_t len)
{
    return len + LOG_PIECE_COST;
}

/* The oldest piece of the end of a stream; NULL unless it is one too many. */
static const struct command_log_piece *find_excess(const struct command *command, int stream)
{
    if (command->tail_first[stream] == command->tail[stream].len)
        return NULL;
    const struct command_log_piece *oldest =
        &command->tail[stream].ptr[command->tail_first[stream]];
    return command->tail_cost[stream] - cost_of(oldest->len) < half_bytes(command) ? NULL : oldest;
}

/* A reader has not taken what would have to be cut now. */
static bool is_held(const struct command *command)
{
    uint64_t from = hold_from(command);
    for (int i = 0; i < 3; i++) {
        const struct command_log_piece *oldest = find_excess(command, i);
        if (oldest != NULL && oldest->start + oldest->len > from)
            return true;
    }
    return false;
}

void command_log_pace(struct command *command)
{
    size_t limit = command->is_stopped ? LOG_UNFLUSHED_LOW : LOG_UNFLUSHED_MAX;
    struct exec *exec = command->exec != NULL ? command->exec : command->open;
    if (exec == NULL)
        return;
    bool stops = command->unflushed > limit || is_held(command);
    if (stops == command->is_stopped)
        return;
    command->is_stopped = stops;
    command->table->exec_flow(exec, stops);
}

/* The reader that makes the command wait, if it has taken nothing for that long. */
static struct command_log_reader *find_stalled(const struct command *command, int64_t before)
{
    if ((command->exec == NULL && command->open == NULL) || !is_held(command))
        return NULL;
    for (struct command_log_reader *reader = command->readers; reader != NULL;
         reader = reader->next)
        if (is_attached(reader) && reader->is_paused && !command_log_reader_is_told(reader) &&
            reader->paused_at < before)
            return reader;
    return NULL;
}

void command_log_drop_stalled(struct command *command, int64_t now)
{
    int64_t seconds = command->engine->config->logs.stalled_seconds;
    struct err err = {0};
    if (seconds == 0)
        return;
    for (struct command_log_reader *reader;
         (reader = find_stalled(command, now - seconds * 1000)) != NULL;) {
        log_warn("command.reader_stalled", LOG_VIEW("command", command->info.id),
                 LOG_ID("sandbox", command->info.sandbox), LOG_INT("seconds", seconds));
        (void)err_set(&err, ERR_TIMEOUT,
                      "the client read no output for %lld s while the command waited for it "
                      "(logs.stalled_seconds); continue at offset %llu of the log",
                      (long long)seconds, (unsigned long long)reader->offset);
        command_log_reader_end(reader, &err);
        command_log_pace(command);
    }
}

/* --- Writing --- */

struct flush {
    struct engine *engine;
    char command[ID_SIZE];
    size_t bytes;
};

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
        command_log_pace(command);
    }
    free(flush);
}

/* The end of a stream moves on: its oldest pieces go, except what a reader still has to read. */
static void command_log_cut(struct command *command, enum command_stream stream,
                            struct store_batch *batch)
{
    uint64_t from = hold_from(command);
    for (const struct command_log_piece *oldest; (oldest = find_excess(command, stream)) != NULL;) {
        if (oldest->start + oldest->len > from)
            break;
        store_cut_log(batch, command->info.id, stream, oldest->start, oldest->start + 1);
        command->tail_cost[stream] -= cost_of(oldest->len);
        command->tail_first[stream]++;
        command->cut_end = MAX(command->cut_end, oldest->start + oldest->len);
        command->info.missing += oldest->len;
        command->info.truncated = true;
    }
    if (command->tail_first[stream] > 1024) { /* frees the memory of dropped pieces */
        size_t dropped = command->tail_first[stream];
        memmove(command->tail[stream].ptr, command->tail[stream].ptr + dropped,
                (command->tail[stream].len - dropped) * sizeof(struct command_log_piece));
        command->tail[stream].len -= dropped;
        command->tail_first[stream] = 0;
    }
}

/* Searches from the start each time, because a call-back may free any reader. A reader that has
 * been called is past this offset. */
static struct command_log_reader *find_abreast(const struct command *command,
                                               const struct store_log *log)
{
    for (struct command_log_reader *reader = command->readers; reader != NULL;
         reader = reader->next)
        if (reader->mode != LOG_KEPT && !reader->is_paused && !reader->is_reading &&
            !command_log_reader_is_told(reader) && !reader->is_ended &&
            reader->offset == log->start)
            return reader;
    return NULL;
}

static void tell_readers(struct command *command, const struct store_log *log)
{
    for (struct command_log_reader *reader; (reader = find_abreast(command, log)) != NULL;)
        (void)command_log_reader_tell(reader, log);
}

static void append_piece(struct command *command, enum command_stream stream, struct str bytes,
                         bool is_head)
{
    struct engine *engine = command->engine;
    struct store_log log = {.command = command->info.id,
                            .start = command->info.log_end,
                            .stream = stream,
                            .bytes = bytes,
                            .at = (int64_t)command->info.bytes[stream],
                            .lines = (int64_t)command->lines[stream]};
    struct flush *flush = mem_alloc(sizeof *flush);
    flush->engine = engine;
    flush->bytes = bytes.len;
    (void)snprintf(flush->command, sizeof flush->command, "%.*s", STR_ARG(command->info.id));
    struct store_batch *batch = store_begin(engine->store);
    store_put_log(batch, &log);
    if (is_head) {
        command->head_cost[stream] += cost_of(bytes.len);
    } else {
        *vec_push(&command->tail[stream]) = (struct command_log_piece){log.start, bytes.len};
        command->tail_cost[stream] += cost_of(bytes.len);
        command_log_cut(command, stream, batch);
    }
    command->info.log_end += bytes.len;
    command->info.bytes[stream] += bytes.len;
    command->lines[stream] += excerpt_count_lines(bytes);
    command->unflushed += bytes.len;
    store_commit(batch, STORE_LAZY, on_flushed, flush);
    tell_readers(command, &log);
}

/* How many of the bytes belong to the beginning of a stream, which ends with a line where one ends
 * near its limit. */
static size_t command_log_take_head(struct command *command, enum command_stream stream,
                                    struct str bytes)
{
    uint64_t half = half_bytes(command), has = command->head_cost[stream];
    if (command->is_head_full[stream])
        return 0;
    if (has + cost_of(bytes.len) <= half)
        return bytes.len;
    size_t room = has < half ? MIN((size_t)(half - has), bytes.len) : 0;
    const char *last = room == 0 ? NULL : memrchr(bytes.ptr, '\n', room);
    size_t next = room + str_find_char(str_slice(bytes, room, bytes.len), '\n');
    size_t most = (size_t)(half + LOG_HEAD_LINE - MIN(has, half + LOG_HEAD_LINE));
    if (last == NULL && next == bytes.len && bytes.len <= most)
        return bytes.len; /* its line goes on */
    command->is_head_full[stream] = true;
    if (last != NULL)
        return (size_t)(last - bytes.ptr) + 1;
    most = MIN(most, bytes.len);
    return MIN(next + 1, most);
}

void command_log_append(struct command *command, enum command_stream stream, struct str bytes)
{
    while (bytes.len > 0) {
        struct str piece = str_slice(bytes, 0, COMMAND_CHUNK_MAX);
        bytes = str_slice(bytes, COMMAND_CHUNK_MAX, bytes.len);
        size_t head = command_log_take_head(command, stream, piece);
        if (head > 0)
            append_piece(command, stream, str_slice(piece, 0, head), true);
        if (head < piece.len)
            append_piece(command, stream, str_slice(piece, head, piece.len), false);
    }
    command_log_pace(command);
}

/* --- The end --- */

/* Each reader that is found reads or has ended afterwards. */
static struct command_log_reader *find_still(const struct command *command)
{
    for (struct command_log_reader *reader = command->readers; reader != NULL;
         reader = reader->next)
        if (!reader->is_paused && !reader->is_reading && !command_log_reader_is_told(reader) &&
            !reader->is_ended)
            return reader;
    return NULL;
}

void command_log_complete(struct command *command)
{
    command->is_complete = true;
    for (struct command_log_reader *reader = command->readers; reader != NULL;
         reader = reader->next)
        reader->end = reader->mode == LOG_KEPT ? reader->end : command->info.log_end;
    for (struct command_log_reader *reader; (reader = find_still(command)) != NULL;)
        command_log_reader_go_on(reader, false);
    command_tell_waiters(command, NULL);
    command_rest(command);
}

void command_log_drop(struct command *command, const struct err *why)
{
    while (command->readers != NULL) {
        struct command_log_reader *reader = command->readers;
        command_log_reader_unlink(reader);
        if (!reader->is_reading)
            command_log_reader_end(reader, why);
    }
    command_tell_waiters(command, why);
}
