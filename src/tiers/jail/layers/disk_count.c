/* How much the files of all sandboxes use together. Each disk takes a few system calls, so a worker
 * counts them and the figure is that of the previous request for it. */

#include "base/vec.h"
#include "engine/figures.h"
#include "io/pool.h"
#include "jail/disk/disks.h"
#include "tiers/jail/layers/disk.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"

struct counted_disk {
    char id[ID_SIZE];
};

struct count_job {
    struct job job;
    struct provider *provider;
    VEC(struct counted_disk) ids;
    int64_t bytes;
};

/* A disk that has ended since then counts as nothing. */
static void count_disks(struct job *base)
{
    struct count_job *job = (struct count_job *)base;
    VEC_EACH (disk, &job->ids) {
        struct disk_quota_use use;
        struct err ignored = {0};
        if (disks_stat(job->provider->disks->disks, disk->id, &use, &ignored) == 0)
            job->bytes += MAX(use.used_bytes, (int64_t)0);
    }
}

static void on_disks_counted(struct job *base, bool canceled)
{
    struct count_job *job = (struct count_job *)base;
    struct jail_disks *disks = job->provider->disks;
    disks->is_counting = false;
    if (!canceled)
        disks->used_bytes = job->bytes;
    vec_done(&job->ids);
    free(job);
}

int64_t tier_disks_count(struct provider *provider)
{
    struct jail_disks *disks = provider->disks;
    struct err ignored = {0};
    if (disks == NULL)
        return -1;
    if (disks->is_counting || disks->pool == NULL)
        return disks->used_bytes;
    struct count_job *job = mem_alloc(sizeof *job);
    *job = (struct count_job){.job = {.run = count_disks, .done = on_disks_counted},
                              .provider = provider};
    for (const struct place *place = provider->places; place != NULL; place = place->next)
        if (place->disk[0] != '\0' && !place->is_spare)
            memcpy(vec_push(&job->ids)->id, place->disk, sizeof place->disk);
    disks->is_counting = true;
    if (pool_submit(disks->pool, &job->job, &ignored) < 0)
        on_disks_counted(&job->job, true);
    return disks->used_bytes;
}
