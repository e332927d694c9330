#pragma once

/* The state machine of a sandbox: the allowed transitions. */

#include "engine/sandbox/sandbox.h"

struct sandbox_move {
    enum sandbox_state from, to;
    const char *by; /* what makes it */
};

const struct sandbox_move *sandbox_moves(size_t *ret_count);
bool sandbox_may_move(enum sandbox_state from, enum sandbox_state to);

/* Between two states that last: verbs wait for its end. */
static inline bool sandbox_is_moving(enum sandbox_state state)
{
    return state == SANDBOX_CREATING || state == SANDBOX_PAUSING || state == SANDBOX_RESUMING ||
           state == SANDBOX_STOPPING;
}
