#pragma once

/* The caller of an engine operation, and the types that all operations share. Part of
 * engine/engine.h. */

#include "base/arena.h"

struct buf;
struct engine;
struct err;

enum {
    ENGINE_NAME_MAX = 64,
    ENGINE_ENV_MAX = 256, /* variables */
    ENGINE_ENV_BYTES = 64 << 10,
    ENGINE_METADATA_MAX = 16 << 10, /* bytes of JSON */
    ENGINE_FORKS_MAX = 64,
    ENGINE_PAGE_MAX = 1000,
    ENGINE_PAGE_DEFAULT = 100,
    ENGINE_CURSOR_SIZE = 24,
};

/* What one tenant may hold at a time; 0 means no limit of its own. */
struct engine_quota {
    int64_t sandboxes, memory_bytes, disk_bytes;
};

/* The caller of an operation. */
struct engine_caller {
    struct str tenant;
    bool is_operator; /* may open private addresses */
    struct engine_quota quota;
    struct str token, token_name; /* of its token, for records; empty: the engine itself */
    bool may_approve;             /* its token has the scope `approve` */
    /* Makes a create repeatable: the same key gives the object that the first call made, CONFLICT
     * when it came with another `request_hash`. Empty for none. */
    struct str key;
    struct str key_scope;    /* the verb and what it is about: each has keys of its own */
    struct str request_hash; /* hex, of the request as it came */
};

struct engine_pair {
    struct str name, value;
};
struct engine_pairs {
    const struct engine_pair *items;
    size_t len;
};
/* A copy whose texts belong to `arena`. */
struct engine_pairs pairs_dup(const struct engine_pairs *pairs, struct arena *arena);

/* A page of a list: the newest last. */
struct engine_page {
    struct str after; /* `next` of the page before; empty for the first */
    size_t limit;     /* 0: ENGINE_PAGE_DEFAULT */
};

typedef void engine_done(void *ctx, const struct err *why);
