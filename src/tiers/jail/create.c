/* Creates a place: plans its layers, attaches its volume, requests its jail (or takes a spare one),
 * sets its network, restores its interpreters; then calls `done`. */

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "base/sys.h"
#include "base/vec.h"
#include "engine/network.h"
#include "engine/provider.h"
#include "io/loop.h"
#include "jail/client/jail.h"
#include "runtime/runtimes.h"
#include "tiers/jail/code/context.h"
#include "tiers/jail/code/live.h"
#include "tiers/jail/layers/disk.h"
#include "tiers/jail/layers/layers.h"
#include "tiers/jail/layers/volumes.h"
#include "tiers/jail/net/network.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"
#include "tiers/jail/spare.h"
#include "tiers/jail/warden.h"

struct making {
    struct place *place;
    bool is_exchanging; /* a spare, whose root is to be exchanged for one on the image */
    place_done *done;
    void *ctx;
};

static void create_fail(struct making *making, const struct err *why)
{
    struct place *place = making->place;
    making->done(making->ctx, NULL, why);
    free(making);
    tier_live_end(place, why);
    tier_contexts_end(place, why);
    place_release(place);
}

static void on_revived(void *ctx, const struct err *why)
{
    struct making *making = ctx;
    if (why != NULL) {
        create_fail(making, why);
        return;
    }
    making->done(making->ctx, making->place, NULL);
    free(making);
}

static void on_joined(void *ctx, const struct err *why)
{
    struct making *making = ctx;
    if (why != NULL) {
        create_fail(making, why);
        return;
    }
    tier_layers_squash(making->place);
    tier_contexts_dress(making->place);
    tier_live_revive(making->place, on_revived, making);
}

/* The network is the last that a place is given. */
static void join(struct making *making)
{
    struct place *place = making->place;
    struct network *network = place->network_in_effect;
    place->network_in_effect = NULL; /* does not hold yet */
    tier_network_set(place, network, on_joined, making);
    (void)network_free(network);
}

static void borrow(struct making *making);

static void on_limited(void *ctx, const struct err *why)
{
    struct making *making = ctx;
    if (why != NULL)
        create_fail(making, why);
    else if (making->is_exchanging)
        borrow(making);
    else
        join(making);
}

static void on_made(struct warden_request *request, const struct warden_event *event,
                    const struct err *why)
{
    struct making *making = request->ctx;
    struct err err = {0};
    if (why != NULL)
        create_fail(making, why);
    else if (place_take_jail(making->place, event->jail, &err) < 0)
        create_fail(making, &err);
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
        (void)err_set(&err, ERR_UNAVAILABLE, "the warden process is not running");
    else if (warden_ask_make(provider->warden, &place->plan, &number, &err) == 0) {
        (void)tier_warden_asked(provider, number, on_made, making);
        tier_warden_used(provider);
        return;
    }
    create_fail(making, &err);
}

