/* The thread that has the library, and verbs that only need it. */

#include "engine/docs/docs.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/docs/docs_internal.h"
#include "search/embed/embedder.h"

enum { QUEUE_MAX = 10000, READERS = 2, TICK_FETCH_MS = 250 };

/* --- Works --- */

static void run_work(struct job *job)
{
    struct docs_job *work = CONTAINER_OF(job, struct docs_job, job);
    struct docs_service *service = work->service;
    if (service->library == NULL) {
        work->failed = true;
        work->err = service->open_err;
        return;
    }
    work->failed = work->run(work, service->library, &work->err) < 0;
    work->figures = library_figures(service->library);
    if (!library_tenants(service->library, &service->tenants_version, &work->arena, &work->tenants,
                         &work->tenant_count))
        work->tenants = NULL;
}

/* Tenants have no empty name and no name with a line break, so "\n" can stand for all. */
static void take_tenants(struct docs_service *service, const struct docs_job *work)
{
    if (work->tenants == NULL)
        return;
    map_done(&service->tenants);
    service->tenants = (struct map){0};
    for (size_t i = 0; i < work->tenant_count; i++)
        (void)map_put(&service->tenants, work->tenants[i].len > 0 ? work->tenants[i] : STR("\n"),
                      service);
}

bool engine_docs_has(const struct engine *engine, struct str tenant)
{
    const struct docs_service *service = engine->docs;
    return service != NULL &&
           (map_has(&service->tenants, STR("\n")) || map_has(&service->tenants, tenant));
}

static void end_work(struct docs_job *work)
{
    struct docs_service *service = work->service;
    work->done(work, work->failed ? &work->err : NULL);
    if (!service->is_closing)
        docs_embed(service);
}

static void work_done(struct job *job, bool canceled)
{
    struct docs_job *work = CONTAINER_OF(job, struct docs_job, job);
    struct docs_service *service = work->service;
    if (!canceled)
        take_tenants(service, work);
    if (!canceled && (!work->failed || work->figures.sources > 0))
        service->figures = work->figures;
    if (canceled) {
        work->failed = true;
        (void)err_set(&work->err, ERR_UNAVAILABLE, "the server is stopping");
    }
    end_work(work);
}

static void refused(struct loop_task *task)
{
    struct docs_job *work = CONTAINER_OF(task, struct docs_job, job.task);
    struct docs_service *service = work->service;
    work->done(work, &work->err);
    service->refusals--;
}

/* Answers come later than the call, also refusals. */
static void submit_to(struct pool *pool, struct docs_job *work)
{
    struct docs_service *service = work->service;
    if (service->is_closing || pool == NULL)
        (void)err_set(&work->err, ERR_UNAVAILABLE, "%s",
                      service->is_closing ? "the server is stopping" : service->why.msg);
    else if (pool_submit(pool, &work->job, &work->err) == 0)
        return;
    work->job.task.run = refused;
    service->refusals++;
    loop_post(service->engine->loop, &work->job.task);
}

static void submit_run(struct docs_job *work)
{
    work->job = (struct job){.run = run_work, .done = work_done};
    submit_to(work->service->pool, work);
}

static void run_prepare(struct job *job)
{
    struct docs_job *work = CONTAINER_OF(job, struct docs_job, job);
    work->failed = work->prepare(work, &work->err) < 0;
}

static void prepare_done(struct job *job, bool canceled)
{
    struct docs_job *work = CONTAINER_OF(job, struct docs_job, job);
    if (canceled || work->service->is_closing) {
        work->failed = true;
        (void)err_set(&work->err, ERR_UNAVAILABLE, "the server is stopping");
    }
    if (work->failed)
        end_work(work);
    else
        submit_run(work);
}

void docs_submit(struct docs_service *service, struct docs_job *work)
{
    work->service = service;
    if (work->prepare == NULL) {
        submit_run(work);
        return;
    }
    work->job = (struct job){.run = run_prepare, .done = prepare_done};
    submit_to(work->is_ordered ? service->ordered : service->readers, work);
}

void docs_job_free(struct docs_job *work)
{
    arena_done(&work->arena);
    free(work);
}

/* --- Opening --- */

struct opening {
    struct job job;
    struct docs_service *service;
    struct docs_stored stored;
};

static void run_open(struct job *job)
{
    struct opening *opening = CONTAINER_OF(job, struct opening, job);
    struct docs_service *service = opening->service;
    if (library_open(service->engine->data_dir, str_of(service->model), &service->reader,
                     &service->library, &service->open_err) < 0)
        service->library = NULL;
    else if (docs_list_stored(service->library, &opening->stored, &service->open_err) < 0)
        service->library = library_free(service->library);
}

