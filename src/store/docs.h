#pragma once

/* Documents for search: a database of its own, docs.db, in the directory of the store.
 *
 * Ingesting thousands of pages and reading their text would hold up the commits of the store, and
 * a damaged docs.db must not keep the server from starting. Calls block; one thread at a time,
 * whichever. Rows that call-backs get are borrowed until they return. A transaction is all there or
 * not there at all after a crash; the last moments before a power cut may be missing. */

#include "base/str.h"

struct docs;
struct err;

enum { DOCS_VERSION = 2 };

/* UNSUPPORTED: a newer version made it; INTERNAL: it is damaged. */
int docs_open(const char *dir, struct docs **ret_docs, struct err *err) MUST_USE;
struct docs *docs_close(struct docs *docs);
int docs_begin(struct docs *docs, struct err *err) MUST_USE;
int docs_commit(struct docs *docs, struct err *err) MUST_USE; /* or rolls back, with the reason */
void docs_rollback(struct docs *docs);

/* --- Sources (docs_sources.c) --- */

struct docs_source {
    struct str id, tenant, kind, package, location, state, error;
    int64_t created_ms, checked_ms;
};
int docs_put_source(struct docs *docs, const struct docs_source *source, struct err *err) MUST_USE;
/* With its pages and their chunks. */
int docs_remove_source(struct docs *docs, struct str id, struct err *err) MUST_USE;
int docs_each_source(struct docs *docs, void (*call)(void *ctx, const struct docs_source *source),
                     void *ctx, struct err *err) MUST_USE;

/* --- Pages (docs_pages.c) --- */

struct docs_page {
    int64_t id;
    struct str source, path, title, scope, etag, modified, hash, text;
    int64_t format, updated_ms;
};
/* Replaces the page of that source and path, and removes its chunks. Gives its id. */
int docs_put_page(struct docs *docs, const struct docs_page *page, int64_t *ret_id,
                  struct err *err) MUST_USE;
/* The source still has it as it is; with new validators. */
int docs_touch_page(struct docs *docs, const struct docs_page *page, struct err *err) MUST_USE;
int docs_remove_page(struct docs *docs, int64_t id, struct err *err) MUST_USE;
/* Of one source, by path, and one by its path; without their text. Does not call if no page
 * matches. */
int docs_list_pages(struct docs *docs, struct str source,
                    void (*call)(void *ctx, const struct docs_page *page), void *ctx,
                    struct err *err) MUST_USE;
int docs_find_page(struct docs *docs, struct str source, struct str path,
                   void (*call)(void *ctx, const struct docs_page *page), void *ctx,
                   struct err *err) MUST_USE;
/* NOT_FOUND. `call` gets it before this returns. */
int docs_get_page(struct docs *docs, int64_t id,
                  void (*call)(void *ctx, const struct docs_page *page), void *ctx,
                  struct err *err) MUST_USE;

/* --- Chunks (docs_chunks.c) --- */

struct docs_chunk {
    int64_t id, page, position;
    struct str key, hash, heading;
    int64_t start, length;
    struct str heading_terms, terms;
    int64_t terms_version; /* 0: they are not known */
};
int docs_put_chunk(struct docs *docs, const struct docs_chunk *chunk, int64_t *ret_id,
                   struct err *err) MUST_USE;
/* The terms of a chunk that has an id, and its key. */
int docs_put_terms(struct docs *docs, const struct docs_chunk *chunk, struct err *err) MUST_USE;
/* Of a page, by position. */
int docs_each_chunk(struct docs *docs, int64_t page,
                    void (*call)(void *ctx, const struct docs_chunk *chunk), void *ctx,
                    struct err *err) MUST_USE;

/* Without its terms. NOT_FOUND. */
int docs_get_chunk(struct docs *docs, int64_t id,
                   void (*call)(void *ctx, const struct docs_chunk *chunk), void *ctx,
                   struct err *err) MUST_USE;

/* --- Vectors (docs_vectors.c) --- */

struct docs_vector {
    struct str hash, bytes; /* a float, the scale, and one signed byte for each dimension */
};
int docs_put_vector(struct docs *docs, struct str model, const struct docs_vector *vector,
                    struct err *err) MUST_USE;
/* Does not call if the vector is not stored. */
int docs_get_vector(struct docs *docs, struct str model, struct str hash,
                    void (*call)(void *ctx, const struct docs_vector *vector), void *ctx,
                    struct err *err) MUST_USE;
int docs_each_vector(struct docs *docs, struct str model,
                     void (*call)(void *ctx, const struct docs_vector *vector), void *ctx,
                     struct err *err) MUST_USE;
/* Removes those that no chunk has, and those of other models. */
int docs_sweep_vectors(struct docs *docs, struct str model, struct err *err) MUST_USE;
