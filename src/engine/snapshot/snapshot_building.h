#pragma once

/* A build of a snapshot from dependencies, for snapshot_build.c and snapshot_install.c. */

#include "base/err.h"
#include "base/id.h"
#include "base/vec.h"
#include "egress/net/groups.h"
#include "engine/caller.h"
#include "engine/snapshot/snapshot_build.h"
#include "io/pool.h"

enum { BUILD_MEMORY_MIB = 2 << 10 }; /* the files too lie in memory */

/* What became of one of the packages. */
struct outcome {
    bool is_installed;
    struct str failure; /* why it was left out; empty: it was not */
};

struct building {
    struct job job; /* first */
    struct building *next;
    struct engine *engine;
    char snapshot[ID_SIZE], sandbox[ID_SIZE];
    struct arena arena;
    struct engine_caller caller;
    struct snapshot_dependency *list;
    struct outcome *outcomes; /* of each */
    size_t count;
    struct group_hosts hosts;
    size_t step; /* of snapshot_install.c */
    bool needs_bundles, may_leave_out;
    bool is_one_by_one;   /* in this step */
    size_t trying;        /* which one, then */
    struct buf described; /* lines of JSON, one for each package */
    struct exec *exec;
    struct timer *timer;
    struct buf tail;
    bool is_late;
    bool is_working; /* in its sandbox */
    int result;
    struct err err;
    VEC(struct answer *) answers;
};

/* snapshot_install.c: installs, and ends with building_freeze or building_fail. */
void building_run_step(struct building *building);
/* The installer runs for too long. */
void building_on_time(void *ctx);
/* snapshot_build.c: what the sandbox holds is the snapshot. */
void building_freeze(struct building *building);
void building_fail(struct building *building, const struct err *why);
