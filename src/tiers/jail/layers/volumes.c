/* Volumes of the tier jail. What touches the disk runs on a thread of its own. */

#include "tiers/jail/layers/volumes.h"

#include <dirent.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/map.h"
#include "base/vec.h"
#include "io/pool.h"
#include "jail/disk/volumes.h"
#include "tiers/jail/provider_jail.h"

enum { VOLUME_INODES = 200000 };

enum disk_op { DISK_MAKE, DISK_ATTACH, DISK_DETACH, DISK_REMOVE, DISK_RECLAIM };

struct disk_job {
    struct job job;
    struct provider *provider;
    enum disk_op op;
    char id[65];
    int64_t bytes;
    char path[JAIL_PATH_MAX];
    VEC(char *) unknown; /* volumes that no row names */
    int result;
    struct err err;
    engine_done *done;
    attached_done *attached;
    void *ctx;
};

static int reclaim_volumes(struct disk_job *job)
{
    if (volumes_recover(job->provider->volumes, &job->err) < 0)
        return -1;
    VEC_EACH (id, &job->unknown) {
        struct err err = {0};
        log_info("reconcile.volume", LOG_STR("volume", *id));
        if (volumes_remove(job->provider->volumes, *id, &err) < 0)
            log_warn("reconcile.volume", LOG_STR("error", err.msg));
    }
    return volumes_reclaim(job->provider->volumes, &job->err);
}

static int run_disk_op(struct disk_job *job)
{
    struct volumes *volumes = job->provider->volumes;
    struct disk_quota_limit limit = {.bytes = job->bytes, .inodes = VOLUME_INODES};
    switch (job->op) {
    case DISK_MAKE:
        return volumes_make(volumes, job->id, &limit, &job->err) < 0 ||
                       volumes_sync(volumes, job->id, &job->err) < 0
                   ? -1
                   : 0;
    case DISK_ATTACH:
        return volumes_attach(volumes, job->id, job->path, sizeof job->path, &job->err);
    case DISK_DETACH:
        return volumes_detach(volumes, job->id, &job->err);
    case DISK_REMOVE:
        return volumes_remove(volumes, job->id, &job->err) < 0 ||
                       volumes_reclaim(volumes, &job->err) < 0
                   ? -1
                   : 0;
    case DISK_RECLAIM:
        return reclaim_volumes(job);
    }
    return -1;
}

static void run_disk(struct job *base)
{
    struct disk_job *job = (struct disk_job *)base;
    job->result = run_disk_op(job);
}

static void disk_done(struct job *base, bool canceled)
{
    struct disk_job *job = (struct disk_job *)base;
    if (canceled)
        job->result = err_set(&job->err, ERR_CANCELED, "the server is stopping");
    const struct err *why = job->result < 0 ? &job->err : NULL;
    if (job->attached != NULL)
        job->attached(job->ctx, str_of(job->path), why);
    else if (job->done != NULL)
        job->done(job->ctx, why);
    VEC_EACH (id, &job->unknown)
        free(*id);
    vec_done(&job->unknown);
    free(job);
}

static struct disk_job *disk_job_new(struct provider *provider, enum disk_op op, struct str id,
                                     engine_done *done, void *ctx)
{
    struct disk_job *job = mem_alloc(sizeof *job);
    job->job = (struct job){.run = run_disk, .done = disk_done};
    job->provider = provider;
    job->op = op;
    job->done = done;
    job->ctx = ctx;
    (void)snprintf(job->id, sizeof job->id, "%.*s", STR_ARG(id));
    return job;
}

static void disk_submit(struct disk_job *job)
{
    struct err err = {0};
    if (pool_submit(job->provider->disk, &job->job, &err) < 0)
        disk_done(&job->job, true);
}

void tier_volume_create(struct provider *provider, struct str id, int64_t capacity_bytes,
                        engine_done *done, void *ctx)
{
    struct disk_job *job = disk_job_new(provider, DISK_MAKE, id, done, ctx);
    job->bytes = capacity_bytes;
    disk_submit(job);
}

bool tier_volume_exists(struct provider *provider, struct str id)
{
    AUTO_BUF struct buf path = {0};
    buf_printf(&path, "%s/volumes/%.*s", provider->host->data_dir, STR_ARG(id));
    return access(buf_cstr(&path), F_OK) == 0;
}

void tier_volume_delete(struct provider *provider, struct str id, engine_done *done, void *ctx)
{
    disk_submit(disk_job_new(provider, DISK_REMOVE, id, done, ctx));
}

void tier_volume_attach(struct provider *provider, struct str id, attached_done *done, void *ctx)
{
    struct disk_job *job = disk_job_new(provider, DISK_ATTACH, id, NULL, ctx);
    job->attached = done;
    disk_submit(job);
}

void tier_volume_detach(struct provider *provider, struct str id, engine_done *done, void *ctx)
{
    disk_submit(disk_job_new(provider, DISK_DETACH, id, done, ctx));
}

void tier_volumes_reclaim(struct provider *provider, const struct map *volumes, engine_done *done,
                          void *ctx)
{
    struct disk_job *job = disk_job_new(provider, DISK_RECLAIM, (struct str){0}, done, ctx);
    AUTO_BUF struct buf path = {0};
    buf_printf(&path, "%s/volumes", provider->host->data_dir);
    DIR *dir = opendir(buf_cstr(&path));
    const struct dirent *entry = NULL;
    while (dir != NULL && (entry = readdir(dir)) != NULL) /* NOLINT(concurrency-mt-unsafe) */
        if (entry->d_name[0] != '.' && !map_has(volumes, str_of(entry->d_name)))
            *vec_push(&job->unknown) = mem_dup_cstr(entry->d_name);
    if (dir != NULL)
        (void)closedir(dir);
    disk_submit(job);
}