static void opening_free(struct opening *opening)
{
    docs_stored_done(&opening->stored);
    free(opening);
}

static void open_done(struct job *job, bool canceled)
{
    struct opening *opening = CONTAINER_OF(job, struct opening, job);
    struct docs_service *service = opening->service;
    service->is_open = !canceled && !service->is_closing && service->library != NULL;
    if (service->is_open) {
        service->figures = library_figures(service->library);
        if (service->figures.unread > 0)
            log_warn("docs.unread", LOG_INT("pages", (int64_t)service->figures.unread));
        docs_begin_configured(service, &opening->stored);
    } else if (!canceled && !service->is_closing) {
        service->why = service->open_err;
        log_error("docs.open", LOG_STR("error", service->why.msg));
    }
    opening_free(opening);
}

void docs_open_service(struct engine *engine)
{
    struct docs_service *service = mem_alloc(sizeof *service);
    struct opening *opening = mem_alloc(sizeof *opening);
    struct err err = {0};
    engine->docs = service;
    service->engine = engine;
    opening->service = service;
    opening->job = (struct job){.run = run_open, .done = open_done};
    service->reader =
        (struct reader_options){.program = engine->host.program, .stop = &service->is_stopping};
    if (pool_open(engine->loop, 1, QUEUE_MAX, &service->pool, &err) < 0 ||
        pool_open(engine->loop, READERS, QUEUE_MAX, &service->readers, &err) < 0 ||
        pool_open(engine->loop, 1, QUEUE_MAX, &service->ordered, &err) < 0 ||
        docs_open_gate(service, &err) < 0 || docs_open_embedder(service, &err) < 0 ||
        pool_submit(service->pool, &opening->job, &err) < 0) {
        opening_free(opening);
        service->why = err;
        log_error("docs.open", LOG_STR("error", err.msg));
        return;
    }
    service->embed_timer = timer_new(engine->loop, docs_embed, service);
    service->timer = timer_new(engine->loop, docs_fetch_tick, service);
    timer_set(service->timer, TICK_FETCH_MS, TICK_FETCH_MS);
}

/* They point at the service and its sources. */
static void answer_refusals(struct docs_service *service)
{
    while (service->refusals > 0)
        loop_run_posted(service->engine->loop);
}

void docs_close_service(struct engine *engine)
{
    struct docs_service *service = engine->docs;
    if (service == NULL)
        return;
    service->is_closing = true;
    atomic_store(&service->is_stopping, true);
    (void)timer_free(service->timer);
    if (service->embedder != NULL)
        (void)embedder_close(service->embedder); /* answers what waits */
    (void)timer_free(service->embed_timer);
    service->readers = pool_free(service->readers); /* works point at sources */
    service->ordered = pool_free(service->ordered);
    service->pool = pool_free(service->pool);
    answer_refusals(service);
    docs_close_gate(service);
    docs_free_packages(service);
    answer_refusals(service);
    (void)library_free(service->library);
    map_done(&service->tenants);
    map_done(&service->unembedded);
    engine->docs = NULL;
    free(service);
}

void engine_docs_status(const struct engine *engine, struct engine_docs *ret_status)
{
    const struct docs_service *service = engine->docs;
    struct engine_docs status = {.state = "starting", .model = ""};
    if (service == NULL) {
        *ret_status = status;
        return;
    }
    status.model = service->model;
    for (const struct docs_remote *remote = service->remotes; remote != NULL;
         remote = remote->next) {
        status.failed += remote->tries > 0;
        status.waiting += remote->tries == 0 && (remote->is_busy || remote->due_ms == 0);
    }
    docs_count_packages(service, &status.waiting, &status.failed);
    status.sources = service->figures.sources;
    status.chunks = service->figures.chunks;
    status.vectors = service->figures.vectors;
    if (service->why.code != ERR_NONE) {
        status.state = "failed";
        (void)snprintf(status.detail, sizeof status.detail, "%s", service->why.msg);
    } else if (service->is_open) {
        bool is_embedding = service->embedder != NULL && status.vectors < status.chunks;
        bool is_done = service->has_begun && status.waiting == 0 && !is_embedding;
        status.state = is_done ? "ready" : "indexing";
        (void)snprintf(status.detail, sizeof status.detail,
                       "%zu sources, %zu chunks, %zu with vectors; %zu waiting, %zu failed",
                       status.sources, status.chunks, status.vectors, status.waiting,
                       status.failed);
    }
    *ret_status = status;
}

