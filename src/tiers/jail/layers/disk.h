#pragma once

/* Disks of the tier jail: where the files of its sandboxes are stored (jail/disk/disks.h).
 *
 * All work on a disk runs on one thread, in the order of the requests; `done` is called on the
 * loop's thread. Only the creation of a new disk, which is not referenced yet, runs in parallel, on
 * other threads. A disk that is held, or that a sandbox's row or any image names, is never swept.
 * Every other disk is removed with the next sweep (sweep.c), after the store has forgotten it.
 *
 * A disk has one sandbox that writes to it, its owner, which holds it. Others may use layers of it:
 * to them it is lent. It is mounted while it is held or lent. When its owner is gone, layers that
 * no image names are removed, and the rest stays for as long as an image names it. */

#include "base/buf.h"
#include "base/id.h"
#include "base/map.h"
#include "engine/provider.h"
#include "jail/disk/quota.h"
#include "tiers/jail/layers/sealed.h"

struct disks;

/* The provider's part; NULL where the host cannot limit the size of a directory on disk: then
 * sandboxes write into memory. */
struct jail_disks {
    struct disks *disks;
    enum disk_quota_method method;
    struct pool *pool;
    struct pool *create_pool; /* creates disks */
    struct pool *syncers;     /* of what is synced behind answers */
    struct map held;          /* by id, by its owner */
    struct map lent;          /* by id: struct lending */
    struct map ready;         /* by id: mounted, and no end of that is queued */
    struct map shared;        /* by id: an image may name layers of it */
    struct map trims;         /* by id: may have layers that are no longer named */
    struct map made;          /* made, used or swept in this run and not removed yet */
    struct map going;         /* by name: their removal is queued or under way */
    bool is_reclaiming;       /* the trash is being emptied */
    bool is_reclaim_wanted;   /* and must run once more */
    bool is_stopping;
    bool is_counting;   /* disk_count.c */
    int64_t used_bytes; /* of all sandboxes when they were counted last; -1: not yet */
};

/* `provider->disks` stays NULL, with a line in the log, where there can be none. */
int tier_disks_open(struct provider *provider, struct err *err) MUST_USE;
/* What is under way ends; then, after all else of the provider that blocks, the rest. */
void tier_disks_stop(struct provider *provider);
void tier_disks_close(struct provider *provider);

/* The place's disk has this id from now on, and is held until tier_disk_drop. */
void place_disk_set(struct place *place, struct str id);
void tier_disk_hold(struct provider *provider, const char *id);
/* The disk is no longer in use here: it is unmounted, and removed unless a row names it. Does
 * nothing for "". */
void tier_disk_drop(struct provider *provider, const char *id);
/* The same for a sandbox that will be deleted, or was rolled back, while its jail has not ended
 * yet: if no other place uses the disk, its data need not be synced. */
void tier_disk_abandon(struct provider *provider, const char *id);
/* From now on an image may name layers of it. */
void tier_disk_share(struct provider *provider, const char *id);
/* The owner is gone permanently: unmounts without waiting for a sync. */
void tier_disk_leave(struct provider *provider, const char *id);

/* Mounts each disk that the image names layers of, but `own`, and holds it until it is returned;
 * `lent` notes which. `done` may come at once, and be NULL if the disks are mounted anyway. */
void tier_disks_lend(struct provider *provider, struct str image, const char *own, struct buf *lent,
                     engine_done *done, void *ctx);
/* The same of one disk that is mounted. */
void tier_disks_lend_one(struct provider *provider, const char *id, struct buf *lent);
/* The place that used them has ended. Frees `lent`. */
void tier_disks_return(struct provider *provider, struct buf *lent);
/* The next sweep looks for layers on the disks of this image that are no longer named. */
void tier_disks_trim_soon(struct provider *provider, struct str image);
/* The same of the place's own. */
void tier_disk_trim_soon(struct place *place);
/* Empties /tmp of a place in which nothing runs. */
void tier_disk_clear_tmp(struct place *place, engine_done *done, void *ctx);

/* Creates a disk, or prepares an existing one; fills in `disk` and `disk_layers` of `plan`, which
 * must live until `done`, with strings of `arena`. `sealed` gets a descriptor of each layer below
 * the first, oldest first. */
struct disk_want {
    const char *id;
    struct str image; /* below the disk: layers of the disk that it names are left out */
    bool is_new;
    bool may_miss; /* it may never have been made: then it is */
    struct jail_plan *plan;
    struct arena *arena;
    sealed_layers *sealed;
};
void tier_disk_get(struct provider *provider, const struct disk_want *want, engine_done *done,
                   void *ctx);
/* A spare's disk, if it has one, becomes the place's own, by this id unless that is empty. */
int tier_disk_adopt(struct place *place, struct str id, struct err *err) MUST_USE;
/* Makes what was written to it safe against a power cut. */
void tier_disk_sync(struct place *place, engine_done *done, void *ctx);
/* The same for what was answered already. */
void tier_disk_sync_behind(struct provider *provider, const char *id, engine_done *done, void *ctx);
/* Whether a place other than its owner uses it. */
bool tier_disk_is_lent(const struct provider *provider, const char *id);
/* Another size of a place's disk; see disk_quota_resize. */
void tier_disk_resize(struct place *place, int64_t bytes, engine_done *done, void *ctx);

/* How much of it is used; `ret_use` lives until `done`. */
void tier_disk_stat(struct place *place, struct disk_quota_use *ret_use, engine_done *done,
                    void *ctx);

/* The same at once, from memory. */
int tier_disk_use(const struct place *place, struct disk_quota_use *ret_use,
                  struct err *err) MUST_USE;
/* Bytes used by the disks of all sandboxes, as of the previous call; -1: unknown. */
int64_t tier_disks_count(struct provider *provider);

/* Up to which number layers of a disk are no longer its owner's, by id of the disk. */
void tier_disks_mark(struct provider *provider, struct map *ret_floors);
void tier_disks_unmark(struct map *floors);
/* Removes every disk that is not in `named` and not in use here, and layers of others that are not
 * in `named`; at start, also unmounts the rest. `floors` were read at a time when the store had
 * everything. */
void tier_disks_sweep(struct provider *provider, const struct map *named, const struct map *floors,
                      bool at_start);
