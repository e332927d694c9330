#pragma once

/* Which writable layers, in memory or on its disk, make up a running jail's root. */

#include "base/buf.h"
#include "jail/wire/plan.h"

enum { RELAYER_LAYERS_MAX = JAIL_DISK_LAYERS_MAX };

/* All zeros is a jail whose root was never exchanged. */
struct relayer_memory {
    uint32_t numbers[RELAYER_LAYERS_MAX]; /* highest first; the first takes the writes */
    size_t count;
    uint32_t last;     /* number that was used */
    struct buf placed; /* paths of the layers in the spare place, one per line */
    bool has_spare;
    uint32_t moves; /* exchanges in a row with processes besides init, which may keep old roots */
};

/* As the plan gives them. */
static inline void relayer_memory_begin(struct relayer_memory *memory, const struct jail_plan *plan)
{
    memory->count = MAX(plan->disk_layer_count, (size_t)1);
    for (size_t i = 0; i < plan->disk_layer_count; i++)
        memory->numbers[i] = plan->disk_layers[i];
    memory->last = memory->numbers[0];
}
