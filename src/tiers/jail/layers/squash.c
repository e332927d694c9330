/* Merges many layers into one, made of hard links to their files, in the background. The old layers
 * stay for as long as an image or a jail's root uses them. */

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "tiers/jail/layers/disk.h"
#include "tiers/jail/layers/keep.h"
#include "tiers/jail/layers/layers.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"

/* Layers on disks are copied instead of linked, so they are merged later. */
enum { SQUASH_AT = 8, SQUASH_DISKS_AT = 24 };

static bool are_many(const layer_ids *own)
{
    size_t linked = 0;
    VEC_EACH (id, own)
        linked += !tier_layers_is_on_disk(*id);
    return linked >= SQUASH_AT || own->len >= SQUASH_DISKS_AT;
}

static bool is_under_way(const struct place *place)
{
    for (const struct keeping *at = place->provider->layers->keepings; at != NULL; at = at->next)
        if (at->place == place && at->how == JAIL_KEEP_SQUASH)
            return true;
    return false;
}

void tier_layers_squash(struct place *place)
{
    struct err err = {0};
    layer_ids own = {0};
    (void)!tier_layers_add(&own, buf_str(&place->own_image), &err);
    if (are_many(&own) && !place->sealed.keeps_stack && !is_under_way(place)) {
        struct keeping *keeping = keeping_new(place->provider, place, JAIL_KEEP_SQUASH);
        buf_put_cstr(&keeping->below, JAIL_IMAGE);
        tier_layers_put(&own, &keeping->merged);
        tier_disks_lend(place->provider, buf_str(&keeping->merged), "", &keeping->lent, NULL, NULL);
        keeping_submit(keeping);
    }
    vec_done(&own);
}

static size_t count_parts(struct str image)
{
    struct err err = {0};
    layer_ids ids = {0};
    (void)!tier_layers_add(&ids, image, &err);
    size_t count = ids.len;
    vec_done(&ids);
    return count;
}

/* What the place has come to stand on since then stays above it. */
static bool put_above(const struct keeping *keeping, struct str own, layer_ids *ids)
{
    struct err err = {0};
    AUTO_BUF struct buf below = {0};
    size_t count = count_parts(buf_str(&keeping->merged));
    layer_ids all = {0}, old = {0};
    (void)!tier_layers_add(&all, own, &err);
    for (size_t i = 0; i < MIN(count, all.len); i++)
        *vec_push(&old) = all.ptr[i];
    tier_layers_put(&old, &below);
    bool same = str_eq(buf_str(&below), buf_str(&keeping->merged));
    *vec_push(ids) = str_of(keeping->fresh.id);
    for (size_t i = count; same && i < all.len; i++)
        *vec_push(ids) = all.ptr[i];
    vec_done(&old);
    vec_done(&all);
    return same;
}

void tier_squashed(const struct keeping *keeping)
{
    struct place *place = keeping->place;
    AUTO_BUF struct buf own = {0};
    layer_ids ids = {0};
    if (place != NULL)
        buf_put(&own, buf_str(&place->own_image)); /* `ids` point into it */
    if (place != NULL && keeping->skipped > 0)
        place->sealed.keeps_stack = true; /* what it lacks is only in the old ones */
    else if (place != NULL && put_above(keeping, buf_str(&own), &ids)) {
        if (place->sealed.mounted.len == 0)
            buf_put(&place->sealed.mounted, buf_str(&own)); /* its root has them for now */
        tier_seal_stand(place, &ids, tier_layers_top(buf_str(&own), str_of(place->disk)));
        place->sealed.bytes += (int64_t)keeping->moved_bytes;
        tier_layers_told(place);
    }
    tier_disks_trim_soon(keeping->provider, buf_str(&keeping->merged));
    vec_done(&ids);
}
