/* Many layers made into one, of links to what is there, while nobody waits for it. The old ones
 * stay for as long as an image or a jail's root is made of them. */

#include "engine/jail_keep.h"

enum { SQUASH_AT = 8 };

static bool is_under_way(const struct place *place)
{
    for (const struct keeping *at = place->provider->layers->keepings; at != NULL; at = at->next)
        if (at->place == place && at->how == JAIL_KEEP_SQUASH)
            return true;
    return false;
}

void jail_layers_squash(struct place *place)
{
    struct err err = {0};
    layer_ids own = {0};
    (void)!jail_layers_add(&own, buf_str(&place->own_image), &err);
    bool are_many = own.len >= SQUASH_AT;
    vec_done(&own);
    if (!are_many || is_under_way(place))
        return;
    struct keeping *keeping = keeping_new(place->provider, place, JAIL_KEEP_SQUASH);
    buf_put_cstr(&keeping->below, JAIL_IMAGE);
    buf_put(&keeping->merged, buf_str(&place->own_image));
    keeping_submit(keeping);
}

/* What the place has come to stand on since then stays above it. */
void jail_squashed(const struct keeping *keeping)
{
    struct place *place = keeping->place;
    AUTO_BUF struct buf image = {0};
    struct str own = place == NULL ? (struct str){0} : buf_str(&place->own_image);
    if (place == NULL || !str_starts(own, buf_str(&keeping->merged))) {
        jail_layers_sweep_soon(keeping->provider);
        return;
    }
    buf_printf(&image, JAIL_IMAGE "/%s", keeping->fresh.id);
    buf_put(&image, str_slice(own, keeping->merged.len, own.len));
    if (place->sealed.mounted.len == 0)
        buf_put(&place->sealed.mounted, own); /* its root has them for now */
    jail_layers_stand(place, buf_str(&image));
}
