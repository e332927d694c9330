#pragma once

/* Snapshots from dependencies, for engine/ alone. */

#include "engine/internal.h"

/* Sorted copies in `arena`, and the slug that the list has. INVALID names what is no package. */
int snapshot_dependencies(const struct snapshot_dependency *list, size_t count, struct arena *arena,
                          struct snapshot_dependency **ret_sorted, char ret_slug[32],
                          struct err *err) MUST_USE;

/* Builds what the row `snapshot`, in state `building`, shall be; takes the answer. */
void snapshot_build(struct engine *engine, const struct engine_caller *caller, struct str snapshot,
                    const struct snapshot_dependency *sorted, size_t count, struct answer *answer);
/* The answer waits for a build under way; false when there is none. */
bool snapshot_build_join(struct engine *engine, struct str snapshot, struct answer *answer);

/* snapshot.c: what becomes of the row. */
struct snapshot *snapshot_build_begin(struct engine *engine, struct str tenant, struct str slug,
                                      struct str source, char ret_id[ID_SIZE]);
void snapshot_build_in(struct engine *engine, struct str snapshot, struct str sandbox);
void snapshot_build_progress(struct engine *engine, struct str snapshot, const char *detail);
void snapshot_build_ready(struct engine *engine, struct str snapshot, struct str image,
                          int64_t size, store_done *done, void *ctx);
void snapshot_build_failed(struct engine *engine, struct str snapshot, const struct err *why);
/* The configuration's dependencies: built, found, or failed with a reason in engine->deps. */
void snapshot_build_configured(struct engine *engine);
