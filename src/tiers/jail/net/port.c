/* A server in a jail: its init makes the connection, in the jail's own network, and passes it to
 * the server. */

#include "base/err.h"
#include "jail/client/files.h"
#include "jail/client/jail.h"
#include "tiers/jail/net/network.h"
#include "tiers/jail/place.h"

struct connecting {
    struct asked_op op;
    struct place *place;
    port_done *done;
    void *ctx;
};

static void on_connect_event(struct asked_op *op, const struct jail_event *event,
                             const struct err *why)
{
    struct connecting *connecting = (struct connecting *)op;
    if (event != NULL)
        place_remove(connecting->place, &connecting->op);
    if (event != NULL && event->type == JAIL_EVENT_CONNECTED)
        connecting->done(connecting->ctx, event->fd, NULL);
    else
        connecting->done(connecting->ctx, -1, event == NULL ? why : &event->err);
    free(connecting);
}

void tier_port(struct place *place, uint16_t port, port_done *done, void *ctx)
{
    struct err err = {0};
    uint32_t id = 0;
    if (jail_ask_connect(place->jail, port, &id, &err) < 0) {
        done(ctx, -1, &err);
        return;
    }
    struct connecting *connecting = mem_alloc(sizeof *connecting);
    *connecting = (struct connecting){{.on_event = on_connect_event}, place, done, ctx};
    place_add(place, &connecting->op, id);
    place_watch(place);
}
