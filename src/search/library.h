#pragma once

/* The documents that search knows: rows in docs.db and the index over them.
 *
 * Calls block; one thread at a time, whichever: the engine has a thread for them. What a call
 * changes is there after a crash, whole or not at all. */

#include "base/arena.h"
#include "search/document.h"
#include "search/index.h"
#include "store/docs.h"

struct library;
struct reader_options;

enum {
    LIBRARY_CHUNKS_MAX = 1000000, /* of all documents */
    QUERY_MAX = 4096,             /* bytes that are looked at; the rest is ignored */
    RESULTS_DEFAULT = 5,
    RESULTS_MAX = 50,
    EXCERPT_MAX = 900, /* bytes */
};

/* `model` names the vectors that are used; empty: none. Terms of all documents are found again, by
 * processes of `reader` (borrowed); NULL: in this process, which is for tests and benchmarks. */
int library_open(const char *dir, struct str model, const struct reader_options *reader,
                 struct library **ret_library, struct err *err) MUST_USE;
struct library *library_free(struct library *library);

/* --- Sources and pages --- */

/* By tenant, package and location. */
void library_source_id(struct str tenant, struct str package, struct str location, char out[17]);
/* The package, kind, tenant and location of a source that is already there do not change. */
int library_put_source(struct library *library, const struct docs_source *source,
                       struct err *err) MUST_USE;
bool library_has_source(const struct library *library, struct str id);
/* True when it was there. */
int library_remove_source(struct library *library, struct str id, bool *ret_was_there,
                          struct err *err) MUST_USE;

struct library_page {
    struct str path, title; /* the title, when the document has none */
    struct str scope;       /* of modules: "session" or "user" */
    struct str etag, modified, text;
    enum doc_format format;
    const struct document *document; /* of the text; NULL: it is read now */
    bool is_unread; /* it could not be read, or has not changed: what is stored of it stays */
};
/* Adds or replaces a page of a source that is there; one that is unchanged costs nothing. */
int library_put_page(struct library *library, struct str source, const struct library_page *page,
                     bool *ret_changed, struct err *err) MUST_USE;
/* Makes the pages of a source exactly these, and writes its row, in one transaction: after a crash
 * the source is as before or as after the call, and no search sees anything in between. */
int library_put_pages(struct library *library, const struct docs_source *source,
                      const struct library_page *pages, size_t count, struct err *err) MUST_USE;
/* Nothing happens when it is not there. */
int library_remove_page(struct library *library, struct str source, struct str path,
                        struct err *err) MUST_USE;

struct library_source {
    struct docs_source row;
    size_t pages, chunks, vectors;
};
/* Of the tenant and of the configuration; of all when `tenant` is NULL. In `arena`. */
int library_sources(struct library *library, const struct str *tenant, struct arena *arena,
                    struct library_source **ret_sources, size_t *ret_count,
                    struct err *err) MUST_USE;
/* The page with its text, if the tenant may see it, else NOT_FOUND. `id` is that of a result. */
int library_page(struct library *library, struct str tenant, int64_t id, struct arena *arena,
                 struct docs_page *ret_page, struct err *err) MUST_USE;
/* The validators of a page for a conditional request; empty: there are none. */
int library_validators(struct library *library, struct str source, struct str path,
                       struct arena *arena, struct str *ret_etag, struct str *ret_modified,
                       struct err *err) MUST_USE;

/* What is stored of the pages of a source. */
struct library_known {
    struct str path, scope;
    struct str hash; /* of the text; of HTML, of the converted one */
};
int library_known(struct library *library, struct str source, struct arena *arena,
                  struct library_known **ret_pages, size_t *ret_count, struct err *err) MUST_USE;

struct library_figures {
    size_t sources, chunks, vectors, bytes;
    size_t unread; /* pages that could not be read when the library was opened */
};
struct library_figures library_figures(const struct library *library);
/* Those that have chunks of their own; "" stands for chunks that every tenant sees. `*version` is
 * that of the last call (0 at first): false when nothing has changed since. */
bool library_tenants(const struct library *library, uint64_t *version, struct arena *arena,
                     struct str **ret_names, size_t *ret_count);

/* --- Search (library_search.c) --- */

struct library_query {
    struct str text;
    struct str tenant;
    struct str package;  /* empty, here and below: any */
    struct str kind;     /* "doc" or "module" */
    struct str language; /* "javascript", "python", ...; a page of no known language is found too */
    struct str session;  /* whose modules are found besides those of scope "user" */
    const float *vector; /* of the text, of length 1; NULL: keywords only */
    float keyword_part;  /* how much words count beside the vector, up to 1; 0: KEYWORD_PART */
    size_t limit, offset;
    size_t neighbours;       /* chunks before and behind a result that are given too */
    const int64_t *left_out; /* pages that are no result */
    size_t left_out_count;
};

struct library_result {
    bool is_module;
    char key[17];
    int64_t page, position;
    struct str heading, package, url, title, session;
    struct str description, exports; /* of a module; the engine's */
    struct str content;              /* the chunk */
    struct str excerpt;              /* its part around the best sentences */
    struct str before, after;        /* neighbours, when asked for */
    float score;                     /* 0 to 1 */
};

struct library_results {
    struct library_result *items;
    size_t count, total;  /* total: without limit and offset */
    struct str corrected; /* "createclient" for "creatcleint"; empty: nothing was */
    bool has_vectors;
};
int library_search(struct library *library, const struct library_query *query, struct arena *arena,
                   struct library_results *ret_results, struct err *err) MUST_USE;

/* --- Vectors (library_vectors.c) --- */

/* For a library that was opened without a model: from now on vectors are those of this one. */
int library_use_model(struct library *library, struct str model, struct err *err) MUST_USE;

struct library_text {
    uint32_t number;
    uint64_t hash;
    struct str text;
};
/* Texts of chunks that have no vector yet, at most `max` (8 or more). A long chunk has several, one
 * behind the other. */
int library_unembedded(struct library *library, size_t max, struct arena *arena,
                       struct library_text **ret_texts, size_t *ret_count,
                       struct err *err) MUST_USE;
/* Vectors of length 1 for them, all of a chunk at once; those whose chunk has changed meanwhile are
 * ignored. */
int library_put_vectors(struct library *library, const struct library_text *texts, size_t count,
                        const float *vectors, size_t dim, struct err *err) MUST_USE;
