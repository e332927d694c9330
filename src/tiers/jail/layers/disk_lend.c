/* Disks that other places stand on than their owner: counted, and mounted as long as they are lent.
 */

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "base/map.h"
#include "tiers/jail/layers/disk_internal.h"
#include "tiers/jail/layers/layers.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"

/* How many jails and works stand on it. */
struct lending {
    size_t count;
};

struct lend {
    struct provider *provider;
    const char *own;
    struct buf *lent;
    size_t pending;
    struct err err;
    engine_done *done;
    void *ctx;
};

static void one_lent(void *ctx, const struct err *why)
{
    struct lend *lend = ctx;
    if (why != NULL && lend->err.code == ERR_NONE)
        lend->err = *why;
    if (--lend->pending > 0)
        return;
    if (lend->done != NULL)
        lend->done(lend->ctx, lend->err.code == ERR_NONE ? NULL : &lend->err);
    free(lend);
}

static bool is_noted(const struct buf *lent, struct str disk)
{
    struct str rest = buf_str(lent), id;
    while (rest.len > 0 && str_split(&rest, '/', &id))
        if (str_eq(id, disk))
            return true;
    return false;
}

static void count_one(struct provider *provider, struct str disk, struct buf *lent)
{
    struct lending *lending = map_get(&provider->disks->lent, disk);
    if (lending == NULL) {
        lending = mem_alloc(sizeof *lending);
        (void)map_put(&provider->disks->lent, disk, lending);
    }
    lending->count++;
    buf_printf(lent, "%.*s/", STR_ARG(disk));
}

static void lend_disk(void *ctx, struct str disk)
{
    struct lend *lend = ctx;
    struct provider *provider = lend->provider;
    char id[ID_SIZE];
    if (str_eq(disk, str_of(lend->own)) || is_noted(lend->lent, disk))
        return;
    if (provider->disks == NULL) {
        (void)err_set(&lend->err, ERR_UNAVAILABLE,
                      "files that the sandbox needs are on a disk that this host cannot mount "
                      "now; 'sandglass doctor' says why");
        return;
    }
    bool is_ready = tier_disk_is_used(provider, disk) && map_has(&provider->disks->ready, disk);
    count_one(provider, disk, lend->lent);
    if (is_ready)
        return;
    (void)snprintf(id, sizeof id, "%.*s", STR_ARG(disk));
    lend->pending++;
    tier_disk_submit(tier_disk_job_new(provider, DISK_READY, id, one_lent, lend));
}

void tier_disks_lend(struct provider *provider, struct str image, const char *own, struct buf *lent,
                     engine_done *done, void *ctx)
{
    struct lend *lend = mem_alloc(sizeof *lend);
    *lend = (struct lend){
        .provider = provider, .own = own, .lent = lent, .pending = 1, .done = done, .ctx = ctx};
    tier_layers_each_disk(image, lend_disk, lend);
    lend->own = NULL;
    lend->lent = NULL; /* neither need live until it is done */
    one_lent(lend, NULL);
}

void tier_disks_lend_one(struct provider *provider, const char *id, struct buf *lent)
{
    count_one(provider, str_of(id), lent);
}

static void return_one(struct provider *provider, struct str disk)
{
    struct lending *lending = map_get(&provider->disks->lent, disk);
    assert(lending != NULL && lending->count > 0);
    if (--lending->count > 0)
        return;
    free(map_remove(&provider->disks->lent, disk));
    (void)map_put(&provider->disks->made, disk, provider);
    (void)map_put(&provider->disks->trims, disk, provider);
    tier_layers_sweep_soon(provider); /* which unmounts or removes it */
}

void tier_disks_return(struct provider *provider, struct buf *lent)
{
    struct str rest = buf_str(lent), disk;
    while (rest.len > 0 && str_split(&rest, '/', &disk))
        return_one(provider, disk);
    buf_done(lent);
    *lent = (struct buf){0};
}

static void trim_disk(void *ctx, struct str disk)
{
    struct provider *provider = ctx;
    if (provider->disks != NULL)
        (void)map_put(&provider->disks->trims, disk, provider);
}

void tier_disk_trim_soon(struct place *place)
{
    trim_disk(place->provider, str_of(place->disk));
    tier_layers_sweep_soon(place->provider);
}

void tier_disks_trim_soon(struct provider *provider, struct str image)
{
    tier_layers_each_disk(image, trim_disk, provider);
    tier_layers_sweep_soon(provider);
}
