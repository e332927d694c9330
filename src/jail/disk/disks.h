#pragma once

/* Disks: where a sandbox's files are stored, each with a size limit that the kernel enforces.
 *
 * A disk is a directory below `disks/` of the data directory:
 *
 *     ID/data              what a jail gets as jail_plan.disk: N/upper, N/work, tmp
 *     ID/quota, disk.img   how its size is limited (jail/disk/quota.h)
 *
 * A disk is created as `.new-ID` and appears with one rename; it is removed with one rename, to the
 * trash. After kill -9 at any point the disk exists completely or not at all, and what was written
 * to it is there. Only the names in a disk say which layers it has: the one with the highest number
 * is writable, the others are below it in order. Layers that an image names
 * (tiers/jail/layers/layers.h) are part of that image for every jail that uses it.
 *
 * Calls may block on the disk: run them on a worker, one at a time per data directory. */

#include "jail/disk/quota.h"
#include "jail/wire/plan.h"

struct disks;
struct err;
struct map;

/* Makes what is missing of the data directory. */
int disks_open(const char *home, struct disks **ret_disks, struct err *err) MUST_USE;
struct disks *disks_free(struct disks *disks);
DEFINE_FREEP(disks)
#define AUTO_DISKS AUTO(disks_freep)

/* Whether this host can limit the size of a directory on disk: tries it. UNSUPPORTED with the
 * reason if not. */
int disks_probe(struct disks *disks, enum disk_quota_method *ret_method, struct err *err) MUST_USE;

/* An empty one, ready to be used. CONFLICT: the id is taken. */
int disks_make(struct disks *disks, const char *id, int64_t bytes, struct err *err) MUST_USE;
/* Gives a disk another id, also while it is used. */
int disks_rename(struct disks *disks, const char *id, const char *to, struct err *err) MUST_USE;
/* Makes a disk ready to be used again, also after a crash, and fills in `disk_layers` of the plan:
 * the layers with a number above `above` (-1: all). The writable layer gets a number above `named`,
 * the highest that an image names, or -1. NOT_FOUND if no such disk exists. */
int disks_attach(struct disks *disks, const char *id, int64_t above, int64_t named,
                 struct jail_plan *plan, struct err *err) MUST_USE;
/* Makes one ready for jails that stand on its layers and write elsewhere. */
int disks_ready(struct disks *disks, const char *id, struct err *err) MUST_USE;
/* Empties `tmp` of one that is ready. */
int disks_clear_tmp(struct disks *disks, const char *id, struct err *err) MUST_USE;
/* The path for jail_plan.disk. */
int disks_path(const struct disks *disks, const char *id, char ret_path[], size_t size,
               struct err *err) MUST_USE;
/* Lets go of what keeps it ready (a loop device and a mount) when no jail uses it. */
int disks_rest(struct disks *disks, const char *id, struct err *err) MUST_USE;
/* The same for every disk: at an orderly end nothing of them stays mounted. What is half made goes
 * to the trash. */
int disks_rest_all(struct disks *disks, struct err *err) MUST_USE;
/* Makes what was written to it safe against a power cut. */
int disks_sync(struct disks *disks, const char *id, struct err *err) MUST_USE;
/* See disk_quota_resize. */
int disks_resize(struct disks *disks, const char *id, int64_t bytes, struct err *err) MUST_USE;
int disks_stat(struct disks *disks, const char *id, struct disk_quota_use *ret_use,
               struct err *err) MUST_USE;
/* Nothing that was written to it will be needed: unwritten data may be dropped. Jails on it get
 * errors from then on. */
void disks_abandon(struct disks *disks, const char *id);
/* Removes the layers up to number `up_to` whose names ("7") `kept` has not, each in one rename;
 * with DISKS_TRIM_ALL also `tmp`: no jail writes to it any more. Fine when there is no such disk.
 */
#define DISKS_TRIM_ALL INT64_MAX
int disks_trim(struct disks *disks, const char *id, int64_t up_to, const struct map *kept,
               struct err *err) MUST_USE;
/* Moves a disk to the trash. Succeeds if it does not exist. */
int disks_remove(struct disks *disks, const char *id, struct err *err) MUST_USE;
/* Frees what was removed; may take long. */
int disks_reclaim(struct disks *disks, struct err *err) MUST_USE;
/* Calls `each` with the name of every disk, also of those half-made (".new-ID"). */
int disks_each(struct disks *disks, int (*each)(void *ctx, const char *name, struct err *err),
               void *ctx, struct err *err) MUST_USE;
