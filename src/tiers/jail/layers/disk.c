#include <errno.h>
#include <fcntl.h>

#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "base/sys.h"
#include "base/vec.h"
#include "io/pool.h"
#include "jail/disk/disks.h"
#include "tiers/jail/layers/disk_internal.h"
#include "tiers/jail/layers/layers.h"
#include "tiers/jail/layers/sealed.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"

enum {
    QUEUE_MAX = 65536,
    CREATE_THREADS = 3, /* a mount waits for its loop device most of the time */
    SYNCERS = 2,
};

/* --- Who uses one --- */

void tier_disk_hold(struct provider *provider, const char *id)
{
    (void)map_put(&provider->disks->held, str_of(id), provider);
}

void place_disk_set(struct place *place, struct str id)
{
    (void)snprintf(place->disk, sizeof place->disk, "%.*s", STR_ARG(id));
    tier_disk_hold(place->provider, place->disk);
}

bool tier_disk_is_used(const struct provider *provider, struct str id)
{
    return map_has(&provider->disks->held, id) || map_has(&provider->disks->lent, id);
}

/* --- Work --- */

/* Of a disk that was used before: the layers that were sealed lie below the one that takes the
 * writes. */
static int open_sealed(struct disk_job *job, struct err *err)
{
    const struct jail_plan *plan = job->want.plan;
    for (size_t i = plan->disk_layer_count; i-- > 1;) {
        char path[JAIL_PATH_MAX + 32];
        (void)snprintf(path, sizeof path, "%s/%u/upper", job->path, plan->disk_layers[i]);
        int fd = SYS(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (fd < 0)
            return err_sys(err, errno, "open a layer of disk '%s'", job->id);
        *vec_push(job->want.sealed) = (struct sealed_layer){fd, plan->disk_layers[i]};
    }
    return 0;
}

static int disk_make(struct disk_job *job, struct err *err)
{
    job->want.plan->disk_layer_count = 0;
    job->want.plan->disk_layers[0] = 0;
    return disks_make(job->provider->disks->disks, job->id, job->bytes, err);
}

static int run_get(struct disk_job *job, struct err *err)
{
    struct disks *disks = job->provider->disks->disks;
    if (disks_path(disks, job->id, job->path, sizeof job->path, err) < 0)
        return -1;
    int done = job->want.is_new
                   ? disk_make(job, err)
                   : disks_attach(disks, job->id, job->above, job->named, job->want.plan, err);
    if (done < 0 && job->want.is_new && err->code == ERR_CONFLICT) /* of an attempt before */
        done = disks_attach(disks, job->id, job->above, job->named, job->want.plan, err);
    else if (done < 0 && job->want.may_miss && err->code == ERR_NOT_FOUND)
        done = disk_make(job, err);
    if (done < 0)
        return err->code == ERR_NOT_FOUND
                   ? err_set(err, ERR_GONE, "the files of the sandbox (disk '%s') are missing",
                             job->id)
                   : -1;
    return open_sealed(job, err);
}

static int run_ready(struct disk_job *job, struct err *err)
{
    int done = disks_ready(job->provider->disks->disks, job->id, err);
    return done < 0 && err->code == ERR_NOT_FOUND
               ? err_set(err, ERR_GONE, "files that the sandbox needs (disk '%s') are missing",
                         job->id)
               : done;
}

static int run_op(struct disk_job *job)
{
    struct disks *disks = job->provider->disks->disks;
    switch (job->op) {
    case DISK_GET:
        return run_get(job, &job->err);
    case DISK_READY:
        return run_ready(job, &job->err);
    case DISK_REST:
        return disks_rest(disks, job->id, &job->err);
    case DISK_ABANDON:
        disks_abandon(disks, job->id);
        return 0;
    case DISK_SYNC:
        return disks_sync(disks, job->id, &job->err);
    case DISK_RESIZE:
        return disks_resize(disks, job->id, job->bytes, &job->err);
    case DISK_STAT:
        return disks_stat(disks, job->id, &job->use, &job->err);
    case DISK_TRIM:
        return disks_trim(disks, job->id, job->above, &job->kept, &job->err);
    case DISK_CLEAR:
        return disks_clear_tmp(disks, job->id, &job->err);
    case DISK_REMOVE:
        disks_abandon(disks, job->id);
        return disks_remove(disks, job->id, &job->err);
    }
    return -1;
}

static void run_disk(struct job *base)
{
    struct disk_job *job = (struct disk_job *)base;
    job->result = run_op(job);
}

/* One that was canceled or failed is tried again by the next sweep, or when the server ends. */
static void removed(struct disk_job *job)
{
    struct jail_disks *disks = job->provider->disks;
    (void)map_remove(&disks->going, str_of(job->id));
    if (job->result < 0)
        return;
    (void)map_remove(&disks->made, str_of(job->id));
    (void)map_remove(&disks->shared, str_of(job->id));
    tier_disks_reclaim(job->provider);
}

static void disk_done(struct job *base, bool canceled)
{
    struct disk_job *job = (struct disk_job *)base;
    if (canceled)
        job->result = err_set(&job->err, ERR_CANCELED, "the server is stopping");
    if (job->op == DISK_REMOVE)
        removed(job);
    if (job->result == 0 && (job->op == DISK_GET || job->op == DISK_READY))
        (void)map_put(&job->provider->disks->ready, str_of(job->id), job->provider);
    /* What was open on it is closed by the next sweep, perhaps. */
    if (job->result < 0 && job->op == DISK_REST &&
        !tier_disk_is_used(job->provider, str_of(job->id)))
        (void)map_put(&job->provider->disks->ready, str_of(job->id), job->provider);
    if (job->result == 0 && job->op == DISK_GET)
        job->want.plan->disk = arena_dup(job->want.arena, str_of(job->path)).ptr;
    if (job->result == 0 && job->op == DISK_STAT)
        *job->ret_use = job->use;
    if (job->done != NULL)
        job->done(job->ctx, job->result < 0 ? &job->err : NULL);
    else if (job->result < 0 && !canceled)
        log_warn("jail.disk", LOG_STR("disk", job->id), LOG_STR("error", job->err.msg));
    map_done(&job->kept);
    free(job);
}

struct disk_job *tier_disk_job_new(struct provider *provider, enum disk_op op, const char *id,
                                   engine_done *done, void *ctx)
{
    struct disk_job *job = mem_alloc(sizeof *job);
    job->job = (struct job){.run = run_disk, .done = disk_done};
    job->provider = provider;
    job->op = op;
    job->done = done;
    job->ctx = ctx;
    (void)snprintf(job->id, sizeof job->id, "%s", id);
    return job;
}

/* While the provider closes there may be no pool any more. */
static void submit(struct disk_job *job, struct pool *pool)
{
    struct err err = {0};
    if (pool == NULL || pool_submit(pool, &job->job, &err) < 0)
        disk_done(&job->job, true);
}

void tier_disk_submit(struct disk_job *job)
{
    submit(job, job->provider->disks->pool);
}

/* The highest number of its layers that a row's image names. */
struct highest {
    struct str disk;
    int64_t number;
};

static void find_highest(void *ctx, struct str image)
{
    struct highest *highest = ctx;
    highest->number = MAX(highest->number, tier_layers_top(image, highest->disk));
}

static int64_t highest_named(const struct provider *provider, struct str disk)
{
    struct highest highest = {disk, -1};
    provider->host->each_image(provider->host->engine, ENGINE_TIER_JAIL, find_highest, &highest);
    return highest.number;
}

void tier_disk_get(struct provider *provider, const struct disk_want *want, engine_done *done,
                   void *ctx)
{
    struct disk_job *job = tier_disk_job_new(provider, DISK_GET, want->id, done, ctx);
    job->want = *want;
    job->above = tier_layers_top(want->image, str_of(want->id));
    job->named = want->is_new ? -1 : highest_named(provider, str_of(want->id));
    if (job->named >= 0)
        tier_disk_share(provider, want->id);
    if (!want->is_new)
        (void)map_put(&provider->disks->trims, str_of(want->id), provider);
    job->bytes = want->plan->limits.disk_bytes;
    /* One that was never asked for before has no other work to wait for. */
    bool is_first = want->is_new && !map_has(&provider->disks->made, str_of(want->id));
    if (want->is_new)
        (void)map_put(&provider->disks->made, str_of(want->id), provider);
    submit(job, is_first ? provider->disks->create_pool : provider->disks->pool);
}

/* One rename, done directly: a request that waits for the place does not wait for other work on
 * disks. */
int tier_disk_adopt(struct place *place, struct str id, struct err *err)
{
    struct provider *provider = place->provider;
    char path[JAIL_PATH_MAX], to[ID_SIZE];
    if (place->disk[0] == '\0')
        return 0;
    (void)snprintf(to, sizeof to, "%.*s", STR_ARG(id.len > 0 ? id : str_of(place->disk)));
    if ((id.len > 0 && disks_rename(provider->disks->disks, place->disk, to, err) < 0) ||
        disks_path(provider->disks->disks, to, path, sizeof path, err) < 0)
        return -1;
    (void)map_remove(&provider->disks->held, str_of(place->disk));
    (void)map_remove(&provider->disks->made, str_of(place->disk));
    (void)map_remove(&provider->disks->ready, str_of(place->disk));
    (void)map_put(&provider->disks->made, str_of(to), provider);
    (void)map_put(&provider->disks->ready, str_of(to), provider);
    place_disk_set(place, str_of(to));
    place->plan.disk = arena_dup(&place->arena, str_of(path)).ptr;
    return 0;
}

/* It may take as long as the disk takes, so it is not the thread that makes disks. */
void tier_disk_sync(struct place *place, engine_done *done, void *ctx)
{
    struct provider *provider = place->provider;
    submit(tier_disk_job_new(provider, DISK_SYNC, place->disk, done, ctx), provider->layers->pool);
}

void tier_disk_sync_behind(struct provider *provider, const char *id, engine_done *done, void *ctx)
{
    submit(tier_disk_job_new(provider, DISK_SYNC, id, done, ctx), provider->disks->syncers);
}

bool tier_disk_is_lent(const struct provider *provider, const char *id)
{
    return provider->disks != NULL && !provider->disks->is_stopping &&
           map_has(&provider->disks->lent, str_of(id));
}

/* A request waits for it, and no other job uses this disk, so it does not queue behind other
 * disks. */
void tier_disk_clear_tmp(struct place *place, engine_done *done, void *ctx)
{
    struct provider *provider = place->provider;
    submit(tier_disk_job_new(provider, DISK_CLEAR, place->disk, done, ctx),
           provider->disks->create_pool);
}

void tier_disk_resize(struct place *place, int64_t bytes, engine_done *done, void *ctx)
{
    struct disk_job *job = tier_disk_job_new(place->provider, DISK_RESIZE, place->disk, done, ctx);
    job->bytes = bytes;
    tier_disk_submit(job);
}

void tier_disk_stat(struct place *place, struct disk_quota_use *ret_use, engine_done *done,
                    void *ctx)
{
    struct disk_job *job = tier_disk_job_new(place->provider, DISK_STAT, place->disk, done, ctx);
    job->ret_use = ret_use;
    tier_disk_submit(job);
}

int tier_disk_use(const struct place *place, struct disk_quota_use *ret_use, struct err *err)
{
    return disks_stat(place->provider->disks->disks, place->disk, ret_use, err);
}

void tier_disk_rest(struct provider *provider, const char *id)
{
    (void)map_remove(&provider->disks->ready, str_of(id));
    tier_disk_submit(tier_disk_job_new(provider, DISK_REST, id, NULL, NULL));
}

/* False: nothing is to be done any more. */
static bool unhold(struct provider *provider, const char *id)
{
    if (id[0] == '\0' || provider->disks == NULL || provider->disks->is_stopping)
        return false;
    (void)map_remove(&provider->disks->held, str_of(id));
    (void)map_put(&provider->disks->made, str_of(id), provider);
    (void)map_put(&provider->disks->trims, str_of(id), provider);
    tier_layers_sweep_soon(provider);
    return true;
}

void tier_disk_drop(struct provider *provider, const char *id)
{
    if (unhold(provider, id) && !tier_disk_is_used(provider, str_of(id)))
        tier_disk_rest(provider, id);
}

void tier_disk_leave(struct provider *provider, const char *id)
{
    (void)unhold(provider, id);
}

void tier_disk_share(struct provider *provider, const char *id)
{
    (void)map_put(&provider->disks->shared, str_of(id), provider);
}

/* One that an image may name goes when it is found that none does. */
void tier_disk_abandon(struct provider *provider, const char *id)
{
    if (id[0] == '\0' || provider->disks == NULL || provider->disks->is_stopping ||
        map_has(&provider->disks->lent, str_of(id)) ||
        map_has(&provider->disks->shared, str_of(id)))
        return;
    (void)map_remove(&provider->disks->ready, str_of(id)); /* nothing can be trimmed there */
    tier_disk_submit(tier_disk_job_new(provider, DISK_ABANDON, id, NULL, NULL));
}

/* --- Opening and closing --- */

int tier_disks_open(struct provider *provider, struct err *err)
{
    struct jail_disks *disks = mem_alloc(sizeof *disks);
    struct err why = {0};
    disks->used_bytes = -1;
    if (disks_open(provider->host->data_dir, &disks->disks, &why) < 0 ||
        disks_probe(disks->disks, &disks->method, &why) < 0) {
        log_warn("jail.disk", LOG_STR("files", "memory"), LOG_STR("reason", why.msg));
        (void)disks_free(disks->disks);
        free(disks);
        return 0;
    }
    if (pool_open(provider->host->loop, 1, QUEUE_MAX, &disks->pool, err) < 0 ||
        pool_open(provider->host->loop, CREATE_THREADS, QUEUE_MAX, &disks->create_pool, err) < 0 ||
        pool_open(provider->host->loop, SYNCERS, QUEUE_MAX, &disks->syncers, err) < 0) {
        (void)pool_free(disks->create_pool);
        (void)pool_free(disks->pool);
        (void)disks_free(disks->disks);
        free(disks);
        return -1;
    }
    log_info("jail.disk", LOG_STR("files", "disk"),
             LOG_STR("limit", disk_quota_method_name(disks->method)));
    provider->disks = disks;
    return 0;
}

void tier_disks_stop(struct provider *provider)
{
    if (provider->disks == NULL)
        return;
    provider->disks->is_stopping = true;
    provider->disks->create_pool = pool_free(provider->disks->create_pool);
    provider->disks->syncers = pool_free(provider->disks->syncers);
    provider->disks->pool = pool_free(provider->disks->pool);
}

/* After every place has gone. */
void tier_disks_close(struct provider *provider)
{
    struct jail_disks *disks = provider->disks;
    if (disks == NULL)
        return;
    tier_disks_clear(provider);
    (void)disks_free(disks->disks);
    MAP_EACH (entry, &disks->lent)
        free(entry->value);
    map_done(&disks->lent);
    map_done(&disks->ready);
    map_done(&disks->trims);
    map_done(&disks->shared);
    map_done(&disks->held);
    map_done(&disks->made);
    map_done(&disks->going);
    free(disks);
    provider->disks = NULL;
}
