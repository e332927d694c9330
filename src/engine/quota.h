#pragma once

/* What one tenant may hold: counts, memory, and room on the disk. Only for engine/. */

#include "engine/caller.h"

/* Disk that a work may need, whose size is known when it is done; see quota.c. All zero: none. */
struct reservation {
    struct reservation *next;
    struct engine *engine;
    char *tenant;
    struct engine_quota quota;
    int64_t most_bytes, bytes; /* what it may need, and what it got */
    bool is_waiting;           /* for another work of its tenant */
    void (*call)(void *ctx, const struct err *why);
    void *ctx;
};

/* quota.c. LIMIT when the caller's tenant would hold too much with so much `more`. */
int quota_check(const struct engine *engine, const struct engine_caller *caller,
                const struct engine_quota *more, struct err *err) MUST_USE;
/* Before a work that may need `most_bytes` (0: not known) of disk. Calls once, perhaps before it
 * returns: NULL when the work may begin, LIMIT when nothing is left. It waits while other such
 * works of the tenant run and the room may not be enough for all. quota_release is owed in any
 * case. */
void quota_reserve(struct engine *engine, const struct engine_caller *caller, int64_t most_bytes,
                   struct reservation *asked, void (*call)(void *ctx, const struct err *why),
                   void *ctx);
/* When what was made has been counted, and before it is recorded: LIMIT when the tenant holds too
 * much with it. Then it is to be dropped. */
int quota_settle(struct reservation *asked, struct err *err) MUST_USE;
void quota_release(struct reservation *asked); /* also of one that was never asked for */
/* LIMIT when the tenant would have more of them than the configuration's [limits] allow. */
enum quota_kind {
    QUOTA_SANDBOXES,
    QUOTA_SESSIONS,
    QUOTA_VOLUMES,
    QUOTA_SNAPSHOTS,
    QUOTA_CHECKPOINTS,
    QUOTA_APPROVALS
};
int quota_check_count(const struct engine *engine, struct str tenant, enum quota_kind kind,
                      struct err *err) MUST_USE;
