/* One place of the tier jail: what was asked of its jail and the events that answer, another jail
 * in the place of its own, its end. */

#include "tiers/jail/place.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/map.h"
#include "base/vec.h"
#include "egress/gateway/gateway.h"
#include "engine/network.h"
#include "io/loop.h"
#include "jail/client/jail.h"
#include "tiers/jail/code/context.h"
#include "tiers/jail/code/live.h"
#include "tiers/jail/exec/exec.h"
#include "tiers/jail/layers/disk.h"
#include "tiers/jail/layers/layers.h"
#include "tiers/jail/layers/volumes.h"
#include "tiers/jail/net/network.h"
#include "tiers/jail/provider_jail.h"
#include "tiers/jail/warden.h"

struct place *place_new(struct provider *provider)
{
    struct place *place = mem_alloc(sizeof *place);
    place->provider = provider;
    place->provider_loop = provider->host->loop;
    place->roots_fd = -1;
    return place;
}

/* --- What was asked --- */

bool place_has_oom_kills(struct place *place, int64_t kills)
{
    bool has_new = kills > place->oom_kills;
    place->oom_kills = MAX(kills, place->oom_kills);
    return has_new;
}

void place_add(struct place *place, struct asked_op *op, uint32_t id)
{
    op->id = id;
    op->next = place->ops;
    place->ops = op;
}

void place_remove(struct place *place, struct asked_op *op)
{
    for (struct asked_op **at = &place->ops; *at != NULL; at = &(*at)->next)
        if (*at == op) {
            *at = op->next;
            return;
        }
}

void place_watch(struct place *place)
{
    if (place->watch != NULL && !place->is_gone)
        watch_set(place->watch, WATCH_READ | (jail_wants_write(place->jail) ? WATCH_WRITE : 0));
}

static void drop_ops(struct place *place, const struct err *why)
{
    tier_contexts_end(place, why);
    tier_execs_end(place, why);
    while (place->ops != NULL) {
        struct asked_op *op = place->ops;
        place->ops = op->next;
        op->on_event(op, NULL, why);
    }
}

/* --- Events of its jail --- */

static void place_free(struct place *place)
{
    for (struct place **at = &place->provider->places; *at != NULL; at = &(*at)->next)
        if (*at == place) {
            *at = place->next;
            break;
        }
    (void)watch_free(place->watch);
    (void)timer_free(place->gone_timer);
    (void)gateway_close(place->gateway_session);
    (void)network_free(place->network_in_effect);
    tier_roots_end(place);
    vec_done(&place->ports);
    (void)jail_free(place->jail);
    tier_seal_forget(place);
    tier_disk_drop(place->provider, place->disk);
    tier_disks_return(place->provider, &place->lent);
    buf_done(&place->base_image);
    buf_done(&place->own_image);
    arena_done(&place->arena);
    free(place->id);
    free(place->volume);
    free(place);
}

/* When a warden dies, its jails die too, and either end may be seen first. So the end of a jail is
 * handled a moment later: if the warden has died, the place no longer exists by then. */
enum { GONE_AFTER_MS = 100 };

static void tell_gone(void *ctx)
{
    struct place *place = ctx;
    if (place->is_spare)
        return; /* it is found dead when it is asked for */
    place->provider->host->on_gone(place->provider->host->engine, str_of(place->id),
                                   &place->gone_err);
}

static void on_jail(void *ctx, UNUSED int events)
{
    struct place *place = ctx;
    struct jail_event event;
    hold_take(&place->hold);
    while (!place->hold.is_freed && jail_next(place->jail, &event)) {
        if (event.type == JAIL_EVENT_GONE) {
            place->is_gone = true;
            watch_set(place->watch, 0);
            place->gone_err = event.err;
            place->gone_timer = timer_new(place->provider_loop, tell_gone, place);
            timer_set(place->gone_timer, GONE_AFTER_MS, 0);
            tier_network_end(place, &event.err);
            tier_live_end(place, &event.err);
            break;
        }
        struct asked_op *op = place->ops;
        while (op != NULL && op->id != event.id)
            op = op->next;
        if (op != NULL)
            op->on_event(op, &event, NULL);
        else if (event.fd >= 0)
            fd_close(&event.fd);
    }
    if (hold_release(&place->hold))
        place_free(place);
    else if (!place->hold.is_freed)
        place_watch(place);
}

