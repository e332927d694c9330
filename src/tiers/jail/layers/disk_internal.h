#pragma once

/* Work on disks from inside, for disk.c, disk_lend.c and disk_sweep.c. */

#include "base/err.h"
#include "io/pool.h"
#include "jail/wire/plan.h"
#include "tiers/jail/layers/disk.h"

enum disk_op {
    DISK_GET,
    DISK_READY,
    DISK_REST,
    DISK_ABANDON,
    DISK_SYNC,
    DISK_RESIZE,
    DISK_STAT,
    DISK_TRIM,
    DISK_CLEAR,
    DISK_REMOVE,
};

struct disk_job {
    struct job job; /* first */
    struct provider *provider;
    enum disk_op op;
    char id[ID_SIZE + 8];
    struct disk_want want;
    int64_t bytes;
    int64_t above, named; /* of DISK_GET; see disks_attach. Of DISK_TRIM: up to `above` */
    struct map kept;      /* of DISK_TRIM */
    struct disk_quota_use use, *ret_use; /* of DISK_STAT */
    char path[JAIL_PATH_MAX];
    int result;
    struct err err;
    engine_done *done;
    void *ctx;
};

/* disk.c */
struct disk_job *tier_disk_job_new(struct provider *provider, enum disk_op op, const char *id,
                                   engine_done *done, void *ctx);
/* To the thread of the disks. While the provider closes there may be none any more: then it is
 * canceled. */
void tier_disk_submit(struct disk_job *job);
bool tier_disk_is_used(const struct provider *provider, struct str id);
void tier_disk_rest(struct provider *provider, const char *id);

/* disk_sweep.c */
/* Empties the trash, on a worker. */
void tier_disks_reclaim(struct provider *provider);
/* The provider closes: unmounts all, and removes disks of this run that no row names. */
void tier_disks_clear(struct provider *provider);
