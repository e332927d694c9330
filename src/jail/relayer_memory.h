#pragma once

/* Which layers in memory make up a running jail's root. */

#include "base/buf.h"

enum { RELAYER_LAYERS_MAX = 16 };

/* All zeros is a jail whose root was never exchanged. */
struct relayer_memory {
    uint32_t numbers[RELAYER_LAYERS_MAX]; /* highest first; the first takes the writes */
    size_t count;
    uint32_t last;     /* number that was used */
    struct buf placed; /* paths of the layers that lie in the spare place, a line each */
    bool has_spare;
};
