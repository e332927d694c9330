/* Batches: changes that belong together, on their way to the store's thread. */

#include "base/err.h"
#include "base/log.h"
#include "base/sys.h"
#include "store/internal.h"

enum change_kind { PUT, REMOVE, EVENT, LOG, CUT };

struct change {
    struct change *next;
    enum change_kind kind;
    const struct store_table *table;
    void *row; /* of PUT */
    struct str id;
    struct store_event event;
    struct store_log log;
    uint64_t to;
};

struct store_batch {
    struct store_op op;
    struct store *store;
    struct arena arena;
    struct change *first, *last;
    store_done *done;
    void *ctx;
};

struct store_batch *store_begin(struct store *store)
{
    loop_assert(store->loop);
    struct store_batch *batch = mem_alloc(sizeof *batch);
    batch->store = store;
    return batch;
}

struct store_batch *store_batch_free(struct store_batch *batch)
{
    if (batch != NULL) {
        arena_done(&batch->arena);
        free(batch);
    }
    return NULL;
}

static struct change *batch_add(struct store_batch *batch, enum change_kind kind)
{
    struct change *change = arena_new(&batch->arena, struct change);
    change->kind = kind;
    if (batch->last == NULL)
        batch->first = change;
    else
        batch->last->next = change;
    batch->last = change;
    return change;
}

void store_put(struct store_batch *batch, const struct store_table *table, const void *row)
{
    struct change *change = batch_add(batch, PUT);
    change->table = table;
    change->row = arena_alloc(&batch->arena, table->row_size);
    memcpy(change->row, row, table->row_size);
    for (size_t i = 0; i < table->column_count; i++)
        if (!table->columns[i].is_int) {
            struct str *text = (void *)((char *)change->row + table->columns[i].offset);
            *text = arena_dup(&batch->arena, *text);
        }
}

void store_remove(struct store_batch *batch, const struct store_table *table, struct str id)
{
    struct change *change = batch_add(batch, REMOVE);
    change->table = table;
    change->id = arena_dup(&batch->arena, id);
}

void store_put_event(struct store_batch *batch, const struct store_event *event)
{
    struct arena *arena = &batch->arena;
    batch_add(batch, EVENT)->event = (struct store_event){
        .seq = event->seq,
        .date_ms = event->date_ms,
        .kind = arena_dup(arena, event->kind),
        .tenant = arena_dup(arena, event->tenant),
        .id = arena_dup(arena, event->id),
        .sandbox = arena_dup(arena, event->sandbox),
        .state = arena_dup(arena, event->state),
        .detail = arena_dup(arena, event->detail),
    };
}

void store_put_log(struct store_batch *batch, const struct store_log *log)
{
    assert(log->bytes.len <= STORE_LOG_CHUNK_MAX);
    batch_add(batch, LOG)->log = (struct store_log){
        .command = arena_dup(&batch->arena, log->command),
        .start = log->start,
        .stream = log->stream,
        .bytes = arena_dup(&batch->arena, log->bytes),
        .at = log->at,
        .lines = log->lines,
    };
}

void store_cut_log(struct store_batch *batch, struct str command, int64_t stream, uint64_t from,
                   uint64_t to)
{
    struct change *change = batch_add(batch, CUT);
    change->log = (struct store_log){
        .command = arena_dup(&batch->arena, command), .start = from, .stream = stream};
    change->to = to;
}

/* --- On the store's thread --- */

