#pragma once

/* The tiers: what sandboxes are made of, each a table of functions for the engine. */

#include "engine/provider.h"

extern const struct provider_table provider_isolate, provider_jail, provider_memory;

/* By enum engine_tier, for engine_options. A new tier is a row of tiers.c. */
extern const struct provider_table *const tiers_all[ENGINE_TIER_COUNT];