int place_take_jail(struct place *place, struct jail *jail, struct err *err)
{
    place->jail = jail;
    return watch_new(place->provider_loop, jail_fd(jail), WATCH_READ, on_jail, place, &place->watch,
                     err);
}

int place_exchange(struct place *place, struct jail *jail, const struct err *why,
                   struct jail **ret_old, struct err *err)
{
    struct watch *watch = NULL;
    if (watch_new(place->provider_loop, jail_fd(jail), WATCH_READ, on_jail, place, &watch, err) < 0)
        return -1;
    tier_network_end(place, why);
    tier_live_end(place, why);
    drop_ops(place, why);
    (void)watch_free(place->watch);
    place->gone_timer = timer_free(place->gone_timer);
    place->is_gone = false;
    place->oom_kills = 0;
    *ret_old = place->jail;
    place->jail = jail;
    place->watch = watch;
    place->gateway_session = gateway_close(place->gateway_session);
    place->ports.len = 0;
    return 0;
}

/* --- Its end --- */

void place_release(struct place *place)
{
    if (hold_end(&place->hold))
        place_free(place);
}

struct ending {
    struct provider *provider;
    char *volume;
    char disk[ID_SIZE];
    struct buf lent;
    bool is_for_ever;
    engine_done *done;
    void *ctx;
};

/* The jail is gone; then its volume is let go of. */
static void on_ended(struct warden_request *request, UNUSED const struct warden_event *event,
                     const struct err *why)
{
    struct ending *ending = request->ctx;
    if (ending->is_for_ever)
        tier_disk_leave(ending->provider, ending->disk);
    else
        tier_disk_drop(ending->provider, ending->disk);
    tier_disks_return(ending->provider, &ending->lent);
    if (ending->volume[0] != '\0')
        tier_volume_detach(ending->provider, str_of(ending->volume), ending->done, ending->ctx);
    else
        ending->done(ending->ctx, why);
    free(ending->volume);
    free(ending);
}

void tier_place_end(struct place *place, bool keep_image, engine_done *done, void *ctx)
{
    struct provider *provider = place->provider;
    struct ending *ending = mem_alloc(sizeof *ending);
    struct err gone = {0}, err = {0};
    uint32_t number = 0;
    (void)err_set(&gone, ERR_GONE, "the sandbox ended");
    tier_network_end(place, &gone);
    tier_live_end(place, &gone);
    drop_ops(place, &gone);
    tier_layers_leave(place, &gone);
    tier_rollback_leave(place, &gone);
    *ending = (struct ending){
        .provider = provider, .volume = mem_dup_cstr(place->volume), .done = done, .ctx = ctx};
    memcpy(ending->disk, place->disk, sizeof ending->disk);
    place->disk[0] = '\0';
    ending->lent = place->lent;
    place->lent = (struct buf){0};
    ending->is_for_ever = !keep_image;
    if (!keep_image)
        tier_disk_abandon(provider, ending->disk);
    bool is_asked = !place->is_gone && provider->warden != NULL &&
                    jail_ask_end(place->jail, &number, &err) == 0;
    if (is_asked) {
        (void)tier_warden_asked(provider, number, on_ended, ending);
    } else {
        struct warden_request request = {.ctx = ending};
        on_ended(&request, NULL, NULL);
    }
    place_release(place);
}

static void on_discarded(UNUSED void *ctx, UNUSED const struct err *why)
{
}

void place_discard(struct place *place)
{
    place->volume = mem_dup_cstr("");
    if (place->jail != NULL)
        tier_place_end(place, false, on_discarded, NULL);
    else
        place_free(place);
}
