#include "store/commands.h"

#include "base/err.h"
#include "base/vec.h"
#include "store/internal.h"

/* --- At start --- */

int store_each_running(struct store *store, void (*call)(void *ctx, const void *row), void *ctx,
                       struct err *err)
{
    assert(!store->is_busy);
    struct stmt *stmt = NULL;
    if (db_prepare(store->db, "SELECT * FROM commands WHERE state<>1 ORDER BY ord", &stmt, err) < 0)
        return err_wrap(err, "read commands");
    struct store_command row;
    int got = 0;
    while ((got = stmt_step(stmt, err)) > 0) {
        store_row_read(&store_commands, stmt, &row);
        call(ctx, &row);
    }
    (void)stmt_free(stmt);
    return got < 0 ? err_wrap(err, "read commands") : 0;
}

int store_count_commands(struct store *store,
                         void (*call)(void *ctx, struct str tenant, int64_t count, int64_t bytes),
                         void *ctx, struct err *err)
{
    assert(!store->is_busy);
    struct stmt *stmt = NULL;
    if (db_prepare(store->db,
                   "SELECT tenant, count(*), sum(log_end - missing) FROM commands WHERE state = 1 "
                   "GROUP BY tenant",
                   &stmt, err) < 0)
        return err_wrap(err, "count commands");
    int got = 0;
    while ((got = stmt_step(stmt, err)) > 0)
        call(ctx, stmt_bytes(stmt, 0), stmt_i64(stmt, 1), stmt_i64(stmt, 2));
    (void)stmt_free(stmt);
    return got < 0 ? err_wrap(err, "count commands") : 0;
}

int store_last_command(struct store *store, int64_t *ret_order, struct err *err)
{
    assert(!store->is_busy);
    struct stmt *stmt = NULL;
    if (db_prepare(store->db, "SELECT coalesce(max(ord), 0) FROM commands", &stmt, err) < 0)
        return -1;
    int got = stmt_step(stmt, err);
    if (got > 0)
        *ret_order = stmt_i64(stmt, 0);
    (void)stmt_free(stmt);
    return got < 0 ? -1 : 0;
}

/* --- Reading --- */

struct command_read {
    struct store_op op;
    struct arena arena;
    struct str id; /* one; else the rest says which */
    struct str tenant, sandbox;
    int64_t after;
    size_t limit;
    VEC(struct store_command) rows;
    store_commands_done *done;
    void *ctx;
};

/* Two words, so that each finds its index. */
static const char one_sql[] = "SELECT * FROM commands WHERE id=?1";
static const char tenant_sql[] =
    "SELECT * FROM commands WHERE tenant=?1 AND ord>?2 ORDER BY ord LIMIT ?3";
static const char sandbox_sql[] =
    "SELECT * FROM commands WHERE sandbox=?4 AND tenant=?1 AND ord>?2 ORDER BY ord LIMIT ?3";

static int find_stmt(struct store *store, const struct command_read *read, struct stmt **ret_stmt,
                     struct err *err)
{
    if (read->id.len > 0) {
        if (store_stmt(store, STORE_SLOT_COMMAND, one_sql, ret_stmt, err) < 0)
            return -1;
        stmt_bind_text(*ret_stmt, 1, read->id);
        return 0;
    }
    bool has_sandbox = read->sandbox.len > 0;
    if (store_stmt(store, has_sandbox ? STORE_SLOT_COMMANDS_OF : STORE_SLOT_COMMANDS,
                   has_sandbox ? sandbox_sql : tenant_sql, ret_stmt, err) < 0)
        return -1;
    stmt_bind_text(*ret_stmt, 1, read->tenant);
    stmt_bind_i64(*ret_stmt, 2, read->after);
    stmt_bind_i64(*ret_stmt, 3, (int64_t)read->limit);
    if (has_sandbox)
        stmt_bind_text(*ret_stmt, 4, read->sandbox);
    return 0;
}

static int run_read(struct store *store, struct store_op *op, struct err *err)
{
    struct command_read *read = (struct command_read *)op;
    struct stmt *stmt = NULL;
    if (find_stmt(store, read, &stmt, err) < 0)
        return -1;
    int got = 0;
    while ((got = stmt_step(stmt, err)) > 0) {
        struct store_command *row = vec_push(&read->rows);
        store_row_read(&store_commands, stmt, row);
        row->id = arena_dup(&read->arena, row->id);
        row->tenant = arena_dup(&read->arena, row->tenant);
        row->sandbox = arena_dup(&read->arena, row->sandbox);
        row->spec = arena_dup(&read->arena, row->spec);
    }
    stmt_reset(stmt);
    return got < 0 ? -1 : 0;
}

