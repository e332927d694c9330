/* Embeddings by the hash of what was embedded. */

#include "store/docs_internal.h"

int docs_put_vector(struct docs *docs, struct str model, const struct docs_vector *vector,
                    struct err *err)
{
    struct stmt *stmt = NULL;
    if (docs_stmt(docs, DOCS_VECTOR_PUT, "INSERT OR REPLACE INTO doc_vectors VALUES (?1,?2,?3)",
                  &stmt, err) < 0)
        return -1;
    stmt_bind_text(stmt, 1, vector->hash);
    stmt_bind_text(stmt, 2, model);
    stmt_bind_blob(stmt, 3, vector->bytes);
    return stmt_run(stmt, err);
}

struct each_vector {
    void (*call)(void *ctx, const struct docs_vector *vector);
    void *ctx;
};

static void on_vector(void *ctx, struct stmt *stmt)
{
    const struct each_vector *each = ctx;
    each->call(each->ctx,
               &(struct docs_vector){.hash = stmt_bytes(stmt, 0), .bytes = stmt_bytes(stmt, 1)});
}

int docs_get_vector(struct docs *docs, struct str model, struct str hash,
                    void (*call)(void *ctx, const struct docs_vector *vector), void *ctx,
                    struct err *err)
{
    struct stmt *stmt = NULL;
    struct each_vector each = {call, ctx};
    if (docs_stmt(docs, DOCS_VECTOR_GET,
                  "SELECT hash, vector FROM doc_vectors WHERE hash=?2 AND model=?1", &stmt,
                  err) < 0)
        return -1;
    stmt_bind_text(stmt, 1, model);
    stmt_bind_text(stmt, 2, hash);
    return docs_rows(stmt, on_vector, &each, err);
}

int docs_each_vector(struct docs *docs, struct str model,
                     void (*call)(void *ctx, const struct docs_vector *vector), void *ctx,
                     struct err *err)
{
    struct stmt *stmt = NULL;
    struct each_vector each = {call, ctx};
    if (docs_stmt(docs, DOCS_VECTOR_EACH, "SELECT hash, vector FROM doc_vectors WHERE model=?1",
                  &stmt, err) < 0)
        return -1;
    stmt_bind_text(stmt, 1, model);
    return docs_rows(stmt, on_vector, &each, err);
}

int docs_sweep_vectors(struct docs *docs, struct str model, struct err *err)
{
    struct stmt *stmt = NULL;
    if (docs_stmt(docs, DOCS_VECTOR_SWEEP,
                  "DELETE FROM doc_vectors WHERE model<>?1 OR NOT EXISTS "
                  "(SELECT 1 FROM doc_chunks WHERE doc_chunks.hash = doc_vectors.hash)",
                  &stmt, err) < 0)
        return -1;
    stmt_bind_text(stmt, 1, model);
    return stmt_run(stmt, err);
}