static int write_event(struct store *store, const struct store_event *event, struct err *err)
{
    struct stmt *stmt = NULL;
    if (store_stmt(store, STORE_SLOT_EVENT, "INSERT INTO events VALUES (?1,?2,?3,?4,?5,?6,?7,?8)",
                   &stmt, err) < 0)
        return -1;
    stmt_bind_i64(stmt, 1, (int64_t)event->seq);
    stmt_bind_i64(stmt, 2, event->date_ms);
    stmt_bind_text(stmt, 3, event->kind);
    stmt_bind_text(stmt, 4, event->tenant);
    stmt_bind_text(stmt, 5, event->id);
    stmt_bind_text(stmt, 6, event->sandbox);
    stmt_bind_text(stmt, 7, event->state);
    stmt_bind_text(stmt, 8, event->detail);
    if (stmt_run(stmt, err) < 0)
        return -1;
    if (event->seq % 1000 != 0)
        return 0;
    if (store_stmt(store, STORE_SLOT_EVENT_CUT, "DELETE FROM events WHERE seq <= ?1", &stmt, err) <
        0)
        return -1;
    stmt_bind_i64(stmt, 1, (int64_t)event->seq - STORE_EVENTS_KEPT);
    return stmt_run(stmt, err);
}

/* A log whose command is gone meanwhile is not worth an error. */
static int write_log(struct store *store, const struct store_log *log, struct err *err)
{
    struct stmt *stmt = NULL;
    if (store_stmt(store, STORE_SLOT_LOG,
                   "INSERT OR REPLACE INTO command_logs SELECT ?1,?2,?3,?4,?5,?6 "
                   "WHERE EXISTS (SELECT 1 FROM commands WHERE id=?1)",
                   &stmt, err) < 0)
        return -1;
    stmt_bind_text(stmt, 1, log->command);
    stmt_bind_i64(stmt, 2, (int64_t)log->start);
    stmt_bind_i64(stmt, 3, log->stream);
    stmt_bind_blob(stmt, 4, log->bytes);
    stmt_bind_i64(stmt, 5, log->at);
    stmt_bind_i64(stmt, 6, log->lines);
    return stmt_run(stmt, err);
}

static int cut_log(struct store *store, const struct change *change, struct err *err)
{
    struct stmt *stmt = NULL;
    if (store_stmt(store, STORE_SLOT_LOG_CUT,
                   "DELETE FROM command_logs WHERE command=?1 AND stream=?2 AND start>=?3 AND "
                   "start<?4",
                   &stmt, err) < 0)
        return -1;
    stmt_bind_text(stmt, 1, change->log.command);
    stmt_bind_i64(stmt, 2, change->log.stream);
    stmt_bind_i64(stmt, 3, (int64_t)change->log.start);
    stmt_bind_i64(stmt, 4, (int64_t)change->to);
    return stmt_run(stmt, err);
}

static int batch_apply(struct store *store, const struct change *change, struct err *err)
{
    switch (change->kind) {
    case PUT:
        return store_row_put(store, change->table, change->row, err);
    case REMOVE:
        return store_row_remove(store, change->table, change->id, err);
    case EVENT:
        return write_event(store, &change->event, err);
    case LOG:
        return write_log(store, &change->log, err);
    case CUT:
        return cut_log(store, change, err);
    }
    abort();
}

static int run_batch(struct store *store, struct store_op *op, struct err *err)
{
    const struct store_batch *batch = (const struct store_batch *)op;
    for (const struct change *change = batch->first; change != NULL; change = change->next) {
        if (batch_apply(store, change, err) < 0)
            return -1;
        CRASH_POINT("store.batch.applied");
    }
    return 0;
}

/* --- Back on the loop --- */

static void batch_done(struct store_op *op, const struct err *why)
{
    struct store_batch *batch = (struct store_batch *)op;
    if (batch->done != NULL)
        batch->done(batch->ctx, why);
    else if (why != NULL)
        log_error("store.lost", LOG_STR("error", why->msg));
    (void)store_batch_free(batch);
}

void store_commit(struct store_batch *batch, enum store_strength strength, store_done *done,
                  void *ctx)
{
    batch->done = done;
    batch->ctx = ctx;
    batch->op.run = run_batch;
    batch->op.done = batch_done;
    if (batch->first == NULL && done == NULL) {
        (void)store_batch_free(batch);
        return;
    }
    batch->op.writes = true;
    batch->op.durable = strength == STORE_DURABLE;
    batch->op.lazy = strength == STORE_LAZY;
    store_submit(batch->store, &batch->op);
}
