#pragma once

/* One client's HTTP/1.1 conversation with one host, looked into: the plain text between the TLS
 * ends of a connection that was opened, or an unencrypted one. No sockets: bytes are fed and
 * drained.
 *
 *     client --rewrite_from_client--> [ rewrite ] --to_server--> server
 *     client <------to_client-------- [ rewrite ] <--rewrite_from_server-- server
 *
 * Requests are parsed strictly (http1.h), must be for this very host, are judged one by one by
 * method and path, and are rewritten: placeholders in the headers that secrets name become values,
 * if the connection is https and the secret is bound to it. Bodies pass as they are. Answers are
 * rewritten too, and scrubbed of the values (scrub.h) in headers and body.
 *
 * So that values can be found, hosts with secrets are asked for identity encoding, and an answer in
 * another is refused. A body that is scrubbed may change its length: up to REWRITE_BUFFERED it is
 * collected first and its Content-Length corrected, beyond that it is sent in chunks (until the
 * close, to HTTP/1.0 clients).
 *
 * One exchange at a time: a client may pipeline, but the next request is taken up when the answer
 * to the last is complete. After "101 Switching Protocols" to a WebSocket request bytes pass both
 * ways, values in the host's frames masked at the same length. */

#include "egress/policy/host.h"
#include "egress/policy/verdict.h"

struct rewrite;
struct secrets;

enum {
    REWRITE_HEAD_MAX = 64 << 10, /* of a request or an answer */
    REWRITE_REQUEST_FIELDS_MAX = 128,
    REWRITE_ANSWER_FIELDS_MAX = 256,
    REWRITE_INTERIM_MAX = 16, /* 1xx answers to one request */
    REWRITE_BUFFERED = 64 << 10,
};

struct rewrite_options {
    const struct secrets *secrets; /* outlives it; NULL for none */
    struct host host;
    uint16_t port;
    bool is_https;
    bool is_single; /* the connection is closed after one exchange: for proxies, whose clients would
                       ask for another host on the same connection */
    size_t head_max;     /* 0 for REWRITE_HEAD_MAX */
    uint64_t answer_max; /* bytes of an answer's body; 0: no limit */
    /* May this request be made? NULL: all may. The path has no query. */
    struct verdict (*judge)(void *ctx, struct str method, struct str path);
    void *ctx;
};

struct rewrite *rewrite_new(const struct rewrite_options *options);
struct rewrite *rewrite_free(struct rewrite *rewrite);
DEFINE_FREEP(rewrite)
#define AUTO_REWRITE AUTO(rewrite_freep)

/* Bytes from the client; gives how many were taken. Fewer than all: a pipelined request waits, so
 * offer the rest again after the next call of rewrite_from_server, and read no more until then. */
size_t rewrite_from_client(struct rewrite *rewrite, struct str bytes);
/* Bytes from the server, all taken. */
void rewrite_from_server(struct rewrite *rewrite, struct str bytes);
/* The server closed its side: in order (a FIN, with TLS a goodbye before it), or was cut off. */
void rewrite_server_ended(struct rewrite *rewrite, bool in_order);

/* What waits to be sent. The caller sends and drops it with buf_consume, and stops feeding while
 * much is waiting. What goes to the server may hold values and is wiped when dropped. */
struct buf *rewrite_to_server(struct rewrite *rewrite);
struct buf *rewrite_to_client(struct rewrite *rewrite);

/* Answers the request at hand from here (a host that cannot be reached, a limit), and ends. Without
 * a request at hand, or once the server's answer has begun, the client is just cut off. `reason` is
 * one word for programs. */
void rewrite_fail(struct rewrite *rewrite, int status, const char *reason, const char *text);

/* An answer of the gate itself, for refusals outside of a conversation. */
void rewrite_put_refusal(int status, const char *reason, const char *text, bool is_head,
                         struct buf *out);

/* No more will come: send what waits and close both sides. `is_cut`: the answer is incomplete, and
 * the client must see that (no TLS goodbye, a reset). */
bool rewrite_is_over(const struct rewrite *rewrite);
bool rewrite_is_cut(const struct rewrite *rewrite);
/* Between exchanges: only an idle time limit applies. */
bool rewrite_is_idle(const struct rewrite *rewrite);
/* Bytes pass unread: a WebSocket. */
bool rewrite_is_passing(const struct rewrite *rewrite);
/* Why the last request was refused or the conversation ended, for a log: holds nothing of heads or
 * bodies. "" when all was well. */
const char *rewrite_why(const struct rewrite *rewrite);
/* The reason that was sent to a refused client, as in REWRITE_HOST_MISMATCH; NULL if it was not
 * refused. */
const char *rewrite_reason(const struct rewrite *rewrite);
#define REWRITE_HOST_MISMATCH "host_mismatch"
