/* Removes disks, and layers of disks, that are no longer used. */

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "io/pool.h"
#include "jail/disk/disks.h"
#include "tiers/jail/layers/disk_internal.h"
#include "tiers/jail/layers/layers.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"

/* Files of deleted sandboxes keep a server from ending no longer than this. */
enum { CLEAR_MS = 3000 };

/* --- Sweeping --- */

/* Frees what was removed, which takes as long as there is much of it. */
struct reclaiming {
    struct job job; /* first */
    struct provider *provider;
    struct err err;
};

static void run_reclaim(struct job *base)
{
    struct reclaiming *reclaiming = (struct reclaiming *)base;
    (void)!disks_reclaim(reclaiming->provider->disks->disks, &reclaiming->err);
}

static void reclaimed(struct job *base, bool canceled)
{
    struct reclaiming *reclaiming = (struct reclaiming *)base;
    struct jail_disks *disks = reclaiming->provider->disks;
    if (reclaiming->err.code != ERR_NONE)
        log_warn("jail.disk", LOG_STR("error", reclaiming->err.msg));
    disks->is_reclaiming = false;
    if (!canceled && disks->is_reclaim_wanted)
        tier_disks_reclaim(reclaiming->provider);
    free(reclaiming);
}

void tier_disks_reclaim(struct provider *provider)
{
    struct err err = {0};
    struct reclaiming *reclaiming = NULL;
    provider->disks->is_reclaim_wanted = provider->disks->is_reclaiming;
    if (provider->disks->is_reclaiming || provider->disk == NULL)
        return;
    reclaiming = mem_alloc(sizeof *reclaiming);
    *reclaiming =
        (struct reclaiming){.job = {.run = run_reclaim, .done = reclaimed}, .provider = provider};
    provider->disks->is_reclaiming = true;
    if (pool_submit(provider->disk, &reclaiming->job, &err) < 0)
        reclaimed(&reclaiming->job, true);
}

struct sweeping {
    struct provider *provider;
    const struct map *named;
    bool at_start;
    int64_t until_ms; /* of the end: how long files are removed */
};

static int sweep_one(void *ctx, const char *name, UNUSED struct err *err)
{
    const struct sweeping *sweeping = ctx;
    struct provider *provider = sweeping->provider;
    struct str id = str_of(name);
    bool is_half = str_starts(id, STR(".new-"));
    if (tier_disk_is_used(provider, is_half ? str_slice(id, 5, id.len) : id) ||
        (is_half && !sweeping->at_start))
        return 0;
    if (map_has(&provider->disks->going, id))
        return 0;
    if (is_half || !tier_layers_is_named(sweeping->named, id)) {
        (void)map_put(&provider->disks->made, id, provider); /* the server may stop before */
        (void)map_put(&provider->disks->going, id, provider);
        (void)map_remove(&provider->disks->ready, id);
        (void)map_remove(&provider->disks->trims, id);
        tier_disk_submit(tier_disk_job_new(provider, DISK_REMOVE, name, NULL, NULL));
    } else if (sweeping->at_start || map_has(&provider->disks->ready, id)) {
        tier_disk_rest(provider, name);
    }
    return 0;
}

/* --- Layers of disks that stay --- */

struct floor {
    int64_t number;
};

static void put_floor(struct map *floors, struct str disk, int64_t number)
{
    struct floor *floor = map_get(floors, disk);
    if (floor == NULL) {
        floor = mem_alloc(sizeof *floor);
        floor->number = number;
        (void)map_put(floors, disk, floor);
    }
    floor->number = MIN(floor->number, number);
}

static void note_floor(void *ctx, struct str disk, struct str image)
{
    put_floor(ctx, disk, tier_layers_top(image, disk));
}

