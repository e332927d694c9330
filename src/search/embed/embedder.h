#pragma once

/* Embeddings for the daemon: a confined process that holds the model.
 *
 * The process is started by the first request, ends after a time without any, and is started again
 * after a crash; a request that it crashed with is sent once more. It has no network, no files but
 * the two of the model, no other programs, and a low priority. Queries are answered before
 * background texts: a query waits for a few milliseconds of background work at most.
 *
 * Belongs to the loop's thread and never blocks it. */

#include "search/embed/model.h"

struct embedder;
struct loop;

enum {
    EMBEDDER_TEXTS_MAX = 256,        /* of one request */
    EMBEDDER_REQUESTS_MAX = 1024,    /* that wait */
    EMBEDDER_PENDING_MAX = 16 << 20, /* bytes of texts that wait, of all requests */
    EMBEDDER_IDLE_DEFAULT_MS = 60000,
};

struct embedder_options {
    const char *model_dir; /* copied; need not exist yet: it is looked at when the process starts */
    const char *program;   /* whose main calls embedder_main; NULL: "/proc/self/exe" */
    int threads;           /* 0: one for each processor, at most 4 */
    int64_t idle_ms;       /* 0: EMBEDDER_IDLE_DEFAULT_MS */
};

/* Starts nothing yet. */
int embedder_open(struct loop *loop, const struct embedder_options *options,
                  struct embedder **ret_embedder, struct err *err) MUST_USE;
/* Ends the process. Requests that wait are answered with CANCELED, from within. Not from inside a
 * call-back of the embedder. */
struct embedder *embedder_close(struct embedder *embedder);

enum embed_priority { EMBED_QUERY, EMBED_BACKGROUND };

/* `vectors` holds EMBED_DIMS floats of length one for each text, in the order of the texts, and is
 * only valid during the call; or `err` says why there are none: UNAVAILABLE (the process could not
 * be started, or ended twice with this request), NOT_FOUND (no model), INVALID (a damaged model),
 * CANCELED. The other one is NULL. */
typedef void embedder_call(void *ctx, const float *vectors, const struct err *err);

/* Copies the texts. `call` comes exactly once, later, unless this fails: TOO_LARGE for too many
 * texts, LIMIT when too much waits already, NOT_FOUND without a model. */
int embedder_embed(struct embedder *embedder, const struct str *texts, size_t count,
                   enum embed_priority priority, embedder_call *call, void *ctx,
                   struct err *err) MUST_USE;

/* The process itself: argv[0] of the program, whose main calls embedder_main then. */
#define EMBEDDER_PROGRAM "sandglass-embedder"
int embedder_main(void);
