#pragma once

/* A snapshot as the engine keeps it, for snapshot.c and snapshot_make.c. */

#include "engine/snapshot_build.h"

/* The tenant of what the configuration asks for; no caller's name has a blank. */
#define CONFIGURED "the configuration"

/* While it is built, the image names the sandbox that it is built in. */
#define BUILT_IN "sandbox/"

struct snapshot {
    struct engine *engine;
    struct snapshot_info info;
    struct arena arena;
    struct buf image;
    char detail[ERR_MSG_MAX];
    int64_t ord;
    struct key_claim *claim; /* of the call that makes it, until it is recorded */
    bool is_deleting;
};

struct snapshot *snapshot_new(struct engine *engine, struct str id, struct str tenant,
                              struct str slug, struct str source);
struct snapshot *snapshot_free(struct snapshot *snapshot);
void snapshot_save(const struct snapshot *snapshot, struct store_batch *batch);
/* By id or slug; the configuration's are everybody's. NULL with NOT_FOUND. */
struct snapshot *snapshot_find(struct engine *engine, struct str tenant, struct str name,
                               struct err *err) MUST_USE;
bool snapshot_is_there(struct engine *engine, struct str id);
/* What the outside sees of it. */
struct snapshot_info snapshot_view(const struct snapshot *snapshot);
