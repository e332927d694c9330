/* Vectors: the embedder computes those of new chunks in the background, a few at a time, and that
 * of each question first. Without a model, or when it fails, only keywords serve. */

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "config/config.h"
#include "engine/docs/docs_internal.h"
#include "runtime/models.h"
#include "search/embed/embedder.h"

enum {
    TEXTS_AT_ONCE = 16,
    RETRY_MS = 30000,     /* after the embedder failed */
    MODEL_LOOK_MS = 3000, /* between two looks for a model */
};

int docs_open_embedder(struct docs_service *service, struct err *err)
{
    const struct engine *engine = service->engine;
    const struct model *model = NULL;
    char version[RUNTIME_VERSION_SIZE], dir[RUNTIME_PATH_MAX];
    if (engine->config->search.model == CONFIG_SEARCH_NONE)
        return 0;
    if (model_named(STR("minilm"), &model, err) < 0)
        return -1;
    if (model_look(model, engine->data_dir, version) != RUNTIME_READY)
        return 0;
    model_dir(model, engine->data_dir, dir);
    struct embedder_options options = {.model_dir = dir,
                                       .program = engine->host.program,
                                       .threads = (int)engine->config->search.threads};
    if (embedder_open(engine->loop, &options, &service->embedder, err) < 0)
        return -1;
    (void)snprintf(service->model, sizeof service->model, "minilm %s", version);
    return 0;
}

/* --- A model that is added while the server runs --- */

static int run_use_model(struct docs_job *work, struct library *library, struct err *err)
{
    /* The name does not change any more. */
    return library_use_model(library, str_of(work->service->model), err);
}

static void use_model_done(struct docs_job *work, const struct err *why)
{
    struct docs_service *service = work->service;
    if (why != NULL && !service->is_closing)
        log_warn("docs.model", LOG_STR("error", why->msg));
    if (why == NULL)
        docs_expect_vectors(service);
    docs_job_free(work); /* docs_embed comes next */
}

void docs_look_for_model(struct docs_service *service)
{
    struct err err = {0};
    int64_t now = clock_boot_ms();
    if (service->embedder != NULL || !service->is_open || now < service->model_due_ms)
        return;
    service->model_due_ms = now + MODEL_LOOK_MS;
    if (docs_open_embedder(service, &err) < 0)
        log_warn("docs.model", LOG_STR("error", err.msg));
    if (service->embedder == NULL)
        return;
    log_info("docs.model", LOG_STR("model", service->model));
    struct docs_job *work = mem_alloc(sizeof *work);
    work->run = run_use_model;
    work->done = use_model_done;
    docs_submit(service, work);
}

/* --- Chunks --- */

struct embedding {
    struct docs_job work; /* first */
    struct library_text *texts;
    size_t count;
    float *vectors;
};

static void end_round(struct docs_service *service, bool is_good)
{
    service->is_embedding = false;
    if (!is_good && !service->is_closing)
        timer_set(service->embed_timer, RETRY_MS, 0);
    else if (!service->is_closing)
        docs_embed(service);
}

static int run_put(struct docs_job *work, struct library *library, struct err *err)
{
    struct embedding *embedding = (struct embedding *)work;
    return library_put_vectors(library, embedding->texts, embedding->count, embedding->vectors,
                               EMBED_DIMS, err);
}

static void put_done(struct docs_job *work, const struct err *why)
{
    struct embedding *embedding = (struct embedding *)work;
    struct docs_service *service = work->service;
    bool is_good = why == NULL;
    if (!is_good && !service->is_closing)
        log_warn("docs.vectors", LOG_STR("error", why->msg));
    free(embedding->vectors);
    docs_job_free(work);
    end_round(service, is_good);
}

static void on_vectors(void *ctx, const float *vectors, const struct err *why)
{
    struct embedding *embedding = ctx;
    struct docs_service *service = embedding->work.service;
    if (why != NULL) {
        if (!service->is_closing)
            log_warn("docs.embed", LOG_STR("error", why->msg));
        docs_job_free(&embedding->work);
        end_round(service, false);
        return;
    }
    embedding->vectors =
        mem_dup(vectors, embedding->count * EMBED_DIMS * sizeof *embedding->vectors);
    embedding->work.run = run_put;
    embedding->work.done = put_done;
    docs_submit(service, &embedding->work);
}

static int run_texts(struct docs_job *work, struct library *library, struct err *err)
{
    struct embedding *embedding = (struct embedding *)work;
    return library_unembedded(library, TEXTS_AT_ONCE, &work->arena, &embedding->texts,
                              &embedding->count, err);
}

static void texts_done(struct docs_job *work, const struct err *why)
{
    struct embedding *embedding = (struct embedding *)work;
    struct docs_service *service = work->service;
    struct err err = {0};
    struct str texts[TEXTS_AT_ONCE];
    if (why != NULL || embedding->count == 0 || service->is_closing) {
        bool is_good = why == NULL;
        docs_job_free(work);
        service->is_embedding = false;
        if (!is_good && !service->is_closing)
            end_round(service, false);
        return;
    }
    for (size_t i = 0; i < embedding->count; i++)
        texts[i] = embedding->texts[i].text;
    if (embedder_embed(service->embedder, texts, embedding->count, EMBED_BACKGROUND, on_vectors,
                       embedding, &err) < 0) {
        log_warn("docs.embed", LOG_STR("error", err.msg));
        docs_job_free(work);
        end_round(service, false);
    }
}

void docs_embed(void *ctx)
{
    struct docs_service *service = ctx;
    if (service->embedder == NULL || !service->is_open || service->is_embedding ||
        service->is_closing || timer_is_set(service->embed_timer))
        return;
    if (service->figures.vectors >= service->figures.chunks) {
        docs_publish_vectors(service);
        return;
    }
    struct embedding *embedding = mem_alloc(sizeof *embedding);
    embedding->work.run = run_texts;
    embedding->work.done = texts_done;
    service->is_embedding = true;
    docs_submit(service, &embedding->work);
}

/* --- Questions --- */

struct asking {
    void (*call)(void *ctx, const float *vector);
    void *ctx;
};

static void on_query(void *ctx, const float *vectors, const struct err *why)
{
    struct asking *asking = ctx;
    if (why != NULL)
        log_warn("docs.query", LOG_STR("error", why->msg));
    asking->call(asking->ctx, vectors);
    free(asking);
}

void docs_embed_query(struct docs_service *service, struct str text,
                      void (*call)(void *ctx, const float *vector), void *ctx)
{
    struct err err = {0};
    struct asking *asking = mem_alloc(sizeof *asking);
    *asking = (struct asking){call, ctx};
    if (service->embedder != NULL && service->figures.vectors > 0 && !service->is_closing &&
        embedder_embed(service->embedder, &text, 1, EMBED_QUERY, on_query, asking, &err) == 0)
        return;
    free(asking);
    call(ctx, NULL);
}
