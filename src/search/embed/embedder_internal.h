#pragma once

/* Packets between the daemon (embedder.c) and the process (embedder_serve.c), on a socket of
 * packets. The daemon sends a start packet, which is answered once the model is loaded; then texts,
 * each of which is answered by its vector, in any order. */

#include "base/err.h"
#include "search/confine/confine.h"
#include "search/embed/embedder.h"

/* Descriptors of the process. */
enum { EMBEDDER_SOCKET = 3, EMBEDDER_WEIGHTS = 4, EMBEDDER_TOKENIZER = 5 };

/* What the process may do (embedder_calls.c). */
extern const struct confine_list embedder_calls;

/* Texts that the daemon has sent and that are not answered yet, at most. */
enum { EMBEDDER_QUERIES = 16, EMBEDDER_TEXTS = 16, EMBEDDER_SLOTS = 32 };
static_assert(EMBEDDER_QUERIES + EMBEDDER_TEXTS == EMBEDDER_SLOTS, "queries, then texts");

struct embedder_start {
    int32_t threads;
};

struct embedder_started {
    struct err err; /* NONE: ready */
};

struct embedder_ask { /* the text follows */
    uint32_t slot;    /* below EMBEDDER_QUERIES: a query */
};

struct embedder_answer {
    uint32_t slot;
    float vector[EMBED_DIMS];
};
