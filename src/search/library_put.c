/* Writing pages: all rows in one transaction, then the index. */

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/crypto/hash.h"
#include "base/err.h"
#include "base/sys.h"
#include "search/library_internal.h"
#include "search/reader.h"
#include "search/terms.h"

enum { KEY_SIZE = 17 };

/* A page whose rows were written. */
struct written {
    struct docs_page row;
    const struct document *document;
    struct docs_chunk *chunks;
};

struct putting {
    struct library *library;
    const struct source *source;
    struct str source_id;
    struct arena arena;
    struct map paths; /* of all pages that the source still has */
    VEC(struct written) written;
    VEC(int64_t) dropped; /* pages whose chunks leave the index */
    size_t new_chunks;
};

static void putting_done(struct putting *putting)
{
    map_done(&putting->paths);
    vec_done(&putting->written);
    vec_done(&putting->dropped);
    arena_done(&putting->arena);
}

/* --- Rows --- */

static void hash_chunk(struct str heading, struct str text, char out[HASH_HEX_SIZE])
{
    AUTO_BUF struct buf all = {0};
    buf_printf(&all, "%.*s\n", STR_ARG(heading));
    buf_put(&all, text);
    hash_sha256_hex(buf_str(&all), out);
}

static int put_chunks(struct putting *putting, struct written *written, struct err *err)
{
    struct arena *arena = &putting->arena;
    const struct docs_page *page = &written->row;
    written->chunks = arena_array(arena, struct docs_chunk, written->document->count + 1);
    for (size_t i = 0; i < written->document->count; i++) {
        const struct document_chunk *chunk = &written->document->chunks[i];
        char *key = arena_alloc(arena, KEY_SIZE), *hash = arena_alloc(arena, HASH_HEX_SIZE);
        library_chunk_key(putting->source_id, page->path, i, key);
        hash_chunk(chunk->heading, str_slice(page->text, chunk->start, chunk->start + chunk->len),
                   hash);
        written->chunks[i] = (struct docs_chunk){.page = page->id,
                                                 .position = (int64_t)i,
                                                 .key = str_of(key),
                                                 .hash = str_of(hash),
                                                 .heading = chunk->heading,
                                                 .start = (int64_t)chunk->start,
                                                 .length = (int64_t)chunk->len,
                                                 .heading_terms = chunk->heading_terms,
                                                 .terms = chunk->terms,
                                                 .terms_version = TERMS_VERSION};
        if (docs_put_chunk(putting->library->docs, &written->chunks[i], &written->chunks[i].id,
                           err) < 0)
            return -1;
    }
    return 0;
}

static int write_page(struct putting *putting, const struct docs_page *row,
                      const struct document *document, struct err *err)
{
    struct library *library = putting->library;
    struct written *written = vec_push(&putting->written);
    *written = (struct written){.row = *row, .document = document};
    putting->new_chunks += document->count;
    if (library->index.chunk_count + putting->new_chunks > LIBRARY_CHUNKS_MAX)
        return err_set(err, ERR_LIMIT, "the index holds at most %d chunks: remove a source",
                       LIBRARY_CHUNKS_MAX);
    if (row->id != 0)
        *vec_push(&putting->dropped) = row->id;
    CRASH_POINT("docs.in_upload");
    return docs_put_page(library->docs, &written->row, &written->row.id, err) < 0
               ? -1
               : put_chunks(putting, written, err);
}

struct found_page {
    struct arena *arena;
    bool is_found;
    struct docs_page page; /* without its text */
};

static void find_path(void *ctx, const struct docs_page *page)
{
    struct found_page *found = ctx;
    found->is_found = true;
    found->page = (struct docs_page){.id = page->id,
                                     .hash = arena_dup(found->arena, page->hash),
                                     .title = arena_dup(found->arena, page->title),
                                     .scope = arena_dup(found->arena, page->scope)};
}

static int library_put_read_page(struct putting *putting, const struct library_page *page,
                                 const struct document **ret_document, struct err *err)
{
    struct document_ask ask = {.title = page->title, .text = page->text, .format = page->format};
    struct reader_answer *answer = arena_new(&putting->arena, struct reader_answer);
    if (library_read(putting->library, &ask, 1, &putting->arena, answer, err) < 0)
        return -1;
    if (answer->why.code != ERR_NONE) {
        *err = answer->why;
        return -1;
    }
    *ret_document = &answer->document;
    return 0;
}

