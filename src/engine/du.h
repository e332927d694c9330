#pragma once

/* Disk usage of the server, by object. Part of engine/engine.h. */

#include "engine/caller.h"

/* The operator also gets what is shared: `layers` (checkpoints, snapshots, forks), `blobs`,
 * `database`, `cache` and `runtimes`. */
struct du_item {
    const char *kind; /* "sandbox", "volume", "snapshot", "logs", ... */
    struct str id, name, state;
    int64_t bytes;
    struct str path; /* below the data directory; empty: `bytes` is known without looking */
};

/* The items are borrowed, largest first. What cannot be read counts as nothing. */
typedef void du_done(void *ctx, const struct du_item *items, size_t count, const struct err *why);
void engine_du(struct engine *engine, const struct engine_caller *caller, du_done *done, void *ctx);