/* --- List --- */

struct listing {
    struct docs_job work; /* first */
    struct str tenant;
    struct library_source *sources;
    size_t count;
    docs_list_done *done;
    void *ctx;
};

static int run_list(struct docs_job *work, struct library *library, struct err *err)
{
    struct listing *listing = (struct listing *)work;
    return library_sources(library, &listing->tenant, &work->arena, &listing->sources,
                           &listing->count, err);
}

static struct docs_info info_of(const struct library_source *source)
{
    const struct docs_source *row = &source->row;
    return (struct docs_info){
        .id = row->id,
        .kind = row->kind,
        .package = row->package,
        .location = row->location,
        .state = row->state,
        .error = row->error,
        .is_config = row->tenant.len == 0,
        .pages = source->pages,
        .chunks = source->chunks,
        .vectors = source->vectors,
        .created_ms = row->created_ms,
        .checked_ms = row->checked_ms,
    };
}

static void list_done(struct docs_job *work, const struct err *why)
{
    struct listing *listing = (struct listing *)work;
    struct docs_info *items = arena_array(&work->arena, struct docs_info, listing->count + 1);
    for (size_t i = 0; why == NULL && i < listing->count; i++)
        items[i] = info_of(&listing->sources[i]);
    listing->done(listing->ctx, items, why == NULL ? listing->count : 0, why);
    docs_job_free(work);
}

void engine_docs_list(struct engine *engine, const struct engine_caller *caller,
                      docs_list_done *done, void *ctx)
{
    struct listing *listing = mem_alloc(sizeof *listing);
    listing->tenant = arena_dup(&listing->work.arena, caller->tenant);
    listing->work.run = run_list;
    listing->work.done = list_done;
    listing->done = done;
    listing->ctx = ctx;
    docs_submit(engine->docs, &listing->work);
}

/* --- Remove --- */

struct removing {
    struct docs_job work; /* first */
    struct str tenant, id;
    engine_done *done;
    void *ctx;
};

static int run_remove(struct docs_job *work, struct library *library, struct err *err)
{
    struct removing *removing = (struct removing *)work;
    struct library_source *sources = NULL;
    size_t count = 0;
    bool was_there = false;
    if (library_sources(library, &removing->tenant, &work->arena, &sources, &count, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (str_eq(sources[i].row.id, removing->id)) {
            if (sources[i].row.tenant.len == 0)
                return err_set(err, ERR_FORBIDDEN,
                               "this source is in the server's configuration: remove it there");
            return library_remove_source(library, removing->id, &was_there, err);
        }
    return err_set(err, ERR_NOT_FOUND, "no documents '%.*s'", STR_ARG(removing->id));
}

static void remove_done(struct docs_job *work, const struct err *why)
{
    struct removing *removing = (struct removing *)work;
    if (why == NULL)
        docs_unwatch(work->service, removing->id);
    removing->done(removing->ctx, why);
    docs_job_free(work);
}

void engine_docs_remove(struct engine *engine, const struct engine_caller *caller, struct str id,
                        engine_done *done, void *ctx)
{
    struct removing *removing = mem_alloc(sizeof *removing);
    removing->tenant = arena_dup(&removing->work.arena, caller->tenant);
    removing->id = arena_dup(&removing->work.arena, id);
    removing->work.run = run_remove;
    removing->work.done = remove_done;
    removing->done = done;
    removing->ctx = ctx;
    docs_submit(engine->docs, &removing->work);
}

/* --- A whole page --- */

struct paging {
    struct docs_job work; /* first */
    struct str tenant;
    int64_t id;
    struct docs_page page;
    docs_page_done *done;
    void *ctx;
};

static int run_page(struct docs_job *work, struct library *library, struct err *err)
{
    struct paging *paging = (struct paging *)work;
    return library_page(library, paging->tenant, paging->id, &work->arena, &paging->page, err);
}

static void page_done(struct docs_job *work, const struct err *why)
{
    struct paging *paging = (struct paging *)work;
    paging->done(paging->ctx, why == NULL ? &paging->page : NULL, why);
    docs_job_free(work);
}

void engine_docs_page(struct engine *engine, const struct engine_caller *caller, int64_t id,
                      docs_page_done *done, void *ctx)
{
    struct paging *paging = mem_alloc(sizeof *paging);
    paging->tenant = arena_dup(&paging->work.arena, caller->tenant);
    paging->id = id;
    paging->work.run = run_page;
    paging->work.done = page_done;
    paging->done = done;
    paging->ctx = ctx;
    docs_submit(engine->docs, &paging->work);
}
