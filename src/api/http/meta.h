#pragma once

/* The routes about the server itself: liveness, readiness, version, figures,
 * and its own description. */

#include "api/route/route.h"

struct engine;
struct http;
struct metrics;

/* What the handlers get as `ctx`, at its start. */
struct meta {
    const struct http *http;
    struct metrics *metrics;
    const struct route *routes;
    const struct engine *engine;
    bool is_draining;
};

extern const struct route meta_routes[];
