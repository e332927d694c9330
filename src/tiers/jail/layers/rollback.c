/* Going back to an image, in one of two ways.
 *
 * A jail in which nothing but init runs, with its files on a disk, gets another root: the image's
 * layers and an empty one of the same disk (seal.c). The row that names the image, and up to
 * which number layers of the disk no longer count, is the moment at which that holds.
 *
 * Else a new jail on the old layers takes the place of the one that runs. Its commands end with it;
 * files, network and ports are the new one's from then on. */

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "base/sys.h"
#include "engine/network.h"
#include "jail/client/jail.h"
#include "tiers/jail/code/live.h"
#include "tiers/jail/files/files.h"
#include "tiers/jail/layers/disk.h"
#include "tiers/jail/layers/layers.h"
#include "tiers/jail/net/network.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"
#include "tiers/jail/warden.h"

struct rolling {
    struct place *place; /* NULL: it has ended, and no caller waits */
    struct provider *provider;
    struct jail *old; /* ends once the new one runs */
    struct buf image;
    char new_disk[ID_SIZE]; /* that a new jail would get */
    uint32_t version;       /* of what the place had sealed when another root was asked for */
    char disk[ID_SIZE];     /* for what is written from then on; "": in memory */
    struct buf lent;        /* disks that the new jail uses; then those of the old one */
    struct jail_plan *plan; /* of the new jail, with strings of `arena` */
    struct arena arena;
    bool is_exchanged; /* the place has another jail */
    bool is_held;      /* the place takes no code until tier_live_release */
    engine_done *done;
    void *ctx;
};

static void rollback_finish(struct rolling *rolling, const struct err *why)
{
    engine_done *done = rolling->done;
    void *ctx = rolling->ctx;
    if (rolling->place != NULL)
        rolling->place->rolling = NULL;
    if (rolling->place != NULL && rolling->is_held && why != NULL)
        tier_live_release(rolling->place);
    if (rolling->is_exchanged)
        tier_disk_leave(rolling->provider, rolling->disk);
    else
        tier_disk_drop(rolling->provider, rolling->disk);
    tier_disks_return(rolling->provider, &rolling->lent);
    buf_done(&rolling->image);
    arena_done(&rolling->arena);
    free(rolling->plan);
    free(rolling);
    if (done != NULL)
        done(ctx, why);
}

void tier_rollback_leave(struct place *place, const struct err *why)
{
    struct rolling *rolling = place->rolling;
    if (rolling == NULL)
        return;
    place->rolling = NULL;
    rolling->place = NULL;
    engine_done *done = rolling->done;
    rolling->done = NULL;
    done(rolling->ctx, why);
}

/* The old jail has ended: none of its processes writes to a volume any more. */
static void on_old_ended(struct warden_request *request, UNUSED const struct warden_event *event,
                         const struct err *why)
{
    rollback_finish(request->ctx, why);
}

static void on_dropped(UNUSED struct warden_request *request,
                       UNUSED const struct warden_event *event, UNUSED const struct err *why)
{
}

/* Ends it without waiting. */
static void end_jail(struct provider *provider, struct jail *jail, warden_request_event *on_event,
                     void *ctx)
{
    struct err err = {0};
    uint32_t number = 0;
    if (jail_ask_end(jail, &number, &err) == 0) {
        (void)tier_warden_asked(provider, number, on_event, ctx);
    } else {
        struct warden_request request = {.ctx = ctx};
        on_event(&request, NULL, NULL);
    }
    (void)jail_free(jail);
}

/* A rollback without its network still succeeds: no traffic leaves the jail. */
static void on_joined(void *ctx, const struct err *why)
{
    struct rolling *rolling = ctx;
    struct jail *old = rolling->old;
    if (why == NULL) {
        end_jail(rolling->provider, old, on_old_ended, rolling);
        return;
    }
    end_jail(rolling->provider, old, on_dropped, NULL);
    rollback_finish(rolling, why);
}

/* The old one goes once its jail has ended and no row names it. */
static void change_disk(struct rolling *rolling)
{
    struct place *place = rolling->place;
    char old[ID_SIZE];
    if (rolling->disk[0] == '\0')
        return;
    memcpy(old, place->disk, sizeof old);
    memcpy(place->disk, rolling->disk, sizeof place->disk);
    memcpy(rolling->disk, old, sizeof rolling->disk);
    place->plan.disk = arena_dup(&place->arena, str_of(rolling->plan->disk)).ptr;
    place->plan.disk_layer_count = 0;
    place->plan.disk_layers[0] = 0;
    tier_layers_told(place);
    tier_disk_abandon(rolling->provider, old);
}

static void exchange(struct rolling *rolling, struct jail *jail)
{
    struct place *place = rolling->place;
    struct jail *old = NULL;
    struct err gone = {0}, err = {0};
    (void)err_set(&gone, ERR_GONE, "the sandbox was rolled back");
    if (place_exchange(place, jail, &gone, &old, &err) < 0) {
        end_jail(rolling->provider, jail, on_dropped, NULL);
        rollback_finish(rolling, &err);
        return;
    }
    place->holds++;
    rolling->is_exchanged = rolling->is_held = true;
    tier_seal_forget(place);
    tier_layers_stand(place, buf_str(&rolling->image));
    struct buf lent = place->lent;
    place->lent = rolling->lent;
    rolling->lent = lent;
    change_disk(rolling);
    struct network *network = place->network_in_effect;
    rolling->old = old;
    place->network_in_effect = NULL; /* nothing leaves the new one yet */
    tier_network_set(place, network, on_joined, rolling);
    (void)network_free(network);
}

