/* The text of documents. */

#include "base/err.h"
#include "store/docs_internal.h"

#define HEAD "id, source, path, title, format, scope, etag, modified, hash, updated_ms, "

struct each_page {
    void (*call)(void *ctx, const struct docs_page *page);
    void *ctx;
    size_t count;
};

static void docs_pages_on_page(void *ctx, struct stmt *stmt)
{
    struct each_page *each = ctx;
    each->count++;
    each->call(each->ctx, &(struct docs_page){.id = stmt_i64(stmt, 0),
                                              .source = stmt_bytes(stmt, 1),
                                              .path = stmt_bytes(stmt, 2),
                                              .title = stmt_bytes(stmt, 3),
                                              .format = stmt_i64(stmt, 4),
                                              .scope = stmt_bytes(stmt, 5),
                                              .etag = stmt_bytes(stmt, 6),
                                              .modified = stmt_bytes(stmt, 7),
                                              .hash = stmt_bytes(stmt, 8),
                                              .updated_ms = stmt_i64(stmt, 9),
                                              .text = stmt_bytes(stmt, 10)});
}

static void on_id(void *ctx, struct stmt *stmt)
{
    *(int64_t *)ctx = stmt_i64(stmt, 0);
}

static int cut_chunks(struct docs *docs, int64_t page, struct err *err)
{
    struct stmt *stmt = NULL;
    if (docs_stmt(docs, DOCS_PAGE_CUT, "DELETE FROM doc_chunks WHERE page=?1", &stmt, err) < 0)
        return -1;
    stmt_bind_i64(stmt, 1, page);
    return stmt_run(stmt, err);
}

int docs_put_page(struct docs *docs, const struct docs_page *page, int64_t *ret_id, struct err *err)
{
    struct stmt *stmt = NULL;
    if (docs_stmt(docs, DOCS_PAGE_PUT,
                  "INSERT INTO doc_pages (source, path, title, format, scope, etag, modified, "
                  "hash, updated_ms, text) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10) "
                  "ON CONFLICT (source, path) DO UPDATE SET title=?3, format=?4, scope=?5, "
                  "etag=?6, modified=?7, hash=?8, updated_ms=?9, text=?10 RETURNING id",
                  &stmt, err) < 0)
        return -1;
    stmt_bind_text(stmt, 1, page->source);
    stmt_bind_text(stmt, 2, page->path);
    stmt_bind_text(stmt, 3, page->title);
    stmt_bind_i64(stmt, 4, page->format);
    stmt_bind_text(stmt, 5, page->scope);
    stmt_bind_text(stmt, 6, page->etag);
    stmt_bind_text(stmt, 7, page->modified);
    stmt_bind_text(stmt, 8, page->hash);
    stmt_bind_i64(stmt, 9, page->updated_ms);
    stmt_bind_blob(stmt, 10, page->text);
    return docs_rows(stmt, on_id, ret_id, err) < 0 ? -1 : cut_chunks(docs, *ret_id, err);
}

int docs_touch_page(struct docs *docs, const struct docs_page *page, struct err *err)
{
    struct stmt *stmt = NULL;
    if (docs_stmt(docs, DOCS_PAGE_TOUCH,
                  "UPDATE doc_pages SET etag=?2, modified=?3, scope=?4 WHERE id=?1", &stmt,
                  err) < 0)
        return -1;
    stmt_bind_i64(stmt, 1, page->id);
    stmt_bind_text(stmt, 2, page->etag);
    stmt_bind_text(stmt, 3, page->modified);
    stmt_bind_text(stmt, 4, page->scope);
    return stmt_run(stmt, err);
}

int docs_remove_page(struct docs *docs, int64_t id, struct err *err)
{
    struct stmt *stmt = NULL;
    if (docs_stmt(docs, DOCS_PAGE_REMOVE, "DELETE FROM doc_pages WHERE id=?1", &stmt, err) < 0)
        return -1;
    stmt_bind_i64(stmt, 1, id);
    return stmt_run(stmt, err);
}

int docs_list_pages(struct docs *docs, struct str source,
                    void (*call)(void *ctx, const struct docs_page *page), void *ctx,
                    struct err *err)
{
    struct stmt *stmt = NULL;
    struct each_page each = {call, ctx, 0};
    if (docs_stmt(docs, DOCS_PAGE_LIST,
                  "SELECT " HEAD "NULL FROM doc_pages WHERE source=?1 ORDER BY path", &stmt,
                  err) < 0)
        return -1;
    stmt_bind_text(stmt, 1, source);
    return docs_rows(stmt, docs_pages_on_page, &each, err);
}

int docs_find_page(struct docs *docs, struct str source, struct str path,
                   void (*call)(void *ctx, const struct docs_page *page), void *ctx,
                   struct err *err)
{
    struct stmt *stmt = NULL;
    struct each_page each = {call, ctx, 0};
    if (docs_stmt(docs, DOCS_PAGE_FIND,
                  "SELECT " HEAD "NULL FROM doc_pages WHERE source=?1 AND path=?2", &stmt, err) < 0)
        return -1;
    stmt_bind_text(stmt, 1, source);
    stmt_bind_text(stmt, 2, path);
    return docs_rows(stmt, docs_pages_on_page, &each, err);
}

int docs_get_page(struct docs *docs, int64_t id,
                  void (*call)(void *ctx, const struct docs_page *page), void *ctx, struct err *err)
{
    struct stmt *stmt = NULL;
    struct each_page each = {call, ctx, 0};
    if (docs_stmt(docs, DOCS_PAGE_GET, "SELECT " HEAD "text FROM doc_pages WHERE id=?1", &stmt,
                  err) < 0)
        return -1;
    stmt_bind_i64(stmt, 1, id);
    if (docs_rows(stmt, docs_pages_on_page, &each, err) < 0)
        return -1;
    return each.count > 0 ? 0 : err_set(err, ERR_NOT_FOUND, "no page %lld", (long long)id);
}
