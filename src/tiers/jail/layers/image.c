/* Images: lists of layers as text, and the plan of a root that is made of them. */

#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "base/vec.h"
#include "tiers/jail/layers/layers.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"

enum { LAYERS_MAX = 120 }; /* of one root */

struct part {
    struct str id; /* of the layer, or of the disk */
    bool is_on_disk, is_mark;
    uint32_t number;
};

static bool read_part(struct str text, struct part *ret)
{
    int64_t number = 0;
    size_t dot = str_find_char(text, '.');
    *ret = (struct part){.id = text};
    if (dot < text.len) {
        struct str rest = str_slice(text, dot + 1, text.len);
        ret->id = str_slice(text, 0, dot);
        ret->is_on_disk = true;
        ret->is_mark = rest.len > 0 && rest.ptr[rest.len - 1] == '!';
        if (ret->is_mark)
            rest.len--;
        if (!str_to_i64(rest, 0, UINT32_MAX - 1, &number))
            return false;
        ret->number = (uint32_t)number;
    }
    return id_is_valid(ret->id);
}

/* What is there already is left out: a snapshot and a sandbox made from it may share layers. */
int tier_layers_add(layer_ids *ids, struct str image, struct err *err)
{
    struct str rest = image, text;
    struct part part;
    if (image.len == 0)
        return 0;
    if (!str_split(&rest, '/', &text) || !str_eq(text, STR(JAIL_IMAGE)))
        return err_set(err, ERR_INVALID, "'%.40s' is not an image of the tier 'jail'", image.ptr);
    while (rest.len > 0 && str_split(&rest, '/', &text)) {
        bool is_known = false;
        VEC_EACH (id, ids)
            is_known |= str_eq(*id, text);
        if (!read_part(text, &part))
            return err_set(err, ERR_INVALID, "an image names a layer with an invalid id");
        if (!is_known && !part.is_mark)
            *vec_push(ids) = text;
    }
    return ids->len > LAYERS_MAX
               ? err_set(err, ERR_LIMIT, "more than %d layers in one root", LAYERS_MAX)
               : 0;
}

void tier_layers_put(const layer_ids *ids, struct buf *out)
{
    buf_put_cstr(out, JAIL_IMAGE);
    VEC_EACH (id, ids)
        buf_printf(out, "/%.*s", STR_ARG(*id));
}

const char *tier_layers_path(const struct provider *provider, struct str layer, struct arena *arena)
{
    const char *home = provider->host->data_dir;
    struct part part;
    if (read_part(layer, &part) && part.is_on_disk)
        return arena_printf(arena, "%s/disks/%.*s/data/%u/upper", home, STR_ARG(part.id),
                            part.number)
            .ptr;
    return arena_printf(arena, "%s/layers/%.*s", home, STR_ARG(layer)).ptr;
}

bool tier_layers_is_on_disk(struct str layer)
{
    return str_find_char(layer, '.') < layer.len;
}

void tier_layers_each_disk(struct str image, void (*call)(void *ctx, struct str disk), void *ctx)
{
    struct err err = {0};
    layer_ids ids = {0};
    struct part part;
    (void)!tier_layers_add(&ids, image, &err);
    VEC_EACH (id, &ids)
        if (read_part(*id, &part) && part.is_on_disk)
            call(ctx, part.id);
    vec_done(&ids);
}

int64_t tier_layers_top(struct str image, struct str disk)
{
    struct str rest = image, text;
    struct part part;
    int64_t top = -1;
    while (rest.len > 0 && str_split(&rest, '/', &text))
        if (read_part(text, &part) && part.is_on_disk && str_eq(part.id, disk))
            top = MAX(top, (int64_t)part.number);
    return top;
}

static int set_layers(const struct provider *provider, const layer_ids *ids, struct arena *arena,
                      struct jail_plan *plan, struct err *err)
{
    plan->layer_count = 0;
    if (ids->len > LAYERS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d layers in one root", LAYERS_MAX);
    VEC_EACH (id, ids)
        plan->layers[plan->layer_count++] = tier_layers_path(provider, *id, arena);
    return 0;
}

int tier_layers_replan(struct place *place, struct str image, struct arena *arena,
                       struct jail_plan *plan, struct err *err)
{
    layer_ids ids = {0};
    int done = tier_layers_add(&ids, buf_str(&place->base_image), err);
    if (done == 0)
        done = tier_layers_add(&ids, image, err);
    if (done == 0)
        done = set_layers(place->provider, &ids, arena, plan, err);
    vec_done(&ids);
    return done;
}

void tier_layers_stand(struct place *place, struct str image)
{
    buf_clear(&place->own_image);
    buf_put(&place->own_image, image);
}

int tier_layers_plan(struct place *place, const struct place_spec *spec, struct err *err)
{
    layer_ids ids = {0};
    int done = 0;
    for (size_t i = 0; done == 0 && i < spec->snapshot_count; i++)
        done = tier_layers_add(&ids, spec->snapshot_images[i], err);
    if (done == 0 && ids.len > 0)
        tier_layers_put(&ids, &place->base_image);
    vec_done(&ids);
    if (done < 0)
        return -1;
    tier_layers_stand(place, spec->image);
    return tier_layers_replan(place, spec->image, &place->arena, &place->plan, err);
}

bool tier_layers_exist(struct provider *provider, struct str image)
{
    AUTO_ARENA struct arena arena = {0};
    layer_ids ids = {0};
    struct err err = {0};
    bool all = tier_layers_add(&ids, image, &err) == 0;
    VEC_EACH (id, &ids)
        all = all && faccessat(AT_FDCWD, tier_layers_path(provider, *id, &arena), F_OK,
                               AT_SYMLINK_NOFOLLOW) == 0;
    vec_done(&ids);
    return all;
}
