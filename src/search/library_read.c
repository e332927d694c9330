/* What the library has: sources, pages, figures. */

#include <string.h>

#include "base/err.h"
#include "search/library_internal.h"

struct listing {
    struct library *library;
    struct arena *arena;
    const struct str *tenant;
    VEC(struct library_source) sources;
};

static void list_source(void *ctx, const struct docs_source *row)
{
    struct listing *listing = ctx;
    if (listing->tenant != NULL &&
        ((row->tenant.len > 0 && !str_eq(row->tenant, *listing->tenant)) ||
         str_eq(row->kind, STR("module"))))
        return;
    struct arena *arena = listing->arena;
    vec_push(&listing->sources)->row = (struct docs_source){arena_dup(arena, row->id),
                                                            arena_dup(arena, row->tenant),
                                                            arena_dup(arena, row->kind),
                                                            arena_dup(arena, row->package),
                                                            arena_dup(arena, row->location),
                                                            arena_dup(arena, row->state),
                                                            arena_dup(arena, row->error),
                                                            row->created_ms,
                                                            row->checked_ms};
}

static void count_page(void *ctx, UNUSED const struct docs_page *page)
{
    ++*(size_t *)ctx;
}

static void count_chunks(const struct library *library, struct library_source *source)
{
    uint32_t number = library_name(library, source->row.id);
    for (size_t i = 0; i < library->index.chunks.len; i++) {
        const struct index_chunk *chunk = &library->index.chunks.ptr[i];
        bool is_of_it = chunk->row != 0 && chunk->source == number;
        source->chunks += is_of_it;
        source->vectors += is_of_it && chunk->has_vector;
    }
}

int library_sources(struct library *library, const struct str *tenant, struct arena *arena,
                    struct library_source **ret_sources, size_t *ret_count, struct err *err)
{
    struct listing listing = {library, arena, tenant, {0}};
    int result = docs_each_source(library->docs, list_source, &listing, err);
    for (size_t i = 0; result == 0 && i < listing.sources.len; i++) {
        struct library_source *source = &listing.sources.ptr[i];
        count_chunks(library, source);
        result = docs_list_pages(library->docs, source->row.id, count_page, &source->pages, err);
    }
    if (result == 0) {
        *ret_count = listing.sources.len;
        *ret_sources = arena_array(arena, struct library_source, listing.sources.len + 1);
        if (listing.sources.len > 0)
            memcpy(*ret_sources, listing.sources.ptr, listing.sources.len * sizeof **ret_sources);
    }
    vec_done(&listing.sources);
    return result;
}

struct reading_page {
    struct arena *arena;
    struct docs_page page;
};

static void library_read_read_page(void *ctx, const struct docs_page *page)
{
    struct reading_page *reading = ctx;
    struct arena *arena = reading->arena;
    reading->page = *page;
    reading->page.source = arena_dup(arena, page->source);
    reading->page.path = arena_dup(arena, page->path);
    reading->page.title = arena_dup(arena, page->title);
    reading->page.scope = arena_dup(arena, page->scope);
    reading->page.text = arena_dup(arena, page->text);
    reading->page.etag = reading->page.modified = reading->page.hash = (struct str){0};
}

int library_page(struct library *library, struct str tenant, int64_t id, struct arena *arena,
                 struct docs_page *ret_page, struct err *err)
{
    struct reading_page reading = {.arena = arena};
    if (docs_get_page(library->docs, id, library_read_read_page, &reading, err) < 0)
        return -1;
    const struct source *source = map_get(&library->sources, reading.page.source);
    if (source == NULL || source->is_module ||
        (source->tenant != 0 && source->tenant != library_name(library, tenant)))
        return err_set(err, ERR_NOT_FOUND, "no page %lld", (long long)id);
    *ret_page = reading.page;
    return 0;
}

struct validators {
    struct arena *arena;
    struct str etag, modified;
};

static void read_validators(void *ctx, const struct docs_page *page)
{
    struct validators *found = ctx;
    found->etag = arena_dup(found->arena, page->etag);
    found->modified = arena_dup(found->arena, page->modified);
}

int library_validators(struct library *library, struct str source, struct str path,
                       struct arena *arena, struct str *ret_etag, struct str *ret_modified,
                       struct err *err)
{
    struct validators found = {.arena = arena};
    if (docs_find_page(library->docs, source, path, read_validators, &found, err) < 0)
        return -1;
    *ret_etag = found.etag;
    *ret_modified = found.modified;
    return 0;
}

struct knowing {
    struct arena *arena;
    VEC(struct library_known) pages;
};

static void know_page(void *ctx, const struct docs_page *page)
{
    struct knowing *knowing = ctx;
    *vec_push(&knowing->pages) = (struct library_known){arena_dup(knowing->arena, page->path),
                                                        arena_dup(knowing->arena, page->scope),
                                                        arena_dup(knowing->arena, page->hash)};
}

int library_known(struct library *library, struct str source, struct arena *arena,
                  struct library_known **ret_pages, size_t *ret_count, struct err *err)
{
    struct knowing knowing = {.arena = arena};
    int result = docs_list_pages(library->docs, source, know_page, &knowing, err);
    if (result == 0) {
        *ret_count = knowing.pages.len;
        *ret_pages = arena_array(arena, struct library_known, knowing.pages.len + 1);
        if (knowing.pages.len > 0)
            memcpy(*ret_pages, knowing.pages.ptr, knowing.pages.len * sizeof **ret_pages);
    }
    vec_done(&knowing.pages);
    return result;
}

struct library_figures library_figures(const struct library *library)
{
    return (struct library_figures){library->sources.len, library->index.chunk_count,
                                    library->vector_count, index_bytes(&library->index),
                                    library->unread};
}
