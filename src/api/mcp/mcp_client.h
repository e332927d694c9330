#pragma once

/* The clients of the MCP endpoint: each with the messages that wait for an answer, and the stream
 * for what belongs to none of them.
 *
 * Each reply that became a stream has a number, the one opened by GET has 0; events carry it with
 * their own in their id. A client that comes back with the last id it saw gets what it missed, and
 * what still comes. */

#include "api/http/events.h"
#include "api/mcp/mcp_log.h"
#include "api/v1/v1.h"
#include "base/id.h"

/* One POST that waits for its answers. */
struct mcp_post {
    struct mcp_post *next;
    struct mcp_client *client;
    struct request *request; /* NULL once its reply is a stream */
    struct events *events;
    char *id;   /* of its request, as JSON text; NULL when it has none or is answered */
    char *kept; /* the answer, until it is sent */
    uint64_t stream;
    bool is_gone, is_taking;
};

struct mcp_client {
    struct mcp_client *next;
    struct mcp_endpoint *endpoint;
    struct mcp *mcp;
    char session[ID_SIZE];
    char tenant[TENANT_MAX + 1];
    struct mcp_post *posts;
    struct events *stream;
    struct mcp_log log;
    uint64_t streams; /* how many were numbered */
    int64_t used_ms;
    bool is_single; /* of one request, without a session of the protocol */
    bool is_over;   /* of a single one: to be freed */
};

struct mcp_endpoint {
    struct api *api;
    struct mcp_client *clients;
    size_t count;
    struct timer *sweeper;
    struct timer *reaper; /* of single clients; they may end in the middle of their own calls */
};

/* Those of a server; there is no endpoint without them. */
struct mcp_endpoint *mcp_clients_of(struct api *api);
/* One that is idle makes room: its session stays, and it goes on with that when it comes back. No
 * tenant takes the room of all: LIMIT when no client of this tenant is idle. */
int mcp_clients_make_room(struct mcp_endpoint *endpoint, struct str tenant,
                          struct err *err) MUST_USE;

/* `is_known`: it has been here before, and said who it is. */
struct mcp_client *mcp_client_new(struct api *api, const struct engine_caller *caller,
                                  struct str session, bool is_known);
void mcp_client_free(struct mcp_client *client);

/* Takes the message that was posted, and answers it: at once, later, or as a stream. */
void mcp_client_take(struct mcp_client *client, struct request *request);
/* For a stream with the rest of an answer, whose context is its post. */
extern const struct events_calls mcp_post_events;
