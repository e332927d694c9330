#pragma once

/* Documents for search. Part of engine/engine.h.
 *
 * A source is a URL, a directory of the server, an upload or an installed package; its pages are
 * cut into chunks and indexed. Those of the configuration are for every tenant, those of the API
 * for the tenant that added them. Saved modules of sessions are found in the same list. All of it
 * happens in the background, on a thread of its own: a source that fails keeps what was indexed of
 * it and is tried again. */

#include "engine/caller.h"
#include "search/directory.h"
#include "search/library.h"

enum { DOCS_SOURCES_MAX = 1000 }; /* of a tenant */

/* One of url, directory and pages. */
struct docs_spec {
    struct str package;   /* what it documents; may be empty */
    struct str url;       /* fetched now, and again from time to time */
    struct str directory; /* of the server; only for operators */
    struct str name;      /* of an upload: a second one of the same name replaces it */
    const struct docs_upload *pages;
    size_t page_count;
};

struct docs_info {
    struct str id, kind, package, location, state, error;
    bool is_config; /* of the configuration: it cannot be removed */
    size_t pages, chunks, vectors;
    int64_t created_ms, checked_ms; /* dates; 0: not yet */
};

typedef void docs_done(void *ctx, const struct docs_info *info, const struct err *why);
/* An upload or a directory is indexed when `done` comes, a URL is waiting to be fetched. */
void engine_docs_add(struct engine *engine, const struct engine_caller *caller,
                     const struct docs_spec *spec, docs_done *done, void *ctx);
typedef void docs_list_done(void *ctx, const struct docs_info *items, size_t count,
                            const struct err *why);
void engine_docs_list(struct engine *engine, const struct engine_caller *caller,
                      docs_list_done *done, void *ctx);
/* FORBIDDEN for one of the configuration. */
void engine_docs_remove(struct engine *engine, const struct engine_caller *caller, struct str id,
                        engine_done *done, void *ctx);

struct docs_query {
    struct str text, package, kind, language;
    struct str session; /* whose modules are found too */
    struct str volume;  /* the same, by the session's volume */
    size_t limit, offset, neighbours;
};
struct docs_found {
    const struct library_results *results;
    bool is_hybrid; /* by words and by meaning; else by words only */
};
typedef void docs_search_done(void *ctx, const struct docs_found *found, const struct err *why);
void engine_docs_search(struct engine *engine, const struct engine_caller *caller,
                        const struct docs_query *query, docs_search_done *done, void *ctx);
/* A whole page, by the number that results have. */
typedef void docs_page_done(void *ctx, const struct docs_page *page, const struct err *why);
void engine_docs_page(struct engine *engine, const struct engine_caller *caller, int64_t id,
                      docs_page_done *done, void *ctx);

/* For /readyz, and for whether the tool is offered. From memory, as it was after the last change.
 */
struct engine_docs {
    const char *state; /* "starting", "indexing", "ready", "failed" */
    char detail[240];  /* how far, or why it failed */
    size_t sources, waiting, failed, chunks, vectors;
    const char *model; /* of the vectors; "": none */
};
/* There is something that the tenant could find. */
bool engine_docs_has(const struct engine *engine, struct str tenant);
void engine_docs_status(const struct engine *engine, struct engine_docs *ret_status);
