#pragma once

/* A reply whose bytes come over time, with back-pressure: the writer is notified when the client
 * does not keep up, and memory stays flat whatever the length.
 *
 * A flow lives until `on_closed`, which comes exactly once: when all was sent after flow_finish, or
 * when the client has gone. Belongs to the loop's thread. */

#include "base/str.h"

struct err;
struct request;

enum {
    FLOW_HIGH_WATER = 256 << 10, /* unsent bytes from which the writer should wait */
    FLOW_LOW_WATER = 64 << 10,   /* on_drain comes when unsent bytes fall to this */
    FLOW_MAX = 4 << 20,          /* unsent bytes at which flow_write refuses */
};

struct flow_calls {
    /* May be NULL. Room again after flow_is_full said so. */
    void (*on_drain)(void *ctx);
    /* The flow is not there any more. */
    void (*on_closed)(void *ctx);
    /* May be NULL. The server is stopping: say a last word and finish, or go on until the call with
     * `is_last`. */
    void (*on_stop)(void *ctx, bool is_last);
};

struct flow;

/* Begins the reply. `length` is the whole body's, -1 when unknown. `calls` is borrowed. */
struct flow *reply_flow(struct request *request, int status, const char *content_type,
                        int64_t length, const struct flow_calls *calls, void *ctx);
/* TOO_LARGE past FLOW_MAX: then nothing of it is queued. */
int flow_write(struct flow *flow, struct str bytes, struct err *err) MUST_USE;
bool flow_is_full(const struct flow *flow);
size_t flow_unsent(const struct flow *flow);
void flow_finish(struct flow *flow);
/* Cuts the connection, so that the client sees that something is missing. */
void flow_break(struct flow *flow);

/* For http.c. */

/* Takes up to `max` bytes into `out`; 0: none are there now. */
size_t flow_take(struct flow *flow, char *out, size_t max);
bool flow_is_done(const struct flow *flow); /* finished, and nothing is left */
bool flow_is_broken(const struct flow *flow);
int64_t flow_length(const struct flow *flow);
void flow_stop(struct flow *flow, bool is_last);
/* Calls on_closed and frees it. */
struct flow *flow_free(struct flow *flow);
