#pragma once

/* One HTTP request and its answer, as handlers see it; nothing here knows the HTTP library.
 *
 * A request belongs to the loop's thread. It lives until its answer was sent or its client has
 * gone after the answer was given: a handler that replies later calls request_hold first, and may
 * count on the request until it replies. Every request gets exactly one reply. */

#include "api/route.h"
#include "base/arena.h"
#include "base/buf.h"

struct err;
struct guard;
struct json_t;
struct sockaddr;

enum { REQUEST_HEADERS_MAX = 128, REQUEST_ID_MAX = 64, REPLY_HEADERS_MAX = 8 };

struct request_header {
    struct str name, value;
};

struct request {
    struct arena arena; /* for whatever lives as long as the request */
    char id[REQUEST_ID_MAX + 1];
    struct str method;
    struct str target; /* as sent */
    struct str path;   /* of the target, not decoded */
    struct str query;  /* behind the '?', not decoded */
    struct request_header headers[REQUEST_HEADERS_MAX];
    size_t header_count;
    struct buf body;
    const struct sockaddr *peer; /* NULL when unknown */
    struct route_match match;
    int64_t start_ns;

    /* The reply, for http.c to send. */
    bool is_held, has_reply, must_close;
    int status;
    const char *content_type;
    struct buf reply;
    struct request_header reply_headers[REPLY_HEADERS_MAX];
    size_t reply_header_count;
    struct http *http;
    void *connection;
};

/* What decides before a handler is asked. */
struct request_rules {
    const struct route *routes;
    void *ctx;                  /* for handlers and check_token */
    const char *const *hosts;   /* what Host may say, with port; ends with NULL */
    const char *const *origins; /* what Origin may say; ends with NULL */
    bool (*check_token)(void *ctx, struct str token);
    struct guard *guard; /* counts wrong tokens; NULL: nobody does */
    bool is_draining;
};

/* Empty when absent. Names in any case. */
struct str request_header(const struct request *request, const char *name);
/* Decoded into the arena; false when absent. INVALID (with a reply) is left to the caller's own
 * check of the value: bytes that are no valid %-form stay as they are. */
bool request_query(struct request *request, const char *name, struct str *ret_value);
struct str request_param(const struct request *request, const char *name);
/* The body as JSON: MEDIA_TYPE unless Content-Type is application/json. */
int request_json(const struct request *request, struct json_t **ret_value,
                 struct err *err) MUST_USE;

/* The reply comes later, from another call-back on the loop. */
void request_hold(struct request *request);
/* Takes what `body` holds. */
void reply_body(struct request *request, int status, const char *content_type, struct buf *body);
void reply_json(struct request *request, int status, struct buf *json);
void reply_text(struct request *request, int status, const char *text);
/* {"error":{"code","message","requestId"}}, status from the one table. */
void reply_error(struct request *request, const struct err *err);
/* Before the reply. The value is copied. */
void reply_header(struct request *request, const char *name, struct str value);

/* For http.c. */

/* Head complete: finds the route and checks Host, Origin, token. May reply. */
void request_begin(struct request *request, const struct request_rules *rules);
/* Body complete: calls the handler. */
void request_dispatch(struct request *request, const struct request_rules *rules);
void request_done(struct request *request);
/* The error body that every refusal carries. */
void error_body(struct buf *out, const char *code, const char *message, const char *request_id);
