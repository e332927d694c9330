#pragma once

/* The table of doors: method and pattern to handler. `{name}` in a pattern stands for one path
 * segment. Tables end with a row without pattern. */

#include "base/str.h"

struct request;

enum { ROUTE_PARAMS_MAX = 4, ROUTE_BODY_MAX = 16 << 20 };

struct route {
    const char *method;  /* "GET" also serves HEAD */
    const char *pattern; /* "/v1/sandboxes/{id}" */
    void (*handle)(struct request *request, void *ctx);
    const char *summary; /* one line, for the API's own description */
    bool is_open;        /* no token needed; liveness alone */
    size_t body_max;     /* 0 means ROUTE_BODY_MAX */
};

struct route_match {
    const struct route *route; /* NULL: no row fits */
    size_t index;              /* its place in the table */
    bool path_known;           /* some method fits the path */
    char allow[64];            /* "GET, HEAD, OPTIONS": what the path takes */
    struct {
        struct str name, value; /* the value as sent, not decoded */
    } params[ROUTE_PARAMS_MAX];
    size_t param_count;
};

void route_find(const struct route *table, struct str method, struct str path,
                struct route_match *ret_match);
/* Empty when the pattern has no such name. */
struct str route_param(const struct route_match *match, const char *name);
