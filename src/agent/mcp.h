#pragma once

/* One client of the Model Context Protocol, whatever carries its messages.
 *
 * It has a session of the engine: tools work in it, its files are the client's resources. Messages
 * come in as parsed JSON, one or a batch, and go out as text. All of it belongs to the loop's
 * thread. docs/MCP.md lists what is supported. */

#include "engine/caller.h"

struct buf;
struct config;
struct engine;
struct json_t;
struct loop;
struct mcp;

struct mcp_options {
    struct engine *engine;
    const struct config *config;
    struct loop *loop;
    struct engine_caller caller; /* texts are copied */
    struct str session;          /* of the engine; exists or is about to be made */
    bool is_known;               /* it goes on: the client has said hello before */
};

struct mcp_calls {
    /* One message without line breaks. `about` is the id of the request it belongs to, as JSON
     * text; empty when it belongs to none. `is_last`: that request has its answer with it. */
    void (*on_message)(void *ctx, struct str about, bool is_last, struct str json);
};

struct mcp *mcp_new(const struct mcp_options *options, const struct mcp_calls *calls, void *ctx);
/* No call comes after it. What runs is ended; the session is the caller's to delete. */
struct mcp *mcp_free(struct mcp *mcp);
DEFINE_FREEP(mcp)

/* Requests wait for their answer. */
bool mcp_is_busy(const struct mcp *mcp);

/* How many requests it holds, each of which gets its answer through on_message, at once or later;
 * 0 for only notifications and answers. */
size_t mcp_take(struct mcp *mcp, const struct json_t *message);
/* Text that is not JSON at all. */
void mcp_refuse(struct mcp *mcp, const char *why);

/* A subscription whose sandbox went to rest is taken up again: something has woken it. */
void mcp_rewatch(struct mcp *mcp);

/* Whether a revision of the protocol is one that we speak, and one without initialize: requests of
 * those (here "modern") say all about themselves in params._meta. */
bool mcp_speaks(struct str version);
bool mcp_is_modern_version(struct str version);
/* The revision that a modern request names; empty for all others. */
struct str mcp_version_of(const struct json_t *message);
/* Whether it is a request, a notification or an answer at all. */
bool mcp_is_message(const struct json_t *message);
/* The first word of a client. */
bool mcp_is_initialize(const struct json_t *message);
/* A request whose answer is a stream that stays open. */
bool mcp_is_listen(const struct json_t *message);

/* What is wrong with the way a request is asked, before it is looked at: a revision that is not
 * supported, an unknown method. Gives 0, or the HTTP status for it and the whole answer. */
int mcp_find_fault(const struct json_t *message, bool is_modern, struct buf *answer);

enum { MCP_HEADER_MISMATCH = -32020 };
struct mcp_fault {
    int code;
    const char *message;
    const char *data; /* JSON; NULL: none */
};
/* A whole answer; `id` is JSON text, empty when it has none. */
void mcp_put_error(struct buf *answer, struct str id, const struct mcp_fault *fault);
