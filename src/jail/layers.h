#pragma once

/* The layers of sandboxes on disk: checkpoint, rollback and fork without copying a file.
 *
 * A sandbox is a directory below `sandboxes/` of the data directory:
 *
 *     ID/layers/N-PARENT/upper   one layer's files; N counts up, the highest takes the writes
 *     ID/layers/N-PARENT/work    overlayfs's own
 *     ID/layers/.spare, .trash   the next layer, made ahead; what was dropped
 *     ID/lower/NNN               link that names a snapshot below the first layer, lowest first
 *     ID/users/N.OTHER           OTHER was forked from layer N: the layer must stay
 *     ID/quota, ID/disk.img      how its size is limited (jail/quota.h)
 *     ID/gone                    destroyed, kept only for those that were forked from it
 *
 * PARENT is 0 (nothing but snapshots below), a number of the same sandbox, or OTHER.NUMBER. Names
 * alone say which layers there are and in which order: there is no list that could disagree with
 * them. Each verb prepares under a name that means nothing and takes effect with one rename, so
 * that after kill -9 at any point the old stack or the new one is there. A power cut can also take
 * back the last moments, unless layers_sync was called.
 *
 * A frozen layer is never written again. Layers that no stack needs any more are moved to a trash
 * directory, which layers_reclaim empties when there is time.
 *
 * Calls may block on the disk, so a daemon runs them on a worker, one at a time per data directory.
 * Short, when layers_stock and layers_reclaim have been called before: create, checkpoint,
 * rollback, fork, plan, list. As long as what they have to do: a limit on disk, destroy with a
 * limit, sync, stock, reclaim, recover. */

#include "jail/plan.h"
#include "jail/quota.h"

struct arena;
struct err;
struct layers;

enum {
    LAYERS_ID_SIZE = 65,      /* of a sandbox, with its end */
    LAYERS_DEPTH_MAX = 100,   /* layers in one stack, snapshots not counted */
    LAYERS_SNAPSHOTS_MAX = 27 /* with the writable one, both fit into JAIL_LAYERS_MAX */
};

/* Makes what is missing of the data directory. */
int layers_open(const char *home, struct layers **ret_layers, struct err *err) MUST_USE;
struct layers *layers_free(struct layers *layers);
DEFINE_FREEP(layers)
#define AUTO_LAYERS AUTO(layers_freep)

/* A sandbox with an empty writable layer above these snapshots (names in `snapshots/`, lowest
 * first, NULL behind the last; NULL: none). `limit` may be NULL. CONFLICT when the id is taken. */
int layers_create(struct layers *layers, const char *id, const char *const *snapshots,
                  const struct quota_limit *limit, struct err *err) MUST_USE;

/* Sets `layers` and `upper` of the plan; the strings belong to `arena`. The sandbox must not be
 * running: what overlayfs left behind is cleared away. */
int layers_plan(struct layers *layers, const char *id, struct arena *arena, struct jail_plan *plan,
                struct err *err) MUST_USE;

/* Freezes the writable layer under the number that it gives, and puts an empty one on top. For a
 * running jail see jail/layers_live.h. LIMIT: too many layers. */
int layers_checkpoint(struct layers *layers, const char *id, uint32_t *ret_number,
                      struct err *err) MUST_USE;
/* Takes the newest checkpoint back, with whatever was written since: its layer takes the writes
 * again. */
int layers_withdraw(struct layers *layers, const char *id, struct err *err) MUST_USE;
/* Drops everything newer than the checkpoint; 0: as the sandbox began. NOT_FOUND: no such
 * checkpoint. The sandbox must not be running. */
int layers_rollback(struct layers *layers, const char *id, uint32_t number,
                    struct err *err) MUST_USE;
/* A new sandbox on top of a checkpoint of another. Neither sees what the other writes from then
 * on. Either may be destroyed first. */
int layers_fork(struct layers *layers, const char *id, uint32_t number, const char *new_id,
                const struct quota_limit *limit, struct err *err) MUST_USE;
int layers_destroy(struct layers *layers, const char *id, struct err *err) MUST_USE;

/* The checkpoints that the sandbox can go back to, oldest first. Gives their count. */
int layers_list(struct layers *layers, const char *id, uint32_t numbers[LAYERS_DEPTH_MAX],
                struct err *err) MUST_USE;

/* Makes a sandbox, everything written to it so far included, safe against a power cut. */
int layers_sync(struct layers *layers, const char *id, struct err *err) MUST_USE;
/* Keeps `count` sandboxes made ahead, for layers_create and layers_fork without a limit: a new
 * directory costs a read of the disk. Call when there is time. */
int layers_stock(struct layers *layers, size_t count, struct err *err) MUST_USE;
/* Frees what was dropped and makes the spare layer that the next checkpoint takes; may take long.
 * With NULL: of all. */
int layers_reclaim(struct layers *layers, const char *id, struct err *err) MUST_USE;
/* After a start: finishes or undoes what a crash interrupted and brings limits back that a reboot
 * took. Nothing may be running. A second run changes nothing. Goes on past a sandbox that cannot be
 * brought back, and then fails with the first reason. */
int layers_recover(struct layers *layers, struct err *err) MUST_USE;
