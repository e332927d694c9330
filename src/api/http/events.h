#pragma once

/* A reply that is a stream of events: text/event-stream, or one JSON object a line where the client
 * asks for application/x-ndjson.
 *
 * Every event may carry an id; a client that comes back sends the last one it saw (Last-Event-ID,
 * or the query parameter `after`) and the handler goes on from there. Silence is broken by a
 * heartbeat, so that both sides notice when the other has gone. Belongs to the loop's thread. */

#include "base/buf.h"
#include "io/loop.h"

struct events;
struct request;

enum { EVENTS_HEARTBEAT_MS = 15000 };

struct events_calls {
    /* May be NULL. Room again after events_is_full. */
    void (*on_drain)(void *ctx);
    /* Called once: the client has disconnected, or all was sent after events_end. The stream is
     * freed after this. */
    void (*on_closed)(void *ctx);
    /* It ends with the work that it tells of. When the server stops it has the time of a plain
     * request; other streams end at once. */
    bool ends_itself;
};

/* True when the client wants events rather than one JSON answer. */
bool events_are_asked_for(const struct request *request);
/* What the client has seen already; false when it says nothing. */
bool events_last_id(struct request *request, struct str *ret_id);

/* Begins the reply. `calls` is borrowed. */
struct events *events_new(struct request *request, const struct events_calls *calls, void *ctx);
/* `type` names it, `json` is one value without line breaks, `id` may be empty. A client that lets
 * more than api/http/flow.h's FLOW_MAX wait is cut off. Nothing
 * is sent once the server stops. */
void events_put(struct events *events, const char *type, struct str id, struct str json);
bool events_is_full(const struct events *events);
/* No more will come. */
void events_end(struct events *events);
/* The writer goes away: no call reaches it any more. After events_end, or the client is cut off. */
void events_forget(struct events *events);
