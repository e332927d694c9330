/* Processes that commands and cells have left behind: a server started with '&', a job under nohup.
 * They are work, so a sandbox that has some is not idle. */

#include "base/err.h"
#include "base/map.h"
#include "engine/provider.h"
#include "tiers/jail/code/interpreter.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"
#include "tiers/jail/warden.h"

struct looking {
    count_done *done;
    void *ctx;
    int64_t own; /* processes of init and of the interpreters */
};

/* A shell's interpreter is a program and the shell behind it. */
static int64_t count_own(const struct place *place)
{
    int64_t count = 1;
    for (const struct context *context = place->contexts; context != NULL; context = context->next)
        if (context->process == PROCESS_STARTED && context->interpreter != NULL)
            count += strcmp(context->runtime->name, "bash") == 0 ? 2 : 1;
    return count;
}

static void on_stats(struct warden_request *request, const struct warden_event *event,
                     const struct err *why)
{
    struct looking *looking = request->ctx;
    int64_t count = why == NULL ? event->stats.processes : -1;
    looking->done(looking->ctx, count < 0 ? 0 : MAX(count - looking->own, (int64_t)0));
    free(looking);
}

void tier_left_running(struct place *place, count_done *done, void *ctx)
{
    struct err err = {0};
    uint32_t number = 0;
    if (place->is_gone || place->provider->warden == NULL ||
        jail_ask_stat(place->jail, &number, &err) < 0) {
        done(ctx, 0);
        return;
    }
    struct looking *looking = mem_alloc(sizeof *looking);
    *looking = (struct looking){.done = done, .ctx = ctx, .own = count_own(place)};
    (void)tier_warden_asked(place->provider, number, on_stats, looking);
}
