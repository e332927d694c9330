/* Contexts of an isolate: it has one, "js", which is made and ends with its sandbox. */

#include "engine/code/context.h"
#include "base/err.h"
#include "tiers/isolate/place.h"

void isolate_context(struct place *place, const struct context_request *request, context_done *done,
                     void *ctx)
{
    struct err err = {0};
    bool is_running = place->started != NULL && place->started->kind == OP_EVAL;
    struct context_info info = {
        .id = STR("js"),
        .runtime = STR("js"),
        .language = STR("typescript"),
        .cwd = STR("/"),
        .state = is_running ? CONTEXT_BUSY : CONTEXT_IDLE,
        .waiting = place->op_count > 0 ? place->op_count - 1 : 0,
    };
    bool is_known = request->op == CONTEXT_LIST || str_eq(request->id, info.id);
    if (request->op == CONTEXT_CREATE || request->op == CONTEXT_DELETE ||
        request->op == CONTEXT_RESTART)
        (void)err_set(&err, ERR_UNSUPPORTED,
                      "an isolate has one context, 'js', which can only be interrupted; use a "
                      "sandbox of the tier 'jail' to create contexts");
    else if (!is_known)
        (void)err_set(&err, ERR_NOT_FOUND, "no context '%.*s'; an isolate has 'js'",
                      (int)MIN(request->id.len, (size_t)64), request->id.ptr);
    if (err.code != ERR_NONE) {
        done(ctx, NULL, 0, &err);
        return;
    }
    if (request->op == CONTEXT_INTERRUPT && is_running && place->lease != NULL)
        worker_interrupt(lease_worker(place->lease));
    done(ctx, &info, 1, NULL);
}
