/* One place of the tier jail: what was asked of its jail and the events that answer, another jail
 * in the place of its own, its end. */

#include "engine/jail_place.h"

#include "base/err.h"
#include "base/fd.h"
#include "egress/gateway.h"
#include "engine/jail_layers.h"
#include "engine/network.h"

struct place *place_new(struct provider *provider)
{
    struct place *place = mem_alloc(sizeof *place);
    place->provider = provider;
    place->provider_loop = provider->host->loop;
    place->roots_fd = -1;
    return place;
}

/* --- What was asked --- */

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
    jail_contexts_end(place, why);
    jail_execs_end(place, why);
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
    (void)gateway_close(place->network);
    (void)network_free(place->net);
    jail_roots_end(place);
    vec_done(&place->ports);
    (void)jail_free(place->jail);
    jail_seal_forget(place);
    buf_done(&place->base_image);
    buf_done(&place->own_image);
    arena_done(&place->arena);
    free(place->id);
    free(place->volume);
    free(place);
}

/* A warden that dies takes its jails along, and which end is heard first is chance. A jail that
 * went by itself is still gone a moment later; after a warden's end its place is no more by then.
 */
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
    place->is_pumping = true;
    while (!place->is_ended && jail_next(place->jail, &event)) {
        if (event.type == JAIL_EVENT_GONE) {
            place->is_gone = true;
            watch_set(place->watch, 0);
            place->gone_err = event.err;
            place->gone_timer = timer_new(place->provider_loop, tell_gone, place);
            timer_set(place->gone_timer, GONE_AFTER_MS, 0);
            jail_network_end(place, &event.err);
            jail_live_end(place, &event.err);
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
    place->is_pumping = false;
    if (place->is_ended)
        place_free(place);
    else
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
    jail_network_end(place, why);
    jail_live_end(place, why);
    drop_ops(place, why);
    (void)watch_free(place->watch);
    place->gone_timer = timer_free(place->gone_timer);
    place->is_gone = false;
    place->oom_kills = 0;
    *ret_old = place->jail;
    place->jail = jail;
    place->watch = watch;
    place->network = gateway_close(place->network);
    place->ports.len = 0;
    return 0;
}

/* --- Its end --- */

void place_release(struct place *place)
{
    if (place->is_pumping)
        place->is_ended = true;
    else
        place_free(place);
}

struct ending {
    struct provider *provider;
    char *volume;
    engine_done *done;
    void *ctx;
};

/* The jail is gone; then its volume is let go of. */
static void on_ended(struct request *request, UNUSED const struct warden_event *event,
                     const struct err *why)
{
    struct ending *ending = request->ctx;
    if (ending->volume[0] != '\0')
        jail_volume_detach(ending->provider, str_of(ending->volume), ending->done, ending->ctx);
    else
        ending->done(ending->ctx, why);
    free(ending->volume);
    free(ending);
}

void jail_place_end(struct place *place, UNUSED bool keep_image, engine_done *done, void *ctx)
{
    struct provider *provider = place->provider;
    struct ending *ending = mem_alloc(sizeof *ending);
    struct err gone = {0}, err = {0};
    uint32_t number = 0;
    (void)err_set(&gone, ERR_GONE, "the sandbox ended");
    jail_network_end(place, &gone);
    jail_live_end(place, &gone);
    drop_ops(place, &gone);
    jail_layers_leave(place, &gone);
    jail_rollback_leave(place, &gone);
    *ending = (struct ending){provider, mem_dup_cstr(place->volume), done, ctx};
    bool is_asked = !place->is_gone && provider->warden != NULL &&
                    jail_ask_end(place->jail, &number, &err) == 0;
    if (is_asked) {
        (void)jail_warden_asked(provider, number, on_ended, ending);
    } else {
        struct request request = {.ctx = ending};
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
        jail_place_end(place, false, on_discarded, NULL);
    else
        place_free(place);
}