static void read_done(struct store_op *op, const struct err *why)
{
    struct command_read *read = (struct command_read *)op;
    read->done(read->ctx, read->rows.ptr, why == NULL ? read->rows.len : 0, why);
    vec_done(&read->rows);
    arena_done(&read->arena);
    free(read);
}

static struct command_read *new_read(store_commands_done *done, void *ctx)
{
    struct command_read *read = mem_alloc(sizeof *read);
    read->op.run = run_read;
    read->op.done = read_done;
    read->done = done;
    read->ctx = ctx;
    return read;
}

void store_read_command(struct store *store, struct str id, store_commands_done *done, void *ctx)
{
    struct command_read *read = new_read(done, ctx);
    read->id = arena_dup(&read->arena, id);
    store_submit(store, &read->op);
}

void store_read_commands(struct store *store, struct str tenant, struct str sandbox, int64_t after,
                         size_t limit, store_commands_done *done, void *ctx)
{
    struct command_read *read = new_read(done, ctx);
    read->tenant = arena_dup(&read->arena, tenant);
    read->sandbox = arena_dup(&read->arena, sandbox);
    read->after = after;
    read->limit = limit;
    store_submit(store, &read->op);
}

/* --- Dropping --- */

struct command_drop {
    struct store_op op;
    struct arena arena;
    struct store_drop drop;
    VEC(struct str) ids;
    uint64_t bytes;
    bool is_all;
    store_drop_done *done;
    void *ctx;
};

static const char oldest_sql[] =
    "SELECT id, ended_ms, log_end - missing FROM commands WHERE tenant=?1 AND state = 1 "
    "ORDER BY ended_ms LIMIT ?2";

static int find_oldest(struct store *store, struct command_drop *drop, struct err *err)
{
    struct stmt *stmt = NULL;
    if (store_stmt(store, STORE_SLOT_COMMANDS_OLDEST, oldest_sql, &stmt, err) < 0)
        return -1;
    stmt_bind_text(stmt, 1, drop->drop.tenant);
    stmt_bind_i64(stmt, 2, STORE_COMMANDS_DROPPED);
    int got = 0;
    while ((got = stmt_step(stmt, err)) > 0 &&
           (stmt_i64(stmt, 1) < drop->drop.before_ms || drop->ids.len < drop->drop.count ||
            drop->bytes < drop->drop.bytes)) {
        *vec_push(&drop->ids) = arena_dup(&drop->arena, stmt_bytes(stmt, 0));
        drop->bytes += (uint64_t)stmt_i64(stmt, 2);
    }
    stmt_reset(stmt);
    return got < 0 ? -1 : 0;
}

static int run_drop(struct store *store, struct store_op *op, struct err *err)
{
    struct command_drop *drop = (struct command_drop *)op;
    if (find_oldest(store, drop, err) < 0)
        return -1;
    drop->is_all = drop->ids.len < STORE_COMMANDS_DROPPED;
    VEC_EACH (id, &drop->ids)
        if (store_row_remove(store, &store_commands, *id, err) < 0)
            return -1;
    return 0;
}

static void drop_done(struct store_op *op, const struct err *why)
{
    struct command_drop *drop = (struct command_drop *)op;
    struct store_dropped dropped = {drop->ids.ptr, drop->ids.len, drop->bytes, drop->is_all};
    drop->done(drop->ctx, why == NULL ? &dropped : NULL, why);
    vec_done(&drop->ids);
    arena_done(&drop->arena);
    free(drop);
}

void store_drop_commands(struct store *store, const struct store_drop *drop, store_drop_done *done,
                         void *ctx)
{
    struct command_drop *op = mem_alloc(sizeof *op);
    op->op.run = run_drop;
    op->op.done = drop_done;
    op->op.writes = true;
    op->drop = *drop;
    op->drop.tenant = arena_dup(&op->arena, drop->tenant);
    op->done = done;
    op->ctx = ctx;
    store_submit(store, &op->op);
}
