#include "tiers/tiers.h"

const struct provider_table *const tiers_all[ENGINE_TIER_COUNT] = {
    [ENGINE_TIER_JAIL] = &provider_jail,
    [ENGINE_TIER_ISOLATE] = &provider_isolate,
    [ENGINE_TIER_MEMORY] = &provider_memory,
};
