#pragma once

/* The HTTP/1.1 server (libmicrohttpd, included only in http.c), driven by the loop.
 *
 * Bytes of every connection pass api/http/strict.h before the library reads them. Belongs to the
 * loop's thread. */

#include <sys/socket.h>

#include "api/http/request.h"
#include "io/loop.h"

struct http;
struct metrics;

struct http_options {
    struct request_rules rules;
    struct metrics *metrics;  /* borrowed; may be NULL */
    unsigned connections_max; /* 0: HTTP_CONNECTIONS_MAX, and so on */
    unsigned per_address_max;
    int64_t head_ms;        /* a head must be complete within this */
    int64_t body_idle_ms;   /* without a byte; also the span over which HTTP_BODY_RATE counts */
    int64_t keep_alive_ms;  /* between two requests */
    int64_t reader_idle_ms; /* for a client to take more of a stream or a file; 0: no limit */
};

enum {
    HTTP_CONNECTIONS_MAX = 1024,
    HTTP_PER_ADDRESS_MAX = 64,
    HTTP_HEAD_MS = 10000,
    HTTP_BODY_IDLE_MS = 30000,
    HTTP_KEEP_ALIVE_MS = 60000,
    HTTP_BODY_RATE = 1024, /* bytes a second */
};

/* Takes `listen_fd` on success; -1 for none (only http_add_connection). */
int http_open(struct loop *loop, int listen_fd, const struct http_options *options,
              struct http **ret_http, struct err *err) MUST_USE;
/* Cuts every connection. No request may be held. */
struct http *http_free(struct http *http);
DEFINE_FREEP(http)

/* Serves a connected socket; takes `fd` on success. */
int http_add_connection(struct http *http, int fd, const struct sockaddr *peer, socklen_t peer_len,
                        struct err *err) MUST_USE;

/* Takes no more connections and answers new requests with 503; `call` comes once no request is
 * running any more. Liveness goes on being answered on connections that are open. */
void http_drain(struct http *http, void (*call)(void *ctx), void *ctx);
/* After that: streams that were given time end, too. */
void http_end_streams(struct http *http);

struct http_counts {
    size_t connections, running;
    uint64_t accepted, refused; /* connections so far; requests refused as malformed or too slow */
};
struct http_counts http_counts(const struct http *http);

struct loop *http_loop(const struct http *http);

/* For request.c and flow.c: a held request has got its reply, a sink takes bytes again, a flow has
 * got some. */
void http_resume(struct request *request);
/* For who got a connection by reply_upgrade: it is closed, and the request ends. */
void http_upgrade_done(struct request *request);
