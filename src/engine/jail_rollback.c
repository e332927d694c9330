/* Going back to an image: a new jail on the old layers takes the place of the one that runs. Its
 * commands end with it; files, network and ports are the new one's from then on. */

#include "engine/jail_layers.h"
#include "engine/network.h"

struct rolling {
    struct place *place; /* NULL: it has gone, and nobody waits */
    struct provider *provider;
    struct jail *old; /* that ends once the new one stands */
    struct buf image;
    engine_done *done;
    void *ctx;
};

static void finish(struct rolling *rolling, const struct err *why)
{
    engine_done *done = rolling->done;
    void *ctx = rolling->ctx;
    if (rolling->place != NULL)
        rolling->place->rolling = NULL;
    buf_done(&rolling->image);
    free(rolling);
    if (done != NULL)
        done(ctx, why);
}

void jail_rollback_leave(struct place *place, const struct err *why)
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

/* The old one is gone: nothing of it writes to a volume any more. */
static void on_old_ended(struct request *request, UNUSED const struct warden_event *event,
                         const struct err *why)
{
    finish(request->ctx, why);
}

static void on_dropped(UNUSED struct request *request, UNUSED const struct warden_event *event,
                       UNUSED const struct err *why)
{
}

/* Ends it without waiting. */
static void end_jail(struct provider *provider, struct jail *jail, request_event *on_event,
                     void *ctx)
{
    struct err err = {0};
    uint32_t number = 0;
    if (jail_ask_end(jail, &number, &err) == 0) {
        (void)jail_warden_asked(provider, number, on_event, ctx);
    } else {
        struct request request = {.ctx = ctx};
        on_event(&request, NULL, NULL);
    }
    (void)jail_free(jail);
}

/* Without its network it goes on all the same: nothing leaves it. */
static void on_joined(void *ctx, const struct err *why)
{
    struct rolling *rolling = ctx;
    struct jail *old = rolling->old;
    if (why == NULL) {
        end_jail(rolling->provider, old, on_old_ended, rolling);
        return;
    }
    end_jail(rolling->provider, old, on_dropped, NULL);
    finish(rolling, why);
}

static void exchange(struct rolling *rolling, struct jail *jail)
{
    struct place *place = rolling->place;
    struct jail *old = NULL;
    struct err gone = {0}, err = {0};
    (void)err_set(&gone, ERR_GONE, "the sandbox was rolled back");
    if (place_exchange(place, jail, &gone, &old, &err) < 0) {
        end_jail(rolling->provider, jail, on_dropped, NULL);
        finish(rolling, &err);
        return;
    }
    jail_seal_forget(place);
    jail_layers_stand(place, buf_str(&rolling->image));
    struct network *network = place->net;
    rolling->old = old;
    place->net = NULL; /* nothing leaves the new one yet */
    jail_network_set(place, network, on_joined, rolling);
    (void)network_free(network);
}

static void on_made(struct request *request, const struct warden_event *event,
                    const struct err *why)
{
    struct rolling *rolling = request->ctx;
    if (why != NULL) {
        finish(rolling, why);
    } else if (rolling->place == NULL) {
        end_jail(rolling->provider, event->jail, on_dropped, NULL);
        finish(rolling, NULL);
    } else {
        exchange(rolling, event->jail);
    }
}

void jail_rollback(struct place *place, struct str image, engine_done *done, void *ctx)
{
    struct provider *provider = place->provider;
    /* The new jail begins with its secrets, even where the old one did not. */
    if (place->rolling == NULL && place->net != NULL && place->roots_fd < 0)
        jail_roots_plan(place);
    AUTO_MEM struct jail_plan *plan = mem_dup(&place->plan, sizeof place->plan);
    AUTO_ARENA struct arena arena = {0};
    struct err err = {0};
    uint32_t number = 0;
    int asked = -1;
    if (place->rolling != NULL)
        (void)err_set(&err, ERR_BUSY, "the sandbox is being rolled back already");
    else if (provider->warden == NULL)
        (void)err_set(&err, ERR_UNAVAILABLE, "there is no warden");
    else if (jail_layers_replan(place, image, &arena, plan, &err) == 0)
        asked = warden_ask_make(provider->warden, plan, &number, &err);
    if (asked < 0) {
        done(ctx, &err);
        return;
    }
    struct rolling *rolling = mem_alloc(sizeof *rolling);
    *rolling = (struct rolling){.place = place, .provider = provider, .done = done, .ctx = ctx};
    buf_put(&rolling->image, image);
    place->rolling = rolling;
    (void)jail_warden_asked(provider, number, on_made, rolling);
}
