#pragma once

/* An HTTP client on the loop (libcurl, included only by fetch_internal.h).
 *
 * It connects to the address that the caller gives and to no other: nothing is resolved, no proxy,
 * no redirect, no cookie, no credential file, no connection kept from another request. Whether the
 * request may be made at all is the caller's question; see egress/gate/gate.h.
 *
 * A peer can make it wait and receive only within the limits; an answer is complete or an error. No
 * content coding is requested or accepted, so nothing is ever decompressed. */

#include "base/str.h"
#include "io/listen.h"

struct fetch;
struct fetcher;
struct loop;

enum {
    FETCH_CONNECT_MS = 5000,
    FETCH_TOTAL_MS = 30000,
    FETCH_BODY_MAX = 4 << 20,
    FETCH_HEAD_MAX = 64 << 10, /* of the answer: status lines and headers, 1xx ones included */
    FETCH_HEADERS_MAX = 256,
    FETCH_SLOW_BYTES = 64,  /* fewer a second, */
    FETCH_SLOW_SECONDS = 8, /* for so long: the peer is too slow */
    FETCH_REQUEST_HEADERS_MAX = 64,
    FETCH_REQUEST_HEAD_MAX = 32 << 10,
    FETCH_REQUEST_BODY_MAX = 8 << 20,
};

struct fetch_header {
    struct str name, value;
};

struct fetch_limits {
    int64_t connect_ms, total_ms; /* 0 for the defaults above, here and below */
    int64_t slow_seconds;
    size_t body_max, head_max;
};

/* Counts all bytes of a fetch, headers and bodies, before TLS. Called from within libcurl: the
 * call-back must not free the fetch. */
struct fetch_meter {
    bool (*may_move)(void *ctx); /* false: the fetch waits for fetch_resume */
    /* -1, with the reason: it ends. */
    int (*moved)(void *ctx, size_t bytes, bool is_sent, struct err *err);
    size_t piece_max; /* read at once; 0 for the default */
    void *ctx;
};

struct fetch_request {
    bool is_https;
    struct str host; /* canonical; IPv6 in brackets. Named in Host and checked in the certificate */
    uint16_t port;   /* as in the URL */
    struct addr address; /* where to connect, port included */
    struct str target;   /* path and query */
    struct str method;
    const struct fetch_header *headers;
    size_t header_count;
    struct str body; /* all borrowed until fetch_start returns */
    struct fetch_limits limits;
    const struct fetch_meter *meter; /* may be NULL; outlives the fetch */
};

struct fetch_answer {
    int status;
    struct str status_text;
    const struct fetch_header *headers; /* names in lower case, in their order */
    size_t header_count;
    struct str body;
};

/* `ca_file` holds the roots that TLS trusts; NULL for the system's. The first one makes the process
 * ignore SIGPIPE, unless it has a handler. */
int fetcher_open(struct loop *loop, const char *ca_file, struct fetcher **ret_fetcher,
                 struct err *err) MUST_USE;
/* After every fetch of it was freed. */
struct fetcher *fetcher_free(struct fetcher *fetcher);
DEFINE_FREEP(fetcher)
#define AUTO_FETCHER AUTO(fetcher_freep)

/* What a client may not write: the framing of the request is ours. INVALID, with what is wrong.
 * Accept-Encoding is not refused but replaced. */
int fetch_check_method(struct str method, struct err *err) MUST_USE;
int fetch_check_header(struct str name, struct str value, struct err *err) MUST_USE;

/* INVALID for a method or header that is refused. `done` comes once, later: with an answer that
 * lives until fetch_free, or with why not: TIMEOUT, TOO_LARGE, UNAVAILABLE (no connection, broken
 * answer), FORBIDDEN (certificate). */
int fetch_start(struct fetcher *fetcher, const struct fetch_request *request,
                void (*done)(void *ctx, const struct fetch_answer *answer, const struct err *why),
                void *ctx, struct fetch **ret_fetch, struct err *err) MUST_USE;
/* Also in `done`, and before it: then the connection is closed and `done` never comes. */
struct fetch *fetch_free(struct fetch *fetch);
DEFINE_FREEP(fetch)
void fetch_resume(struct fetch *fetch); /* after the meter said no */
/* After an error: no connection came about, so nothing was sent and another address may be tried.
 */
bool fetch_never_connected(const struct fetch *fetch);