static void on_attached(void *ctx, struct str path, const struct err *why)
{
    struct making *making = ctx;
    if (why != NULL) {
        create_fail(making, why);
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
    int done = tier_layers_add(&ids, image, err);
    if (done == 0 && ids.len > JAIL_MOUNTS_MAX - plan->mount_count)
        done = err_set(err, ERR_LIMIT, "a snapshot with %zu layers cannot be exported", ids.len);
    for (size_t i = 0; done == 0 && i < ids.len; i++)
        plan->mounts[plan->mount_count++] =
            (struct jail_mount){.src = tier_layers_path(place->provider, ids.ptr[i], &place->arena),
                                .dst = arena_printf(&place->arena, "/mnt/%03zu", i).ptr};
    buf_put(&place->base_image, image);
    vec_done(&ids);
    return done;
}

/* --- A spare gets another root --- */

static void get_disk_again(struct making *making);

static void on_spare_ended(struct warden_request *request, UNUSED const struct warden_event *event,
                           UNUSED const struct err *why)
{
    get_disk_again(request->ctx);
}

/* It cannot have that root: a new jail on its disk is made. */
static void give_up_spare(struct making *making)
{
    struct place *place = making->place;
    struct jail *jail = place->jail;
    struct err err = {0};
    uint32_t number = 0;
    making->is_exchanging = false;
    place->watch = watch_free(place->watch);
    place->jail = NULL;
    if (place->provider->warden != NULL && jail_ask_end(jail, &number, &err) == 0)
        (void)tier_warden_asked(place->provider, number, on_spare_ended, making);
    else
        get_disk_again(making);
    (void)jail_free(jail);
}

static void on_root(struct warden_request *request, const struct warden_event *event,
                    const struct err *why)
{
    struct making *making = request->ctx;
    struct place *place = making->place;
    AUTO_CLOSE UNUSED int fd = why == NULL ? event->fd : -1; /* the layer is not needed here */
    jail_release(place->jail);
    place_watch(place);
    if (why != NULL) {
        log_debug("jail.spare", LOG_ID("sandbox", str_of(place->id)), LOG_STR("error", why->msg));
        give_up_spare(making);
        return;
    }
    CRASH_POINT("fork.root");
    tier_seal_taken_back(place, buf_str(&place->own_image), event->layer);
    join(making);
}

static void exchange_root(struct making *making)
{
    struct place *place = making->place;
    struct err err = {0};
    uint32_t number = 0;
    if (place->provider->warden == NULL ||
        tier_seal_ask_back(place, buf_str(&place->own_image), &number, &err) < 0)
        give_up_spare(making);
    else
        (void)tier_warden_asked(place->provider, number, on_root, making);
}

static void make_now(struct making *making, const struct err *why)
{
    if (why != NULL) {
        create_fail(making, why);
        return;
    }
    if (making->is_exchanging) {
        exchange_root(making);
        return;
    }
    if (making->place->volume[0] != '\0')
        tier_volume_attach(making->place->provider, str_of(making->place->volume), on_attached,
                           making);
    else
        ask_make(making);
}

static void on_lent(void *ctx, const struct err *why)
{
    make_now(ctx, why);
}

/* Mounts the other disks that hold layers of its image. */
static void borrow(struct making *making)
{
    struct place *place = making->place;
    tier_disks_lend(place->provider, buf_str(&place->own_image), place->disk, &place->lent, on_lent,
                    making);
}

static void on_disk(void *ctx, const struct err *why)
{
    struct making *making = ctx;
    if (why != NULL)
        create_fail(making, why);
    else
        borrow(making);
}

static void get_disk_again(struct making *making)
{
    struct place *place = making->place;
    tier_disk_get(place->provider,
                  &(struct disk_want){.id = place->disk,
                                      .image = buf_str(&place->own_image),
                                      .plan = &place->plan,
                                      .arena = &place->arena,
                                      .sealed = &place->sealed.fresh},
                  on_disk, making);
}

static void get_disk(struct making *making, const struct place_spec *spec)
{
    struct place *place = making->place;
    struct err err = {0};
    if (place->provider->disks == NULL) {
        (void)err_set(&err, ERR_UNAVAILABLE,
                      "the files of the sandbox are on a disk that this host cannot mount now; "
                      "'sandglass doctor' shows the reason");
        create_fail(making, &err);
        return;
    }
    place_disk_set(place, spec->disk);
    tier_disk_get(place->provider,
                  &(struct disk_want){.id = place->disk,
                                      .image = buf_str(&place->own_image),
                                      .is_new = spec->is_disk_new,
                                      .may_miss = spec->sandbox->started_ms == 0,
                                      .plan = &place->plan,
                                      .arena = &place->arena,
                                      .sealed = &place->sealed.fresh},
                  on_disk, making);
}

void tier_place_create(struct provider *provider, const struct place_spec *spec, place_done *done,
                       void *ctx)
{
    const struct sandbox_info *info = spec->sandbox;
    /* What trusts an authority of its own is made for it. */
    struct place *spare = spec->network->authority != NULL ? NULL : tier_spare_take(provider, spec);
    struct place *place = spare != NULL ? spare : place_new(provider);
    struct making *making = mem_alloc(sizeof *making);
    struct err err = {0};
    place->id = mem_dup_cstr(info->id.ptr);
    place->volume = mem_dup_cstr(arena_dup(&place->arena, spec->volume).ptr);
    place->has_snapshots = info->snapshot_count > 0;
    place->is_of_session = info->session.len > 0;
    place->next = provider->places;
    provider->places = place;
    place->network_in_effect = network_ref(spec->network);
    place->net_moved = spec->net_moved;
    *making = (struct making){place, spare != NULL && spec->image.len > 0, done, ctx};
    tier_contexts_begin(place, info);
    tier_live_begin(place, spec->live);
    tier_fill_plan(provider, &info->limits, &place->plan);
    place->plan.base = runtime_root(info->runtime, provider->host->data_dir, &place->arena);
    if (tier_layers_plan(place, spec, &err) < 0 ||
        (spec->shown.len > 0 && show_layers(place, spec->shown, &err) < 0)) {
        create_fail(making, &err);
        return;
    }
    tier_roots_plan(place);
    if (spare != NULL && tier_disk_adopt(place, spec->disk, &err) < 0)
        create_fail(making, &err);
    else if (spare != NULL)
        tier_spare_limit(place, on_limited, making);
    else if (spec->disk.len > 0)
        get_disk(making, spec);
    else
        borrow(making);
}
