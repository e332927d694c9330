#pragma once

/* Volumes: directories that outlive sandboxes, with a capacity that the kernel enforces.
 *
 * A volume is a directory below `volumes/` of the data directory:
 *
 *     ID/data              what /workspace shows
 *     ID/quota, disk.img   how its size is limited (jail/disk/quota.h)
 *
 * A volume is created as `.new-ID` and appears with one rename; it is removed with one rename, to
 * the trash. After kill -9 at any point the volume exists completely or not at all. Volumes are not
 * part of any checkpoint. Nothing here keeps two sandboxes from writing to one volume: the caller
 * must.
 *
 * Calls may block on the disk (an image takes milliseconds): run them on a worker, one at a time
 * per data directory. */

#include "jail/disk/quota.h"

struct err;
struct volumes;

/* Makes what is missing of the data directory. */
int volumes_open(const char *home, struct volumes **ret_volumes, struct err *err) MUST_USE;
struct volumes *volumes_free(struct volumes *volumes);
DEFINE_FREEP(volumes)
#define AUTO_VOLUMES AUTO(volumes_freep)

/* An empty one. `limit` NULL: as large as the disk. CONFLICT: the id is taken; UNSUPPORTED names
 * what the host lacks to keep such a limit. */
int volumes_make(struct volumes *volumes, const char *id, const struct disk_quota_limit *limit,
                 struct err *err) MUST_USE;
/* Makes it ready to be shown, also after a reboot, and gives the path for jail_plan.workspace or a
 * mount. */
int volumes_attach(struct volumes *volumes, const char *id, char ret_path[], size_t size,
                   struct err *err) MUST_USE;
/* Lets go of what keeps it ready, when no sandbox uses it: a loop device and a mount. Jails that
 * run on it keep what they see. Nothing to do for most. */
int volumes_detach(struct volumes *volumes, const char *id, struct err *err) MUST_USE;
/* The same for every volume: at an orderly end nothing of them stays mounted. */
int volumes_rest(struct volumes *volumes, struct err *err) MUST_USE;
/* Deletes everything in it, for good. Jails that run on it see it until they end. */
int volumes_remove(struct volumes *volumes, const char *id, struct err *err) MUST_USE;

/* Makes it safe against a power cut. */
int volumes_sync(struct volumes *volumes, const char *id, struct err *err) MUST_USE;
/* Frees what was removed; may take long. */
int volumes_reclaim(struct volumes *volumes, struct err *err) MUST_USE;
/* After a start: clears away what a crash left half-made. A second run changes nothing. */
int volumes_recover(struct volumes *volumes, struct err *err) MUST_USE;
