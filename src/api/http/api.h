#pragma once

/* What handlers get as their `ctx`: the server as they need to know it. */

#include "api/http/meta.h"
#include "base/crypto/hash.h"

struct config;
struct engine;
struct loop;
struct mcp_endpoint;

struct api {
    struct meta meta; /* first: api/http/meta.c gets it as its own */
    const struct config *config;
    struct engine *engine;
    struct loop *loop;
    struct mcp_endpoint *mcp;             /* NULL until the first client */
    unsigned char signing_key[HASH_SIZE]; /* of URLs that carry their own permission */
    /* Below which exposed ports have names; "" for none. */
    struct {
        char name[256];
        int port;
        bool is_https;
    } domain;
};
