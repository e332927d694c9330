/* Where documents come from. */

#include "store/docs_internal.h"

int docs_put_source(struct docs *docs, const struct docs_source *source, struct err *err)
{
    struct stmt *stmt = NULL;
    if (docs_stmt(docs, DOCS_SOURCE_PUT,
                  "INSERT INTO doc_sources VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9) "
                  "ON CONFLICT (id) DO UPDATE SET state=?6, error=?7, checked_ms=?9",
                  &stmt, err) < 0)
        return -1;
    stmt_bind_text(stmt, 1, source->id);
    stmt_bind_text(stmt, 2, source->tenant);
    stmt_bind_text(stmt, 3, source->kind);
    stmt_bind_text(stmt, 4, source->package);
    stmt_bind_text(stmt, 5, source->location);
    stmt_bind_text(stmt, 6, source->state);
    stmt_bind_text(stmt, 7, source->error);
    stmt_bind_i64(stmt, 8, source->created_ms);
    stmt_bind_i64(stmt, 9, source->checked_ms);
    return stmt_run(stmt, err);
}

int docs_remove_source(struct docs *docs, struct str id, struct err *err)
{
    struct stmt *stmt = NULL;
    if (docs_stmt(docs, DOCS_SOURCE_REMOVE, "DELETE FROM doc_sources WHERE id=?1", &stmt, err) < 0)
        return -1;
    stmt_bind_text(stmt, 1, id);
    return stmt_run(stmt, err);
}

struct each_source {
    void (*call)(void *ctx, const struct docs_source *source);
    void *ctx;
};

static void on_source(void *ctx, struct stmt *stmt)
{
    const struct each_source *each = ctx;
    each->call(each->ctx, &(struct docs_source){.id = stmt_bytes(stmt, 0),
                                                .tenant = stmt_bytes(stmt, 1),
                                                .kind = stmt_bytes(stmt, 2),
                                                .package = stmt_bytes(stmt, 3),
                                                .location = stmt_bytes(stmt, 4),
                                                .state = stmt_bytes(stmt, 5),
                                                .error = stmt_bytes(stmt, 6),
                                                .created_ms = stmt_i64(stmt, 7),
                                                .checked_ms = stmt_i64(stmt, 8)});
}

int docs_each_source(struct docs *docs, void (*call)(void *ctx, const struct docs_source *source),
                     void *ctx, struct err *err)
{
    struct stmt *stmt = NULL;
    struct each_source each = {call, ctx};
    if (docs_stmt(docs, DOCS_SOURCE_EACH, "SELECT * FROM doc_sources ORDER BY created_ms, id",
                  &stmt, err) < 0)
        return -1;
    return docs_rows(stmt, on_source, &each, err);
}
