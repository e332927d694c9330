#pragma once

/* Spare places, each with an interpreter that waits for its first code. */

#include "engine/provider.h"

struct runtime;

/* Makes what is missing when there is time; called whenever that may have changed. */
void tier_spares_tend(struct provider *provider);
/* An interpreter is started while a request waits for it: the next of its runtime may be made ahead
 * of time. */
void tier_spares_started(struct provider *provider, const struct runtime *runtime);
/* A matching spare with a running interpreter, which the caller then owns; NULL if no spare
 * matches. Memory and processor time are still those of the pool's plan. */
struct place *tier_spare_take(struct provider *provider, const struct place_spec *spec);
/* Applies the limits of `place->plan`; they hold once `done` reports success. */
void tier_spare_limit(struct place *place, engine_done *done, void *ctx);
/* All of them go: the warden does, or the provider. */
void tier_spares_end(struct provider *provider);