static void rollback_on_made(struct warden_request *request, const struct warden_event *event,
                             const struct err *why)
{
    struct rolling *rolling = request->ctx;
    if (why != NULL) {
        rollback_finish(rolling, why);
    } else if (rolling->place == NULL) {
        end_jail(rolling->provider, event->jail, on_dropped, NULL);
        rollback_finish(rolling, NULL);
    } else {
        exchange(rolling, event->jail);
    }
}

static void ask_make(struct rolling *rolling)
{
    struct provider *provider = rolling->provider;
    struct err err = {0};
    uint32_t number = 0;
    if (rolling->place == NULL)
        (void)err_set(&err, ERR_GONE, "the sandbox ended");
    else if (provider->warden == NULL)
        (void)err_set(&err, ERR_UNAVAILABLE, "the warden process is not running");
    else if (warden_ask_make(provider->warden, rolling->plan, &number, &err) == 0) {
        (void)tier_warden_asked(provider, number, rollback_on_made, rolling);
        return;
    }
    rollback_finish(rolling, &err);
}

static void on_lent(void *ctx, const struct err *why)
{
    if (why != NULL)
        rollback_finish(ctx, why);
    else
        ask_make(ctx);
}

static void on_disk(void *ctx, const struct err *why)
{
    struct rolling *rolling = ctx;
    if (why != NULL)
        rollback_finish(rolling, why);
    else
        tier_disks_lend(rolling->provider, buf_str(&rolling->image), rolling->disk, &rolling->lent,
                        on_lent, rolling);
}

static void get_disk(struct rolling *rolling)
{
    tier_disk_hold(rolling->provider, rolling->disk);
    tier_disk_get(
        rolling->provider,
        &(struct disk_want){
            .id = rolling->disk, .is_new = true, .plan = rolling->plan, .arena = &rolling->arena},
        on_disk, rolling);
}

/* --- A new jail --- */

static void make_anew(struct rolling *rolling)
{
    struct place *place = rolling->place;
    struct err err = {0};
    /* The new jail begins with its secrets, even where the old one did not. */
    if (place->network_in_effect != NULL && place->roots_fd < 0)
        tier_roots_plan(place);
    rolling->plan = mem_dup(&place->plan, sizeof place->plan);
    if (tier_layers_replan(place, buf_str(&rolling->image), &rolling->arena, rolling->plan, &err) <
        0) {
        rollback_finish(rolling, &err);
        return;
    }
    if (place->disk[0] != '\0')
        memcpy(rolling->disk, rolling->new_disk, sizeof rolling->disk);
    if (rolling->disk[0] != '\0')
        get_disk(rolling);
    else
        ask_make(rolling);
}

/* --- Another root of the same jail --- */

static void on_cleared(void *ctx, const struct err *why)
{
    if (why != NULL) /* it is no part of what was asked for */
        log_warn("jail.rollback", LOG_STR("error", why->msg));
    rollback_finish(ctx, NULL);
}

static void on_root(struct warden_request *request, const struct warden_event *event,
                    const struct err *why)
{
    struct rolling *rolling = request->ctx;
    struct place *place = rolling->place;
    struct err err = {0};
    AUTO_CLOSE UNUSED int fd = why == NULL ? event->fd : -1;
    if (place == NULL || place->sealed.version != rolling->version) {
        (void)err_set(&err, ERR_GONE, "the sandbox ended");
        rollback_finish(rolling, why != NULL ? why : &err);
        return;
    }
    jail_release(place->jail);
    place_watch(place);
    if (why != NULL) {
        log_debug("jail.rollback", LOG_ID("sandbox", str_of(place->id)),
                  LOG_STR("error", why->msg));
        make_anew(rolling); /* nothing has changed */
        return;
    }
    CRASH_POINT("rollback.root");
    place->holds++;
    rolling->is_held = true;
    tier_files_touched(place);
    tier_seal_taken_back(place, buf_str(&rolling->image), event->layer);
    tier_disk_clear_tmp(place, on_cleared, rolling);
}

static void on_here(void *ctx, const struct err *why)
{
    struct rolling *rolling = ctx;
    struct place *place = rolling->place;
    struct err err = {0};
    uint32_t number = 0;
    if (place == NULL) {
        (void)err_set(&err, ERR_GONE, "the sandbox ended");
        rollback_finish(rolling, &err);
    } else if (why != NULL) {
        rollback_finish(rolling, why);
    } else if (place->provider->warden == NULL || tier_layers_is_keeping(place) ||
               tier_seal_ask_back(place, buf_str(&rolling->image), &number, &err) < 0) {
        make_anew(rolling);
    } else {
        rolling->version = place->sealed.version;
        (void)tier_warden_asked(place->provider, number, on_root, rolling);
    }
}

void tier_rollback(struct place *place, struct str image, struct str disk, engine_done *done,
                   void *ctx)
{
    struct err err = {0};
    if (place->rolling != NULL) {
        (void)err_set(&err, ERR_BUSY, "the sandbox is already being rolled back");
        done(ctx, &err);
        return;
    }
    struct rolling *rolling = mem_alloc(sizeof *rolling);
    *rolling =
        (struct rolling){.place = place, .provider = place->provider, .done = done, .ctx = ctx};
    buf_put(&rolling->image, image);
    (void)snprintf(rolling->new_disk, sizeof rolling->new_disk, "%.*s", STR_ARG(disk));
    place->rolling = rolling;
    /* Secrets are exchanged with the jail, and so are contexts. */
    bool has_secrets =
        place->network_in_effect != NULL && place->network_in_effect->authority != NULL;
    if (place->disk[0] != '\0' && place->execs == NULL && place->contexts == NULL && !has_secrets &&
        !place->is_gone)
        tier_disks_lend(place->provider, image, place->disk, &place->lent, on_here, rolling);
    else
        make_anew(rolling);
}
