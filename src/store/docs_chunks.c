/* Ranges of pages. */

#include "base/err.h"
#include "store/docs_internal.h"

#define COLUMNS "id, page, position, key, hash, heading, start, length, "

static void on_id(void *ctx, struct stmt *stmt)
{
    *(int64_t *)ctx = stmt_i64(stmt, 0);
}

int docs_put_chunk(struct docs *docs, const struct docs_chunk *chunk, int64_t *ret_id,
                   struct err *err)
{
    struct stmt *stmt = NULL;
    if (docs_stmt(docs, DOCS_CHUNK_PUT,
                  "INSERT INTO doc_chunks (page, position, key, hash, heading, start, length, "
                  "heading_terms, terms, terms_version) "
                  "VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10) RETURNING id",
                  &stmt, err) < 0)
        return -1;
    stmt_bind_i64(stmt, 1, chunk->page);
    stmt_bind_i64(stmt, 2, chunk->position);
    stmt_bind_text(stmt, 3, chunk->key);
    stmt_bind_text(stmt, 4, chunk->hash);
    stmt_bind_text(stmt, 5, chunk->heading);
    stmt_bind_i64(stmt, 6, chunk->start);
    stmt_bind_i64(stmt, 7, chunk->length);
    stmt_bind_blob(stmt, 8, chunk->heading_terms);
    stmt_bind_blob(stmt, 9, chunk->terms);
    stmt_bind_i64(stmt, 10, chunk->terms_version);
    return docs_rows(stmt, on_id, ret_id, err);
}

int docs_put_terms(struct docs *docs, const struct docs_chunk *chunk, struct err *err)
{
    struct stmt *stmt = NULL;
    if (docs_stmt(docs, DOCS_CHUNK_TERMS,
                  "UPDATE doc_chunks SET key=?2, heading_terms=?3, terms=?4, terms_version=?5 "
                  "WHERE id=?1",
                  &stmt, err) < 0)
        return -1;
    stmt_bind_i64(stmt, 1, chunk->id);
    stmt_bind_text(stmt, 2, chunk->key);
    stmt_bind_blob(stmt, 3, chunk->heading_terms);
    stmt_bind_blob(stmt, 4, chunk->terms);
    stmt_bind_i64(stmt, 5, chunk->terms_version);
    return stmt_run(stmt, err);
}

struct each_chunk {
    void (*call)(void *ctx, const struct docs_chunk *chunk);
    void *ctx;
    size_t count;
};

static void on_chunk(void *ctx, struct stmt *stmt)
{
    struct each_chunk *each = ctx;
    each->count++;
    each->call(each->ctx, &(struct docs_chunk){.id = stmt_i64(stmt, 0),
                                               .page = stmt_i64(stmt, 1),
                                               .position = stmt_i64(stmt, 2),
                                               .key = stmt_bytes(stmt, 3),
                                               .hash = stmt_bytes(stmt, 4),
                                               .heading = stmt_bytes(stmt, 5),
                                               .start = stmt_i64(stmt, 6),
                                               .length = stmt_i64(stmt, 7),
                                               .heading_terms = stmt_bytes(stmt, 8),
                                               .terms = stmt_bytes(stmt, 9),
                                               .terms_version = stmt_i64(stmt, 10)});
}

int docs_each_chunk(struct docs *docs, int64_t page,
                    void (*call)(void *ctx, const struct docs_chunk *chunk), void *ctx,
                    struct err *err)
{
    struct stmt *stmt = NULL;
    struct each_chunk each = {call, ctx, 0};
    if (docs_stmt(docs, DOCS_CHUNK_EACH,
                  "SELECT " COLUMNS "heading_terms, terms, terms_version FROM doc_chunks "
                  "WHERE page=?1 ORDER BY position",
                  &stmt, err) < 0)
        return -1;
    stmt_bind_i64(stmt, 1, page);
    return docs_rows(stmt, on_chunk, &each, err);
}

int docs_get_chunk(struct docs *docs, int64_t id,
                   void (*call)(void *ctx, const struct docs_chunk *chunk), void *ctx,
                   struct err *err)
{
    struct stmt *stmt = NULL;
    struct each_chunk each = {call, ctx, 0};
    if (docs_stmt(docs, DOCS_CHUNK_GET,
                  "SELECT " COLUMNS "NULL, NULL, 0 FROM doc_chunks WHERE id=?1", &stmt, err) < 0)
        return -1;
    stmt_bind_i64(stmt, 1, id);
    if (docs_rows(stmt, on_chunk, &each, err) < 0)
        return -1;
    return each.count > 0 ? 0 : err_set(err, ERR_NOT_FOUND, "no chunk %lld", (long long)id);
}
