#pragma once

/* For nursery.c and nursery_serve.c alone: packets on their socket. */

#include "base/err.h"
#include "isolate/bridge.h"

enum { NURSERY_HELLO_MAX = BRIDGES_MAX * (BRIDGE_NAME_MAX + 1) };

/* First the names of the bridges, each ended by a NUL; then a byte for each worker that is wanted.
 * Each is answered by this, with the worker's socket and pidfd, or with neither and the reason. */
struct nursery_reply {
    int32_t pid;
    struct err err;
};
