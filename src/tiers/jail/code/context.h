#pragma once

/* The contexts of a place as the provider's table and other parts of the tier use them. */

#include "engine/provider.h"

/* context.c */
void tier_context(struct place *place, const struct context_request *request, context_done *done,
                  void *ctx);
/* What its interpreters get from the sandbox. */
void tier_contexts_begin(struct place *place, const struct sandbox_info *info);
/* Sends the sandbox's environment to an interpreter that was started in advance. */
void tier_contexts_dress(struct place *place);
/* The place is ending: requests that wait for a run get an error. */
void tier_contexts_end(struct place *place, const struct err *why);

/* run.c */
void tier_eval(struct provider *provider, struct place *place, struct str tenant,
               const struct eval_spec *spec, const struct eval_calls *calls, void *ctx);
void tier_eval_flow(struct place *place, const void *ctx, bool stop);

/* The place was resumed; also handles runs whose time limit passed during the pause. */
void tier_runs_resume(struct place *place);