void tier_disks_mark(struct provider *provider, struct map *ret_floors)
{
    provider->host->each_disk(provider->host->engine, ENGINE_TIER_JAIL, note_floor, ret_floors);
    for (const struct place *place = provider->places; place != NULL; place = place->next)
        if (place->disk[0] != '\0')
            note_floor(ret_floors, str_of(place->disk), buf_str(&place->own_image));
    /* A held disk is about to get a place, or has just lost it: keep all of its layers. */
    if (provider->disks != NULL)
        MAP_EACH (entry, &provider->disks->held)
            if (!map_has(ret_floors, entry->key))
                put_floor(ret_floors, entry->key, -1);
}

void tier_disks_unmark(struct map *floors)
{
    MAP_EACH (entry, floors)
        free(entry->value);
    map_done(floors);
}

/* The owner's own layers stay. Without an owner all unused ones are removed. */
static void trim(struct provider *provider, struct str disk, const struct map *named,
                 const struct floor *floor)
{
    char id[ID_SIZE];
    if (floor != NULL && floor->number < 0)
        return;
    (void)snprintf(id, sizeof id, "%.*s", STR_ARG(disk));
    struct disk_job *job = tier_disk_job_new(provider, DISK_TRIM, id, NULL, NULL);
    job->above = floor == NULL ? DISKS_TRIM_ALL : floor->number;
    MAP_EACH (entry, named)
        if (entry->key.len > disk.len && str_starts(entry->key, disk) &&
            entry->key.ptr[disk.len] == '.')
            (void)map_put(&job->kept, str_slice(entry->key, disk.len + 1, entry->key.len), job);
    tier_disk_submit(job);
}

static void trim_all(struct provider *provider, const struct map *named, const struct map *floors)
{
    struct jail_disks *disks = provider->disks;
    MAP_EACH (entry, &disks->trims) {
        const struct floor *floor = map_get(floors, entry->key);
        /* What has come to an owner since then waits for the next time. */
        if (!tier_disk_is_used(provider, entry->key) || !map_has(&disks->ready, entry->key) ||
            (floor == NULL && map_has(&disks->held, entry->key)))
            continue;
        trim(provider, entry->key, named, floor);
        (void)map_remove(&disks->trims, entry->key);
    }
}

void tier_disks_sweep(struct provider *provider, const struct map *named, const struct map *floors,
                      bool at_start)
{
    struct sweeping sweeping = {.provider = provider, .named = named, .at_start = at_start};
    struct err err = {0};
    if (provider->disks == NULL)
        return;
    if (disks_each(provider->disks->disks, sweep_one, &sweeping, &err) < 0)
        log_warn("jail.disk", LOG_STR("error", err.msg));
    trim_all(provider, named, floors);
    if (at_start)
        tier_disks_reclaim(provider);
}

/* Disks of this run that no row names, such as those of spares and of sandboxes that were deleted a
 * moment ago. Each with its files, so that a server that is killed meanwhile leaves little. */
static int clear_one(void *ctx, const char *name, UNUSED struct err *err)
{
    struct sweeping *sweeping = ctx;
    struct disks *disks = sweeping->provider->disks->disks;
    struct err why = {0};
    if (map_has(&sweeping->provider->disks->made, str_of(name)) &&
        !tier_layers_is_named(sweeping->named, str_of(name)) &&
        clock_now_ms() < sweeping->until_ms &&
        (disks_remove(disks, name, &why) < 0 || disks_reclaim(disks, &why) < 0))
        log_warn("jail.disk", LOG_STR("error", why.msg));
    return 0;
}

void tier_disks_clear(struct provider *provider)
{
    AUTO_MAP struct map named = {0};
    struct sweeping sweeping = {
        .provider = provider, .named = &named, .until_ms = clock_now_ms() + CLEAR_MS};
    struct disks *disks = provider->disks->disks;
    struct err err = {0};
    tier_layers_mark(provider, &named);
    /* Nothing stays mounted, whatever fails after it; files that are left go at the next start. */
    if (disks_rest_all(disks, &err) < 0)
        log_warn("jail.disk", LOG_STR("error", err.msg));
    if (disks_each(disks, clear_one, &sweeping, &err) < 0 || disks_reclaim(disks, &err) < 0)
        log_warn("jail.disk", LOG_STR("error", err.msg));
}
