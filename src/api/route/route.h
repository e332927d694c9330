#pragma once

/* The route table: one row per method and path. From the same rows come dispatch, the check of
 * what is sent, /openapi.json and docs/API.md, so they cannot differ.
 *
 * `{name}` in a pattern matches one path segment, `{name...}` at its end for all that follow.
 * Rows are tried in order: a literal path comes before one with a name in its place. Tables end
 * with a row without pattern. */

#include "base/err.h"
#include "base/str.h"

struct err;
struct json_t;
struct request;

enum { ROUTE_PARAMS_MAX = 4, ROUTE_BODY_MAX = 16 << 20 };

/* What a token must be good for. Zero is the strictest: a row that forgets its scope is safe. */
enum route_scope {
    SCOPE_ADMIN,
    SCOPE_READ,
    SCOPE_RUN,
    SCOPE_FILES,
    SCOPE_APPROVE,
    SCOPE_OPEN, /* no token at all: only liveness */
    SCOPE_COUNT
};
#define SCOPE_BIT(scope) (1U << (scope))
/* "admin", "read", ... */
const char *scope_name(enum route_scope scope);
bool scope_of_name(struct str name, enum route_scope *ret_scope) MUST_USE;

/* One parameter of the query string. */
struct route_query {
    const char *name;
    const char *schema; /* {"type":"integer","minimum":0} */
    const char *help;
};

/* How a body comes in and an answer goes out. */
enum route_form {
    FORM_JSON,   /* whole, application/json */
    FORM_BYTES,  /* any bytes, as they come */
    FORM_TEXT,   /* whole, text/plain */
    FORM_EVENTS, /* text/event-stream, or application/x-ndjson when asked for */
    FORM_EITHER, /* JSON, or events when asked for */
    FORM_SOCKET, /* WebSocket */
    FORM_NONE,   /* no body */
    FORM_PROXY,  /* whatever the other side says */
};

/* JSON as C source: JSON({"type": "object"}) is its text. */
#define JSON(...) #__VA_ARGS__

/* For `errors`: what else may come back, beside what every route may say. */
#define E(name) (UINT64_C(1) << ERR_##name)
static_assert(ERR_COUNT <= 64, "a bit for each");

struct route {
    const char *method;  /* "GET" also serves HEAD; "*" is any */
    const char *pattern; /* "/v1/sandboxes/{id}" */
    void (*handle)(struct request *request, void *ctx);
    const char *summary; /* one line */
    enum route_scope scope;
    const char *noun;                /* its chapter: "sandboxes" */
    const char *details;             /* a paragraph; NULL for none */
    const struct route_query *query; /* ends with a row without name; NULL: takes none */
    const char
        *request; /* JSON Schema of the body, in base/format/schema.h's part of it; NULL: none */
    const char *response;  /* a name of api/route/shapes.h, or a schema; NULL: nothing to say */
    enum route_form takes; /* how the body comes: FORM_JSON is a body only with `request` */
    enum route_form gives;
    int status;      /* of success; 0 is 200 */
    uint64_t errors; /* E(NOT_FOUND) | ... */
    /* What curl gets behind method, token and address: "-d '{}'". NULL: it has no example.
     */
    const char *example;
    size_t body_max; /* 0 means ROUTE_BODY_MAX; of a streamed body: no limit */
    bool is_create;  /* honours Idempotency-Key */
    bool is_signed;  /* a signed URL serves instead of a token */

    /* Filled in by routes_new. */
    struct json_t *schema;
    size_t literal; /* bytes of the pattern before the first '{' */
};

/* The body is handed to the handler as it comes, which is asked at the end of the head. */
static inline bool route_streams(const struct route *route)
{
    return route->takes == FORM_BYTES || route->takes == FORM_PROXY;
}

/* Joins tables, parses their schemas. A schema that is wrong is INVALID, naming its row. */
int routes_new(const struct route *const *tables, struct route **ret_routes,
               struct err *err) MUST_USE;
struct route *routes_free(struct route *routes);

struct route_match {
    const struct route *route; /* NULL: no row fits */
    size_t index;              /* its place in the table */
    bool path_known;           /* some method fits the path */
    char allow[64];            /* where no row fits: "GET, HEAD, OPTIONS" */
    struct {
        struct str name, value; /* the value as sent, not decoded */
    } params[ROUTE_PARAMS_MAX];
    size_t param_count;
};

void route_find(const struct route *table, struct str method, struct str path,
                struct route_match *ret_match);
/* Empty when the pattern has no such name. */
struct str route_param(const struct route_match *match, const char *name);
