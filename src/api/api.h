#pragma once

/* What handlers get as their `ctx`: the server as they need to know it. */

#include "api/meta.h"
#include "base/hash.h"

struct config;
struct engine;
struct loop;
struct mcp_door;

struct api {
    struct meta meta; /* first: api/meta.c gets it as its own */
    const struct config *config;
    struct engine *engine;
    struct loop *loop;
    struct mcp_door *mcp;                 /* NULL until the first client */
    unsigned char signing_key[HASH_SIZE]; /* of URLs that carry their own permission */
    /* Below which exposed ports have names; "" for none. */
    struct {
        char name[256];
        int port;
        bool is_https;
    } domain;
};
