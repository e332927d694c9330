/* Searching: the question goes to the library's thread, and what comes back is held against the
 * modules that there are now. */

#include "engine/docs/docs_search.h"

#include <stdlib.h>

#include "engine/session/session_internal.h"
#include "search/embed/model.h"

enum { ROUNDS_MAX = 8 };

struct searching {
    struct docs_job work; /* first */
    struct library_query query;
    struct library_results results;
    int64_t *found; /* pages of the results, before modules were taken out */
    size_t found_count, found_total;
    int rounds;
    docs_search_done *done;
    void *ctx;
};

static int run_search(struct docs_job *work, struct library *library, struct err *err)
{
    struct searching *searching = (struct searching *)work;
    return library_search(library, &searching->query, &work->arena, &searching->results, err);
}

static bool is_result(const struct library_results *results, int64_t page)
{
    for (size_t i = 0; i < results->count; i++)
        if (results->items[i].page == page)
            return true;
    return false;
}

/* Modules were taken out, and behind the last result there were others: false when not. */
static bool search_again(struct searching *searching)
{
    struct library_query *query = &searching->query;
    size_t count = query->left_out_count;
    if (searching->results.count == searching->found_count || ++searching->rounds > ROUNDS_MAX ||
        searching->found_total <= query->offset + searching->found_count ||
        searching->work.service->is_closing)
        return false;
    int64_t *left_out =
        arena_array(&searching->work.arena, int64_t, count + searching->found_count + 1);
    if (count > 0)
        memcpy(left_out, query->left_out, count * sizeof *left_out);
    for (size_t i = 0; i < searching->found_count; i++)
        if (!is_result(&searching->results, searching->found[i]))
            left_out[count++] = searching->found[i];
    query->left_out = left_out;
    query->left_out_count = count;
    docs_submit(searching->work.service, &searching->work);
    return true;
}

static void give(void *ctx)
{
    struct searching *searching = ctx;
    if (search_again(searching))
        return;
    struct docs_found found = {&searching->results, searching->results.has_vectors};
    searching->done(searching->ctx, &found, NULL);
    docs_job_free(&searching->work);
}

static void search_done(struct docs_job *work, const struct err *why)
{
    struct searching *searching = (struct searching *)work;
    if (why != NULL) { /* also when the service is no more */
        searching->done(searching->ctx, NULL, why);
        docs_job_free(work);
        return;
    }
    struct engine *engine = work->service->engine;
    searching->found_count = searching->results.count;
    searching->found_total = searching->results.total;
    searching->found = arena_array(&work->arena, int64_t, searching->found_count + 1);
    for (size_t i = 0; i < searching->found_count; i++)
        searching->found[i] = searching->results.items[i].page;
    docs_fill_modules(engine, &searching->results, &work->arena);
    if (work->service->is_closing)
        give(searching);
    else
        docs_check_files(engine, searching->query.tenant, &searching->results, give, searching);
}

static void fail_done(struct docs_job *work, UNUSED const struct err *why)
{
    struct searching *searching = (struct searching *)work;
    struct err err = {0};
    (void)err_set(&err, ERR_NOT_FOUND, "%.*s", STR_ARG(searching->query.text));
    searching->done(searching->ctx, NULL, &err);
    docs_job_free(work);
}

static int run_nothing(UNUSED struct docs_job *work, UNUSED struct library *library,
                       UNUSED struct err *err)
{
    return 0;
}

static void with_vector(void *ctx, const float *vector)
{
    struct searching *searching = ctx;
    if (vector != NULL) {
        float *copy = arena_array(&searching->work.arena, float, EMBED_DIMS);
        memcpy(copy, vector, EMBED_DIMS * sizeof *copy);
        searching->query.vector = copy;
    }
    docs_submit(searching->work.service, &searching->work);
}

/* The row of the session that is named, or that has the volume; empty: none is. */
static int session_row(struct engine *engine, const struct engine_caller *caller,
                       const struct docs_query *query, struct str *ret_row, struct err *err)
{
    struct str id = query->session;
    struct volume_info volume;
    if (id.len == 0 && query->volume.len > 0) {
        if (engine_volume_get(engine, caller, query->volume, &volume, err) < 0)
            return -1;
        id = volume.session;
    }
    if (id.len == 0)
        return 0;
    const struct session *session = session_find(engine, caller->tenant, id, err);
    if (session == NULL)
        return -1;
    *ret_row = session->row_id;
    return 0;
}

void engine_docs_search(struct engine *engine, const struct engine_caller *caller,
                        const struct docs_query *query, docs_search_done *done, void *ctx)
{
    struct searching *searching = mem_alloc(sizeof *searching);
    struct arena *arena = &searching->work.arena;
    struct err err = {0};
    struct str row = {0};
    searching->done = done;
    searching->ctx = ctx;
    if (session_row(engine, caller, query, &row, &err) < 0) {
        searching->query.text = arena_dup(arena, str_of(err.msg));
        searching->work.run = run_nothing;
        searching->work.done = fail_done;
        docs_submit(engine->docs, &searching->work);
        return;
    }
    searching->query = (struct library_query){
        .text = arena_dup(arena, str_slice(query->text, 0, QUERY_MAX)),
        .tenant = arena_dup(arena, caller->tenant),
        .package = arena_dup(arena, query->package),
        .kind = arena_dup(arena, query->kind),
        .language = arena_dup(arena, query->language),
        .session = arena_dup(arena, row),
        .limit = query->limit,
        .offset = query->offset,
        .neighbours = query->neighbours,
    };
    searching->work.run = run_search;
    searching->work.done = search_done;
    searching->work.service = engine->docs;
    docs_embed_query(engine->docs, searching->query.text, with_vector, searching);
}
