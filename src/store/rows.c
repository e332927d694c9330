/* Rows of the tables by id: statements made from the lists of tables.h. */

#include "base/buf.h"
#include "base/err.h"
#include "store/internal.h"

int store_stmt(struct store *store, size_t slot, const char *sql, struct stmt **ret_stmt,
               struct err *err)
{
    assert(slot < STORE_STMT_MAX);
    if (store->stmts[slot] == NULL && db_prepare(store->db, sql, &store->stmts[slot], err) < 0)
        return -1;
    *ret_stmt = store->stmts[slot];
    return 0;
}

/* An upsert, not a replace: that would remove first, and take referring rows along. */
static void put_sql(const struct store_table *table, struct buf *sql)
{
    buf_printf(sql, "INSERT INTO %s VALUES (?1", table->name);
    for (size_t i = 1; i < table->column_count; i++)
        buf_printf(sql, ",?%zu", i + 1);
    buf_put_cstr(sql, ") ON CONFLICT (id) DO UPDATE SET ");
    for (size_t i = 1; i < table->column_count; i++)
        buf_printf(sql, "%s%s=?%zu", i > 1 ? "," : "", table->columns[i].name, i + 1);
}

int store_row_put(struct store *store, const struct store_table *table, const void *row,
                  struct err *err)
{
    AUTO_BUF struct buf sql = {0};
    struct stmt *stmt = NULL;
    size_t slot = (size_t)table->index * 2;
    if (store->stmts[slot] == NULL)
        put_sql(table, &sql);
    if (store_stmt(store, slot, buf_cstr(&sql), &stmt, err) < 0)
        return -1;
    for (size_t i = 0; i < table->column_count; i++) {
        const char *field = (const char *)row + table->columns[i].offset;
        if (table->columns[i].is_int)
            stmt_bind_i64(stmt, (int)i + 1, *(const int64_t *)(const void *)field);
        else
            stmt_bind_text(stmt, (int)i + 1, *(const struct str *)(const void *)field);
    }
    return stmt_run(stmt, err);
}

int store_row_remove(struct store *store, const struct store_table *table, struct str id,
                     struct err *err)
{
    char sql[96];
    struct stmt *stmt = NULL;
    (void)snprintf(sql, sizeof sql, "DELETE FROM %s WHERE id=?1", table->name);
    if (store_stmt(store, (size_t)table->index * 2 + 1, sql, &stmt, err) < 0)
        return -1;
    stmt_bind_text(stmt, 1, id);
    return stmt_run(stmt, err);
}

void store_row_read(const struct store_table *table, struct stmt *stmt, void *row)
{
    for (size_t i = 0; i < table->column_count; i++) {
        char *field = (char *)row + table->columns[i].offset;
        if (table->columns[i].is_int)
            *(int64_t *)(void *)field = stmt_i64(stmt, (int)i);
        else
            *(struct str *)(void *)field = stmt_bytes(stmt, (int)i);
    }
}

int store_each(struct store *store, const struct store_table *table,
               void (*call)(void *ctx, const void *row), void *ctx, struct err *err)
{
    loop_assert(store->loop);
    assert(!store->is_busy);
    char sql[96];
    struct stmt *stmt = NULL;
    (void)snprintf(sql, sizeof sql, "SELECT * FROM %s ORDER BY %s", table->name,
                   table->has_order ? "ord" : "id");
    if (db_prepare(store->db, sql, &stmt, err) < 0)
        return err_wrap(err, "read %s", table->name);
    AUTO_MEM void *row = mem_alloc(table->row_size);
    int got = 0;
    while ((got = stmt_step(stmt, err)) > 0) {
        store_row_read(table, stmt, row);
        call(ctx, row);
    }
    (void)stmt_free(stmt);
    return got < 0 ? err_wrap(err, "read %s", table->name) : 0;
}

int store_last_event(struct store *store, uint64_t *ret_seq, struct err *err)
{
    char text[32];
    int64_t seq = 0;
    if (db_text(store->db, "SELECT max(seq) FROM events", text, sizeof text, err) < 0)
        return -1;
    if (text[0] != '\0' && !str_to_i64(str_of(text), 0, INT64_MAX, &seq))
        return err_set(err, ERR_INTERNAL, "store: '%s' is not an event number", text);
    *ret_seq = (uint64_t)seq;
    return 0;
}

int store_log_end(struct store *store, struct str command, uint64_t *ret_end, struct err *err)
{
    assert(!store->is_busy);
    struct stmt *stmt = NULL;
    if (db_prepare(store->db,
                   "SELECT start + length(bytes) FROM command_logs WHERE command=?1 "
                   "ORDER BY start DESC LIMIT 1",
                   &stmt, err) < 0)
        return -1;
    stmt_bind_text(stmt, 1, command);
    int got = stmt_step(stmt, err);
    if (got >= 0)
        *ret_end = got > 0 ? (uint64_t)stmt_i64(stmt, 0) : 0;
    (void)stmt_free(stmt);
    return got < 0 ? -1 : 0;
}

int store_check(struct store *store, struct err *err)
{
    assert(!store->is_busy);
    char text[200];
    if (db_text(store->db, "PRAGMA integrity_check", text, sizeof text, err) < 0)
        return -1;
    if (strcmp(text, "ok") != 0)
        return err_set(err, ERR_INTERNAL, "store is damaged: %s", text);
    if (db_text(store->db, "PRAGMA foreign_key_check", text, sizeof text, err) < 0)
        return -1;
    if (text[0] != '\0')
        return err_set(err, ERR_INTERNAL, "store is damaged: %s refers to a missing row", text);
    return 0;
}
