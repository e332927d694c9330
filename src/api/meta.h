#pragma once

/* The doors that speak of the server itself: liveness, readiness, version, figures. */

#include "api/route.h"

struct http;
struct metrics;

/* What the handlers get as `ctx`, at its start. */
struct meta {
    const struct http *http;
    const struct metrics *metrics;
    bool is_draining;
};

extern const struct route meta_routes[];
