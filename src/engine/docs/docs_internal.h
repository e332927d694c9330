#pragma once

/* Internals of engine/docs. */

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "base/map.h"
#include "engine/docs/docs.h"
#include "engine/internal.h"
#include "io/loop.h"
#include "io/pool.h"
#include "search/library.h"
#include "search/reader.h"

struct embedder;
struct gate;
struct docs_service;
struct policy;

/* A piece of work with the library, on the thread that has it. The struct of the work begins with
 * this one; what it holds is the thread's until `done`. */
struct docs_job {
    struct job job;
    struct docs_service *service;
    /* Before `run`, on a worker that may wait for the process that reads documents; NULL: there is
     * nothing to read. The library's thread is not held up by a slow document. */
    int (*prepare)(struct docs_job *work, struct err *err);
    bool is_ordered; /* prepared one after the other, in the order of docs_submit */
    int (*run)(struct docs_job *work, struct library *library, struct err *err);
    /* On the loop; frees the work. `why`: it failed, or the library could not be opened. */
    void (*done)(struct docs_job *work, const struct err *why);
    struct arena arena;
    struct library_figures figures;
    struct str *tenants; /* NULL: as before */
    size_t tenant_count;
    bool failed;
    struct err err;
};
/* Takes the work. */
void docs_submit(struct docs_service *service, struct docs_job *work);
void docs_job_free(struct docs_job *work); /* with its arena */

/* A URL or a directory that is read again. A URL: waiting in the queue -> reading its validators ->
 * fetching -> being read and indexed -> waiting for its time. A directory: waiting in the queue ->
 * being read and indexed -> waiting, only after a failure. */
struct docs_remote {
    struct docs_remote *next;
    struct docs_service *service;
    char id[17];
    char *tenant, *package, *location;
    bool is_directory, is_config, is_busy, is_removed;
    int64_t created_ms;
    int64_t due_ms; /* on the boot clock */
    int tries;      /* that failed, one after the other */
    struct gate_call *call;
    struct policy *policy;
    struct str etag, modified, type; /* of the answer; in `arena` */
    struct arena arena;
    struct buf body;
};

struct docs_service {
    struct engine *engine;
    struct pool *pool;    /* of one thread: the one that has the library */
    struct pool *readers; /* wait for processes that read documents */
    struct pool *ordered; /* of one thread: the same, for works that keep their order */
    struct reader_options reader;
    atomic_bool is_stopping;  /* what waits for a process gives up */
    struct library *library;  /* that thread's */
    struct err open_err;      /* the same */
    uint64_t tenants_version; /* the same */
    struct map tenants;       /* that have something to search */
    size_t refusals;          /* posted, not answered yet */
    bool is_open, is_closing;
    bool has_begun; /* sources at start are known, and wait for their turn */
    struct err why; /* it could not be opened */
    struct library_figures figures;
    struct gate *gate;
    struct gate_options *gate_options;
    struct buf dns_servers, ca_file;
    struct docs_remote *remotes;
    size_t busy; /* of them */
    struct timer *timer;
    struct docs_packages *packages; /* that are still to be collected; NULL: none */
    struct embedder *embedder;      /* NULL: no model */
    char model[64];                 /* of the vectors; "": none. Set once */
    int64_t model_due_ms;           /* when it is looked for again, on the boot clock */
    struct timer *embed_timer;      /* set while the embedder is given time to recover */
    bool is_embedding;
    struct map unembedded; /* tenants that get an event when all vectors are there */
};

/* docs_source.c: sources as rows, and reading what is not fetched. */
struct docs_source_spec {
    struct str tenant, kind, package, location;
};
struct docs_source docs_source_row(const struct docs_source_spec *spec, const char *state,
                                   struct str error, int64_t created_ms, struct arena *arena);
/* Pages that were read, for library_put_pages. */
struct docs_pages {
    struct library_page *items;
    size_t count, read;
    struct str left_out; /* those that could not be read, and why */
};
/* What is stored of a source, so that pages that have not changed need not be read. */
struct docs_known {
    struct library_known *items;
    size_t count;
};
/* For `run`. */
int docs_list_known(struct docs_job *work, struct library *library,
                    const struct docs_source_spec *source, struct docs_known *ret_known,
                    struct err *err) MUST_USE;
bool docs_is_known(const struct docs_known *known, struct str path, struct str scope,
                   struct str text);
/* For `prepare`. Pages of one tenant; what is given is in the work's arena. One that is no document
 * is left out and named; the others are not held up by it. Those that are known (may be NULL) are
 * not read. */
int docs_read_pages(struct docs_job *work, const struct docs_upload *uploads, size_t count,
                    const struct docs_known *known, struct docs_pages *ret_pages,
                    struct err *err) MUST_USE;
/* docs_fetch.c */
void docs_watch(struct docs_service *service, const struct docs_source_spec *spec, bool is_config,
                int64_t created_ms);
/* A round of a source is over: the next one comes later. */
void docs_end_round(struct docs_remote *remote, const struct err *why);
struct docs_source_spec docs_remote_spec(const struct docs_remote *remote);
/* How long a source waits that failed `tries` times. */
int64_t docs_retry_ms(const struct docs_service *service, int tries);
void docs_unwatch(struct docs_service *service, struct str id);
void docs_fetch_tick(void *ctx);
int docs_open_gate(struct docs_service *service, struct err *err) MUST_USE;
void docs_close_gate(struct docs_service *service);

/* docs_directory.c: begins a round. */
void docs_read_directory(struct docs_remote *remote);

/* docs_events.c: a source was indexed, or failed; `why`: NULL or the reason. */
void docs_publish_source(struct docs_service *service, const struct docs_source_spec *source,
                         const struct err *why);
/* To the tenants of sources that were indexed since, and to those of all chunks after
 * docs_expect_vectors: all vectors are there. */
void docs_publish_vectors(struct docs_service *service);
void docs_expect_vectors(struct docs_service *service);

/* docs_config.c: those of the configuration are added, those that it has no more are removed. */
struct docs_stored {
    struct arena arena;
    struct map modules; /* struct docs_known, by the row of the session */
};
/* On the library's thread, when it has been opened. */
int docs_list_stored(struct library *library, struct docs_stored *ret_stored,
                     struct err *err) MUST_USE;
void docs_stored_done(struct docs_stored *stored);
/* Takes the arena of `stored`. */
void docs_begin_configured(struct docs_service *service, struct docs_stored *stored);

/* docs_vectors.c */
int docs_open_embedder(struct docs_service *service, struct err *err) MUST_USE;
/* Uses a model that was added since. From time to time. */
void docs_look_for_model(struct docs_service *service);
/* Computes the vectors that are missing, unless that is under way. */
void docs_embed(void *service);
/* The vector of a question, or NULL: without a model, or when it failed. May call at once. */
void docs_embed_query(struct docs_service *service, struct str text,
                      void (*call)(void *ctx, const float *vector), void *ctx);

/* docs_package.c: begins when the snapshot is ready. */
void docs_begin_packages(struct docs_service *service, const struct docs_source_spec *wanted,
                         size_t count);
void docs_packages_tick(struct docs_service *service);
/* Adds the sources that wait, or that failed and are tried again. */
void docs_count_packages(const struct docs_service *service, size_t *waiting, size_t *failed);
void docs_free_packages(struct docs_service *service);
