/* What is read while the daemon runs: logs and events, in their turn among the writes. */

#include "base/err.h"
#include "base/vec.h"
#include "store/internal.h"

/* --- Logs --- */

struct log_read {
    struct store_op op;
    struct arena arena;
    struct str command;
    uint64_t offset;
    size_t max_bytes;
    VEC(struct store_log) logs;
    store_log_done *done;
    void *ctx;
};

/* From the chunk that begins at or before the offset: it may hold it. */
static const char log_sql[] =
    "SELECT start, stream, bytes, at, lines FROM command_logs WHERE command=?1 AND start >= "
    "coalesce((SELECT max(start) FROM command_logs WHERE command=?1 AND start<=?2), 0) "
    "ORDER BY start";

static int run_log_read(struct store *store, struct store_op *op, struct err *err)
{
    struct log_read *read = (struct log_read *)op;
    struct stmt *stmt = NULL;
    if (store_stmt(store, STORE_SLOT_LOG_READ, log_sql, &stmt, err) < 0)
        return -1;
    stmt_bind_text(stmt, 1, read->command);
    stmt_bind_i64(stmt, 2, (int64_t)read->offset);
    size_t bytes = 0;
    int got = 0;
    while (bytes < read->max_bytes && (got = stmt_step(stmt, err)) > 0) {
        struct store_log log = {.command = read->command,
                                .start = (uint64_t)stmt_i64(stmt, 0),
                                .stream = stmt_i64(stmt, 1),
                                .bytes = stmt_bytes(stmt, 2),
                                .at = stmt_i64(stmt, 3),
                                .lines = stmt_i64(stmt, 4)};
        if (log.start + log.bytes.len <= read->offset)
            continue;
        log.bytes = arena_dup(&read->arena, log.bytes);
        bytes += log.bytes.len;
        *vec_push(&read->logs) = log;
    }
    stmt_reset(stmt);
    return got < 0 ? -1 : 0;
}

static void log_read_done(struct store_op *op, const struct err *why)
{
    struct log_read *read = (struct log_read *)op;
    read->done(read->ctx, read->logs.ptr, why == NULL ? read->logs.len : 0, why);
    vec_done(&read->logs);
    arena_done(&read->arena);
    free(read);
}

void store_read_log(struct store *store, struct str command, uint64_t offset, size_t max_bytes,
                    store_log_done *done, void *ctx)
{
    struct log_read *read = mem_alloc(sizeof *read);
    read->op.run = run_log_read;
    read->op.done = log_read_done;
    read->command = arena_dup(&read->arena, command);
    read->offset = offset;
    read->max_bytes = max_bytes;
    read->done = done;
    read->ctx = ctx;
    store_submit(store, &read->op);
}

/* --- Events --- */

struct event_read {
    struct store_op op;
    struct arena arena;
    struct str tenant, sandbox;
    uint64_t after;
    size_t limit;
    VEC(struct store_event) events;
    store_event_done *done;
    void *ctx;
};

/* A line break stands for every tenant (engine/feed_internal.h). Two parts, so that each reads its
 * rows in order from the index. */
static const char event_sql[] =
    "SELECT seq, date_ms, kind, tenant, id, sandbox, state, detail FROM events "
    "WHERE tenant=?1 AND seq>?2 AND (?3 IS NULL OR sandbox=?3) UNION ALL "
    "SELECT seq, date_ms, kind, tenant, id, sandbox, state, detail FROM events "
    "WHERE tenant=char(10) AND seq>?2 AND ?3 IS NULL ORDER BY seq LIMIT ?4";

static struct str column(struct event_read *read, struct stmt *stmt, int at)
{
    return arena_dup(&read->arena, stmt_bytes(stmt, at));
}

static int run_event_read(struct store *store, struct store_op *op, struct err *err)
{
    struct event_read *read = (struct event_read *)op;
    struct stmt *stmt = NULL;
    if (store_stmt(store, STORE_SLOT_EVENT_READ, event_sql, &stmt, err) < 0)
        return -1;
    stmt_bind_text(stmt, 1, read->tenant);
    stmt_bind_i64(stmt, 2, (int64_t)read->after);
    stmt_bind_text(stmt, 3, read->sandbox);
    stmt_bind_i64(stmt, 4, (int64_t)read->limit);
    int got = 0;
    while ((got = stmt_step(stmt, err)) > 0)
        *vec_push(&read->events) = (struct store_event){
            .seq = (uint64_t)stmt_i64(stmt, 0),
            .date_ms = stmt_i64(stmt, 1),
            .kind = column(read, stmt, 2),
            .tenant = column(read, stmt, 3),
            .id = column(read, stmt, 4),
            .sandbox = column(read, stmt, 5),
            .state = column(read, stmt, 6),
            .detail = column(read, stmt, 7),
        };
    stmt_reset(stmt);
    return got < 0 ? -1 : 0;
}

static void event_read_done(struct store_op *op, const struct err *why)
{
    struct event_read *read = (struct event_read *)op;
    read->done(read->ctx, read->events.ptr, why == NULL ? read->events.len : 0, why);
    vec_done(&read->events);
    arena_done(&read->arena);
    free(read);
}

void store_read_events(struct store *store, struct str tenant, struct str sandbox, uint64_t after,
                       size_t limit, store_event_done *done, void *ctx)
{
    struct event_read *read = mem_alloc(sizeof *read);
    read->op.run = run_event_read;
    read->op.done = event_read_done;
    read->tenant = arena_dup(&read->arena, tenant);
    read->sandbox = arena_dup(&read->arena, sandbox);
    read->after = after;
    read->limit = limit;
    read->done = done;
    read->ctx = ctx;
    store_submit(store, &read->op);
}
