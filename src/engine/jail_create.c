/* A place is made: its layers are planned, its volume attached, its jail asked for (or a spare one
 * taken), its network given, its interpreters revived; then whoever asked has it. */

#include "base/err.h"
#include "engine/jail_layers.h"
#include "engine/jail_place.h"
#include "engine/network.h"

struct making {
    struct place *place;
    place_done *done;
    void *ctx;
};

static void fail(struct making *making, const struct err *why)
{
    struct place *place = making->place;
    making->done(making->ctx, NULL, why);
    free(making);
    jail_live_end(place, why);
    jail_contexts_end(place, why);
    place_release(place);
}

static void on_revived(void *ctx, const struct err *why)
{
    struct making *making = ctx;
    if (why != NULL) {
        fail(making, why);
        return;
    }
    making->done(making->ctx, making->place, NULL);
    free(making);
}

static void on_joined(void *ctx, const struct err *why)
{
    struct making *making = ctx;
    if (why != NULL) {
        fail(making, why);
        return;
    }
    jail_layers_squash(making->place);
    jail_contexts_dress(making->place);
    jail_live_revive(making->place, on_revived, making);
}

/* The network is the last that a place is given. */
static void join(struct making *making)
{
    struct place *place = making->place;
    struct network *network = place->net;
    place->net = NULL; /* does not hold yet */
    jail_network_set(place, network, on_joined, making);
    (void)network_free(network);
}

static void on_limited(void *ctx, const struct err *why)
{
    struct making *making = ctx;
    if (why != NULL)
        fail(making, why);
    else
        join(making);
}

static void on_made(struct request *request, const struct warden_event *event,
                    const struct err *why)
{
    struct making *making = request->ctx;
    struct err err = {0};
    if (why != NULL)
        fail(making, why);
    else if (place_take_jail(making->place, event->jail, &err) < 0)
        fail(making, &err);
    else
        join(making);
}

static void ask_make(struct making *making)
{
    struct place *place = making->place;
    struct provider *provider = place->provider;
    struct err err = {0};
    uint32_t number = 0;
    if (provider->warden == NULL)
        (void)err_set(&err, ERR_UNAVAILABLE, "there is no warden");
    else if (warden_ask_make(provider->warden, &place->plan, &number, &err) == 0) {
        (void)jail_warden_asked(provider, number, on_made, making);
        jail_warden_used(provider);
        return;
    }
    fail(making, &err);
}

static void on_attached(void *ctx, struct str path, const struct err *why)
{
    struct making *making = ctx;
    if (why != NULL) {
        fail(making, why);
        return;
    }
    making->place->plan.workspace = arena_dup(&making->place->arena, path).ptr;
    ask_make(making);
}

/* Read-only, one beside the other; the image counts as in use until the place has gone. */
static int show_layers(struct place *place, struct str image, struct err *err)
{
    struct jail_plan *plan = &place->plan;
    layer_ids ids = {0};
    int done = jail_layers_add(&ids, image, err);
    if (done == 0 && ids.len > JAIL_MOUNTS_MAX - plan->mount_count)
        done = err_set(err, ERR_LIMIT, "a snapshot of %zu layers cannot be exported", ids.len);
    for (size_t i = 0; done == 0 && i < ids.len; i++)
        plan->mounts[plan->mount_count++] = (struct jail_mount){
            .src = arena_printf(&place->arena, "%s/layers/%.*s", place->provider->host->data_dir,
                                STR_ARG(ids.ptr[i]))
                       .ptr,
            .dst = arena_printf(&place->arena, "/mnt/%03zu", i).ptr};
    buf_put(&place->base_image, image);
    vec_done(&ids);
    return done;
}

void jail_place_create(struct provider *provider, const struct place_spec *spec, place_done *done,
                       void *ctx)
{
    const struct sandbox_info *info = spec->sandbox;
    /* What trusts an authority of its own is made for it. */
    struct place *spare = spec->network->authority != NULL ? NULL : jail_spare_take(provider, spec);
    struct place *place = spare != NULL ? spare : place_new(provider);
    struct making *making = mem_alloc(sizeof *making);
    struct err err = {0};
    place->id = mem_dup_cstr(info->id.ptr);
    place->volume = mem_dup_cstr(arena_dup(&place->arena, spec->volume).ptr);
    place->next = provider->places;
    provider->places = place;
    place->net = network_ref(spec->network);
    place->net_moved = spec->net_moved;
    *making = (struct making){place, done, ctx};
    jail_contexts_begin(place, info);
    jail_live_begin(place, spec->live);
    jail_fill_plan(provider, &info->limits, &place->plan);
    place->plan.base = runtime_root(info->runtime, provider->host->data_dir, &place->arena);
    if (jail_layers_plan(place, spec, &err) < 0 ||
        (spec->shown.len > 0 && show_layers(place, spec->shown, &err) < 0)) {
        fail(making, &err);
        return;
    }
    jail_roots_plan(place);
    if (spare != NULL) {
        jail_spare_limit(place, on_limited, making);
    } else if (spec->volume.len > 0) {
        jail_volume_attach(provider, spec->volume, on_attached, making);
    } else {
        ask_make(making);
    }
}
