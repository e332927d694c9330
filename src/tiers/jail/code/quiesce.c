/* Idle interpreters during a seal (layers/seal.c): each leaves its working directory for "/", the
 * root of the jail is exchanged, and each goes back to the directory of that name on the new root.
 *
 * What an interpreter answers is a tenant's word. It only decides whether a seal is worth trying:
 * the warden inspects the processes itself (jail/warden/relayer_processes.c). */

#include "tiers/jail/code/quiesce.h"

#include "base/err.h"
#include "io/loop.h"
#include "runtime/interpreter.h"
#include "runtime/runtimes.h"
#include "tiers/jail/code/interpreter.h"
#include "tiers/jail/code/live.h"
#include "tiers/jail/place.h"

enum { QUIESCE_MS = 20000 }; /* an idle interpreter answers at once, on a busy host later */

struct quiescing {
    struct place *place;
    size_t pending;
    int count; /* -1: one of them cannot */
    struct timer *timer;
    quiesced_done *done; /* NULL: called */
    void *ctx;
};

static void quiesce_finish(struct quiescing *quiescing)
{
    quiesced_done *done = quiescing->done;
    quiescing->done = NULL;
    quiescing->timer = timer_free(quiescing->timer);
    for (struct context *context = quiescing->place->contexts; context != NULL;
         context = context->next)
        if (context->quiescent == QUIESCENT_ASKED)
            context_set_quiescent(context, QUIESCENT_YES);
    done(quiescing->ctx, quiescing->count);
}

static void one_answered(struct context *context, bool ok)
{
    struct quiescing *quiescing = context->place->quiescing;
    context_set_quiescent(context, QUIESCENT_YES);
    quiescing->count = ok && quiescing->count >= 0 ? quiescing->count + 1 : -1;
    if (--quiescing->pending == 0)
        quiesce_finish(quiescing);
}

void quiesce_on_answer(struct context *context, bool ok)
{
    if (context->quiescent == QUIESCENT_ASKED) /* else it comes too late */
        one_answered(context, ok);
}

/* Waiting runs start after all call-backs: not from here, while their context loses its process. */
void quiesce_on_death(struct context *context)
{
    struct quiescing *quiescing = context->place->quiescing;
    bool was_asked = context->quiescent == QUIESCENT_ASKED;
    context_set_quiescent(context, QUIESCENT_NO);
    if (!was_asked)
        return;
    quiescing->pending--;
    timer_set(quiescing->timer, 1, 0);
}

/* One did not answer, or has exited. */
static void on_time(void *ctx)
{
    struct quiescing *quiescing = ctx;
    quiescing->count = -1;
    quiesce_finish(quiescing);
}

/* Those of other languages do not know the word. */
static bool may_ask(const struct context *context)
{
    return strcmp(context->runtime->language, "python") == 0 && context->runs == NULL &&
           context->line == LINE_READY && !interpreter_is_busy(context->interpreter);
}

static void quiesce_ask(struct quiescing *quiescing, struct context *context)
{
    struct err err = {0};
    if (!may_ask(context) || interpreter_quiesce(context->interpreter, &err) < 0) {
        quiescing->count = -1;
        return;
    }
    context_set_quiescent(context, QUIESCENT_ASKED);
    quiescing->pending++;
    context_pump(context);
}

void tier_quiesce(struct place *place, quiesced_done *done, void *ctx)
{
    struct quiescing *quiescing = mem_alloc(sizeof *quiescing);
    assert(place->quiescing == NULL);
    *quiescing = (struct quiescing){.place = place, .done = done, .ctx = ctx, .pending = 1};
    place->quiescing = quiescing;
    place->holds++;
    for (struct context *context = place->contexts; context != NULL && quiescing->count >= 0;
         context = context->next)
        if (context->interpreter != NULL)
            quiesce_ask(quiescing, context);
    if (--quiescing->pending == 0) {
        quiesce_finish(quiescing);
        return;
    }
    quiescing->timer = timer_new(place->provider_loop, on_time, quiescing);
    timer_set(quiescing->timer, QUIESCE_MS, 0);
}

void tier_go_back(struct place *place)
{
    if (place->quiescing == NULL)
        return;
    assert(place->quiescing->done == NULL);
    free(place->quiescing);
    place->quiescing = NULL;
    for (struct context *context = place->contexts; context != NULL; context = context->next)
        if (context->quiescent == QUIESCENT_YES) {
            context_set_quiescent(context, QUIESCENT_NO);
            interpreter_go_back(context->interpreter);
            context_pump(context);
        }
    tier_live_release(place);
}

void tier_quiesce_end(struct place *place)
{
    struct quiescing *quiescing = place->quiescing;
    if (quiescing == NULL)
        return;
    place->quiescing = NULL; /* no interpreter goes back */
    quiescing->count = -1;
    if (quiescing->done != NULL)
        quiesce_finish(quiescing);
    free(quiescing);
}
