#pragma once

/* Snapshots from dependencies, only for engine/. */

#include "base/id.h"
#include "engine/snapshot/snapshot.h"
#include "store/store.h"

struct answer;

/* snapshot_dependencies.c: a package of PyPI, not of npm. */
bool snapshot_is_python(struct str package);
/* Sorted copies in `arena`, and the slug that the list has. INVALID names what is no package. */
int snapshot_dependencies(const struct snapshot_dependency *list, size_t count, struct arena *arena,
                          struct snapshot_dependency **ret_sorted, char ret_slug[32],
                          struct err *err) MUST_USE;

struct build_how {
    bool needs_bundles; /* for isolates */
    bool may_leave_out; /* what cannot be installed; else the build fails */
};
/* Builds the contents of the row `snapshot`, in state `building`; takes the answer. */
void snapshot_build(struct engine *engine, const struct engine_caller *caller, struct str snapshot,
                    const struct snapshot_dependency *sorted, size_t count, struct build_how how,
                    struct answer *answer);
/* Makes the answer wait for a build in progress; false if no build is in progress. */
bool snapshot_build_join(struct engine *engine, struct str snapshot, struct answer *answer);

/* snapshot_packages.c: what the build's sandbox tells of the packages, as lines of JSON. */
void snapshot_set_packages(struct engine *engine, struct str snapshot, struct str lines);
/* Gives the lines without the bundles that an isolate cannot load. */
void snapshot_check_bundles(struct engine *engine, const struct engine_caller *caller,
                            struct str lines, void (*done)(void *ctx, struct str lines), void *ctx);
/* What an isolate imports by the package's name; the bundle is borrowed. */
struct isolate_module snapshot_module(const struct snapshot_package *package, struct arena *arena);

/* snapshot_make.c: what becomes of the row. */
struct snapshot *snapshot_build_begin(struct engine *engine, struct str tenant, struct str slug,
                                      struct str source, char ret_id[ID_SIZE]);
void snapshot_build_in(struct engine *engine, struct str snapshot, struct str sandbox);
void snapshot_build_progress(struct engine *engine, struct str snapshot, const char *detail);
void snapshot_build_ready(struct engine *engine, struct str snapshot, struct str image,
                          int64_t size, store_done *done, void *ctx);
void snapshot_build_failed(struct engine *engine, struct str snapshot, const struct err *why);
/* The snapshot of the configuration's dependencies; NULL: none. */
const struct snapshot_info *snapshot_configured(const struct engine *engine);
/* snapshot_configured.c: the configuration's dependencies: built, found, or failed with a reason in
 * engine->dependencies. */
void snapshot_build_configured(struct engine *engine);
