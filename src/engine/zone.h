#pragma once

/* Zones: directories of this machine that the configuration gives out by name ([zones.NAME], see
 * docs/ZONES.md). Part of engine/engine.h.
 *
 * A request names such a set and a path like /workspace/a, never a directory. This process opens
 * nothing there: each set has a worker, `sandglass fs serve`, that can access only its directories.
 * The worker starts with the first request, answers requests in order, and ends when it has been
 * idle for a while. */

#include "engine/caller.h"

struct buf;

enum { ZONE_FILE_MAX = 32 << 20 }; /* bytes of one file, read or written */

struct zone_set {
    struct str name;
    bool has_workspace, has_cache, read_only;
};
struct zone_sets {
    const struct zone_set *items;
    size_t count;
};
/* Those that the caller may use; they belong to `arena`. */
int engine_zone_list(struct engine *engine, const struct engine_caller *caller, struct arena *arena,
                     struct zone_sets *ret_sets, struct err *err) MUST_USE;

/* `verb` and `data` as files/zones/zones.h has them. */
struct zone_question {
    struct str set;
    const char *verb;
    struct str path, data;
};
/* `answer` may be taken; NULL with `why`. */
typedef void zone_done(void *ctx, struct buf *answer, const struct err *why);
/* NOT_FOUND for a set of zones that does not exist or is not the caller's, UNAVAILABLE with the
 * worker's reason when it cannot be reached, TIMEOUT, BUSY while too many requests wait; and the
 * errors of the verb. */
void engine_zone_ask(struct engine *engine, const struct engine_caller *caller,
                     const struct zone_question *question, zone_done *done, void *ctx);