static int put_page(struct putting *putting, const struct library_page *page, bool *ret_changed,
                    struct err *err)
{
    struct arena *arena = &putting->arena;
    struct found_page found = {.arena = arena};
    const struct document *document = page->document;
    char *hash = arena_alloc(arena, HASH_HEX_SIZE);
    (void)map_put(&putting->paths, page->path, putting);
    *ret_changed = false;
    if (page->is_unread)
        return 0;
    if ((document == NULL && library_put_read_page(putting, page, &document, err) < 0) ||
        docs_find_page(putting->library->docs, putting->source_id, page->path, find_path, &found,
                       err) < 0)
        return -1;
    hash_sha256_hex(document->text, hash);
    struct docs_page row = {.id = found.page.id,
                            .source = putting->source_id,
                            .path = page->path,
                            .title = document->title,
                            .scope = page->scope,
                            .etag = page->etag,
                            .modified = page->modified,
                            .hash = str_of(hash),
                            .text = document->text,
                            .format = document->format,
                            .updated_ms = clock_date_ms()};
    *ret_changed = !found.is_found || !str_eq(found.page.hash, row.hash) ||
                   !str_eq(found.page.title, row.title) || !str_eq(found.page.scope, row.scope);
    return *ret_changed ? write_page(putting, &row, document, err)
                        : docs_touch_page(putting->library->docs, &row, err);
}

/* --- The index --- */

static int index_written(struct putting *putting, struct err *err)
{
    struct library *library = putting->library;
    int result = 0;
    library_drop_chunks(library, putting->dropped.ptr, putting->dropped.len);
    VEC_EACH (written, &putting->written) {
        for (size_t i = 0; i < written->document->count; i++) {
            const struct document_chunk *chunk = &written->document->chunks[i];
            struct library_chunk row = {&written->row,         putting->source,
                                        written->chunks[i].id, written->chunks[i].hash,
                                        chunk->heading_terms,  chunk->terms};
            uint32_t number = library_add_chunk(library, &row);
            /* Without its vector it is computed again. */
            if (result == 0)
                result = library_take_vector(library, number, written->chunks[i].hash, err);
        }
    }
    return result;
}

/* --- One page --- */

int library_put_page(struct library *library, struct str source_id, const struct library_page *page,
                     bool *ret_changed, struct err *err)
{
    AUTO(putting_done)
    struct putting putting = {.library = library, .source_id = source_id};
    putting.source = map_get(&library->sources, source_id);
    if (putting.source == NULL)
        return err_set(err, ERR_NOT_FOUND, "the source was removed");
    if (docs_begin(library->docs, err) < 0)
        return -1;
    if (put_page(&putting, page, ret_changed, err) < 0) {
        docs_rollback(library->docs);
        return -1;
    }
    return docs_commit(library->docs, err) < 0 ? -1 : index_written(&putting, err);
}

/* --- A whole source --- */

static void collect_gone(void *ctx, const struct docs_page *page)
{
    struct putting *putting = ctx;
    if (!map_has(&putting->paths, page->path))
        *vec_push(&putting->dropped) = page->id;
}

static int remove_gone(struct putting *putting, struct err *err)
{
    size_t replaced = putting->dropped.len;
    if (docs_list_pages(putting->library->docs, putting->source_id, collect_gone, putting, err) < 0)
        return -1;
    for (size_t i = replaced; i < putting->dropped.len; i++)
        if (docs_remove_page(putting->library->docs, putting->dropped.ptr[i], err) < 0)
            return -1;
    return 0;
}

static int put_rows(struct putting *putting, const struct docs_source *row,
                    const struct library_page *pages, size_t count, struct err *err)
{
    bool is_changed = false;
    if (docs_put_source(putting->library->docs, row, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (put_page(putting, &pages[i], &is_changed, err) < 0)
            return -1;
    return remove_gone(putting, err);
}

int library_put_pages(struct library *library, const struct docs_source *row,
                      const struct library_page *pages, size_t count, struct err *err)
{
    AUTO(putting_done)
    struct putting putting = {.library = library, .source_id = row->id};
    struct source *known = map_get(&library->sources, row->id);
    struct source *source = known != NULL ? known : library_new_source(library, row);
    putting.source = source;
    int result = docs_begin(library->docs, err);
    if (result == 0 && put_rows(&putting, row, pages, count, err) < 0) {
        docs_rollback(library->docs);
        result = -1;
    }
    if (result == 0)
        result = docs_commit(library->docs, err);
    if (result < 0) {
        if (known == NULL)
            (void)library_free_source(source);
        return -1;
    }
    if (known == NULL)
        library_keep_source(library, row->id, source);
    return index_written(&putting, err);
}
