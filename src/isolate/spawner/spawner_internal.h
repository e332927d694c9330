#pragma once

/* Only for spawner.c and spawner_serve.c: packets on their socket. */

#include "base/err.h"
#include "isolate/bridge/bridge.h"

enum { SPAWNER_HELLO_MAX = BRIDGES_MAX * (BRIDGE_NAME_MAX + 1) };

/* First the names of the bridges, each ended by a NUL; then a byte for each worker that is wanted.
 * Each is answered by this, with the worker's socket and pidfd, or with neither and the reason. */
struct spawner_reply {
    int32_t pid;
    struct err err;
};
