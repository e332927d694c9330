/* The row of a sandbox with a disk names the image below the disk. A layer that was left on the
 * disk is synced after the answer, and the row names it after the sync.
 *
 * Until then the row names the image before, and a jail that is made from it finds the layer on the
 * disk, above that image: the same files. So a power cut loses only files that were not synced, as
 * on any disk, and never leaves a row that names a missing layer. */

#include "base/buf.h"
#include "base/id.h"
#include "base/log.h"
#include "base/sys.h"
#include "io/loop.h"
#include "tiers/jail/layers/disk.h"
#include "tiers/jail/layers/layers.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"

/* What follows a checkpoint at once, such as a rollback, need not wait for the disk behind it. */
enum { SYNC_AFTER_MS = 500, SYNC_AT = 6 };

struct syncing {
    struct provider *provider;
    struct place *place; /* NULL: it has gone, or has another disk */
    struct timer *timer; /* until it begins */
    char disk[ID_SIZE];
    struct buf image; /* that it stood on when the sync began */
    struct buf lent;
    size_t count; /* of the place's layers that were not synced */
    bool again;   /* its image has changed since then */
};

static void told_tell(struct place *place, struct str image)
{
    const struct provider_host *host = place->provider->host;
    if (place->id != NULL)
        host->on_stand(host->engine, str_of(place->id), image, str_of(place->disk));
}

static void syncing_free(struct syncing *syncing)
{
    tier_disks_return(syncing->provider, &syncing->lent);
    buf_done(&syncing->image);
    free(syncing);
}

static void on_synced(void *ctx, const struct err *why)
{
    struct syncing *syncing = ctx;
    struct place *place = syncing->place;
    if (why != NULL && why->code != ERR_CANCELED)
        log_warn("jail.disk", LOG_STR("error", why->msg));
    if (place != NULL) {
        place->sealed.syncing = NULL;
        CRASH_POINT("seal.synced");
    }
    if (place != NULL && why == NULL) {
        place->sealed.unsynced -= syncing->count;
        told_tell(place, buf_str(&syncing->image));
        if (syncing->again)
            tier_layers_told(place);
    }
    syncing_free(syncing);
}

static void sync_now(struct syncing *syncing)
{
    syncing->timer = timer_free(syncing->timer);
    tier_disks_lend_one(syncing->provider, syncing->disk, &syncing->lent);
    tier_disk_sync_behind(syncing->provider, syncing->disk, on_synced, syncing);
}

static void told_on_time(void *ctx)
{
    struct syncing *syncing = ctx;
    const struct place *place = syncing->place;
    syncing->count = place->sealed.unsynced;
    syncing->again = false;
    buf_clear(&syncing->image);
    buf_put(&syncing->image, buf_str(&place->own_image));
    sync_now(syncing);
}

void tier_layers_told(struct place *place)
{
    struct place_sealed *sealed = &place->sealed;
    if (place->disk[0] == '\0')
        return;
    if (sealed->unsynced == 0 && sealed->syncing == NULL) {
        told_tell(place, buf_str(&place->own_image));
        return;
    }
    if (sealed->syncing == NULL) {
        sealed->syncing = mem_alloc(sizeof *sealed->syncing);
        *sealed->syncing = (struct syncing){.provider = place->provider, .place = place};
        memcpy(sealed->syncing->disk, place->disk, sizeof sealed->syncing->disk);
        sealed->syncing->timer = timer_new(place->provider_loop, told_on_time, sealed->syncing);
        timer_set(sealed->syncing->timer, SYNC_AFTER_MS, 0);
    }
    sealed->syncing->again = true;
    if (sealed->syncing->timer != NULL && sealed->unsynced >= SYNC_AT)
        timer_set(sealed->syncing->timer, 0, 0);
}

void tier_layers_told_now(struct place *place)
{
    if (place->disk[0] == '\0')
        return;
    told_tell(place, buf_str(&place->own_image));
    place->sealed.unsynced++;
    tier_layers_told(place);
}

void tier_told_leave(struct place *place)
{
    struct syncing *syncing = place->sealed.syncing;
    place->sealed.syncing = NULL;
    if (syncing == NULL)
        return;
    syncing->place = NULL;
    if (syncing->timer == NULL)
        return;
    if (tier_disk_is_lent(syncing->provider, syncing->disk)) {
        sync_now(syncing); /* others stand on it */
        return;
    }
    syncing->timer = timer_free(syncing->timer);
    syncing_free(syncing);
}

struct str tier_told_image(const struct place *place)
{
    return place->sealed.syncing == NULL ? (struct str){0} : buf_str(&place->sealed.syncing->image);
}
