/* The index at start: the terms of every chunk, as they are stored. Pages whose terms are not
 * stored, or are of another version, are read again and stored. The reader gets pages of one tenant
 * at a time: a document that takes over its process must not reach another tenant's. */

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "search/library_internal.h"
#include "search/reader.h"
#include "search/terms.h"

enum { LOAD_BYTES = 4 << 20, LOAD_PAGES = 512 };

struct known_page {
    int64_t id;
    uint32_t tenant;
};

/* A page with its text and its chunks. */
struct loaded {
    struct docs_page row;
    const struct source *source;
    VEC(struct docs_chunk) chunks;
};

struct loading {
    struct library *library;
    VEC(struct known_page) pages;
    uint32_t tenant; /* of the source whose pages are listed */
    /* Of one batch: */
    struct arena arena;
    struct loaded *batch;
    size_t count, bytes;
};

/* --- Which pages there are --- */

static void list_page(void *ctx, const struct docs_page *page)
{
    struct loading *loading = ctx;
    *vec_push(&loading->pages) = (struct known_page){page->id, loading->tenant};
}

static int by_tenant(const void *a, const void *b)
{
    const struct known_page *x = a, *y = b;
    if (x->tenant != y->tenant)
        return x->tenant < y->tenant ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int list_pages(struct loading *loading, struct err *err)
{
    MAP_EACH (entry, &loading->library->sources) {
        loading->tenant = ((const struct source *)entry->value)->tenant;
        if (docs_list_pages(loading->library->docs, entry->key, list_page, loading, err) < 0)
            return -1;
    }
    if (loading->pages.len > 0)
        qsort(loading->pages.ptr, loading->pages.len, sizeof *loading->pages.ptr, by_tenant);
    return 0;
}

/* --- One batch --- */

static void take_page(void *ctx, const struct docs_page *page)
{
    struct loading *loading = ctx;
    struct arena *arena = &loading->arena;
    struct loaded *loaded = &loading->batch[loading->count];
    *loaded = (struct loaded){.row = *page};
    loaded->row.source = arena_dup(arena, page->source);
    loaded->row.path = arena_dup(arena, page->path);
    loaded->row.title = arena_dup(arena, page->title);
    loaded->row.scope = arena_dup(arena, page->scope);
    loaded->row.text = arena_dup(arena, page->text);
    loaded->row.etag = loaded->row.modified = loaded->row.hash = (struct str){0};
    loading->bytes += page->text.len;
}

static void take_chunk(void *ctx, const struct docs_chunk *chunk)
{
    struct loading *loading = ctx;
    struct docs_chunk *copy = vec_push(&loading->batch[loading->count].chunks);
    *copy = *chunk;
    copy->key = (struct str){0};
    copy->hash = arena_dup(&loading->arena, chunk->hash);
    copy->heading = arena_dup(&loading->arena, chunk->heading);
    copy->heading_terms = arena_dup(&loading->arena, chunk->heading_terms);
    copy->terms = arena_dup(&loading->arena, chunk->terms);
}

static int take_batch(struct loading *loading, size_t *next, struct err *err)
{
    struct docs *docs = loading->library->docs;
    uint32_t tenant = loading->pages.ptr[*next].tenant;
    while (*next < loading->pages.len && loading->pages.ptr[*next].tenant == tenant &&
           loading->count < LOAD_PAGES && loading->bytes < LOAD_BYTES) {
        int64_t id = loading->pages.ptr[(*next)++].id;
        struct loaded *loaded = &loading->batch[loading->count];
        if (docs_get_page(docs, id, take_page, loading, err) < 0 ||
            docs_each_chunk(docs, id, take_chunk, loading, err) < 0)
            return -1;
        loaded->source = map_get(&loading->library->sources, loaded->row.source);
        loading->count++;
    }
    return 0;
}

static struct document_ask ask_of(const struct loaded *loaded, struct arena *arena)
{
    struct chunk *chunks = arena_array(arena, struct chunk, loaded->chunks.len + 1);
    for (size_t i = 0; i < loaded->chunks.len; i++)
        chunks[i] =
            (struct chunk){loaded->chunks.ptr[i].heading, (size_t)loaded->chunks.ptr[i].start,
                           (size_t)loaded->chunks.ptr[i].length};
    return (struct document_ask){.title = loaded->row.title,
                                 .text = loaded->row.text,
                                 .format = (enum doc_format)loaded->row.format,
                                 .chunks = chunks,
                                 .chunk_count = loaded->chunks.len};
}

static void index_page(struct library *library, const struct loaded *loaded,
                       const struct document *document)
{
    for (size_t i = 0; i < document->count; i++) {
        struct library_chunk row = {&loaded->row,
                                    loaded->source,
                                    loaded->chunks.ptr[i].id,
                                    loaded->chunks.ptr[i].hash,
                                    document->chunks[i].heading_terms,
                                    document->chunks[i].terms};
        (void)library_add_chunk(library, &row);
    }
}

/* As the rows have it; false when they do not have all terms, or wrong ones. */
static bool take_stored(const struct loaded *loaded, struct arena *arena, struct document *document)
{
    *document = (struct document){.count = loaded->chunks.len};
    document->chunks = arena_array(arena, struct document_chunk, document->count + 1);
    for (size_t i = 0; i < document->count; i++) {
        const struct docs_chunk *chunk = &loaded->chunks.ptr[i];
        if (chunk->terms_version != TERMS_VERSION || chunk->start < 0 || chunk->length < 0)
            return false;
        document->chunks[i] =
            (struct document_chunk){chunk->heading, (size_t)chunk->start, (size_t)chunk->length,
                                    chunk->heading_terms, chunk->terms};
    }
    return document_has_chunks(loaded->row.text, document->chunks, document->count);
}

/* With new keys: version 1 of the rows made them from other parts. */
static int store_terms(struct library *library, const struct loaded *loaded,
                       const struct document *document, struct err *err)
{
    for (size_t i = 0; i < document->count; i++) {
        char key[17];
        library_chunk_key(loaded->row.source, loaded->row.path, i, key);
        struct docs_chunk row = {.id = loaded->chunks.ptr[i].id,
                                 .key = str_of(key),
                                 .heading_terms = document->chunks[i].heading_terms,
                                 .terms = document->chunks[i].terms,
                                 .terms_version = TERMS_VERSION};
        if (docs_put_terms(library->docs, &row, err) < 0)
            return -1;
    }
    return 0;
}

static int store_batch(struct library *library, struct loaded *const *pages, size_t count,
                       const struct reader_answer *answers, struct err *err)
{
    if (docs_begin(library->docs, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (answers[i].why.code == ERR_NONE &&
            store_terms(library, pages[i], &answers[i].document, err) < 0) {
            docs_rollback(library->docs);
            return -1;
        }
    return docs_commit(library->docs, err);
}

/* A page that cannot be read now is left out, with its rows as they are: the next start tries it
 * again. */
static int read_batch(struct loading *loading, struct loaded *const *pages, size_t count,
                      struct err *err)
{
    struct arena *arena = &loading->arena;
    struct document_ask *asks = arena_array(arena, struct document_ask, count + 1);
    struct reader_answer *answers = arena_array(arena, struct reader_answer, count + 1);
    for (size_t i = 0; i < count; i++)
        asks[i] = ask_of(pages[i], arena);
    if (library_read(loading->library, asks, count, arena, answers, err) < 0 ||
        store_batch(loading->library, pages, count, answers, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        if (answers[i].why.code == ERR_NONE)
            index_page(loading->library, pages[i], &answers[i].document);
        else
            loading->library->unread++;
    }
    return 0;
}

static int index_batch(struct loading *loading, struct err *err)
{
    struct arena *arena = &loading->arena;
    struct loaded **unread = arena_array(arena, struct loaded *, loading->count + 1);
    size_t count = 0;
    for (size_t i = 0; i < loading->count; i++) {
        struct document stored;
        if (take_stored(&loading->batch[i], arena, &stored))
            index_page(loading->library, &loading->batch[i], &stored);
        else
            unread[count++] = &loading->batch[i];
    }
    return count == 0 ? 0 : read_batch(loading, unread, count, err);
}

static void end_batch(struct loading *loading)
{
    for (size_t i = 0; i <= loading->count; i++) /* with the one that failed half-way */
        vec_done(&loading->batch[i].chunks);
    loading->count = loading->bytes = 0;
    arena_done(&loading->arena);
}

static int load_all(struct loading *loading, struct err *err)
{
    int result = list_pages(loading, err);
    for (size_t next = 0; result == 0 && next < loading->pages.len;) {
        result = take_batch(loading, &next, err);
        if (result == 0)
            result = index_batch(loading, err);
        end_batch(loading);
    }
    return result;
}

int library_load(struct library *library, struct err *err)
{
    AUTO_MEM struct loaded *batch = mem_alloc((LOAD_PAGES + 1) * sizeof *batch);
    struct loading loading = {.library = library, .batch = batch};
    int result = load_all(&loading, err);
    vec_done(&loading.pages);
    return result;
}
