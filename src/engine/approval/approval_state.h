#pragma once

/* The states of an approval: which moves are possible. */

#include "engine/approval/approval.h"

struct approval_move {
    enum approval_state from, to;
    const char *by; /* what makes it */
};

const struct approval_move *approval_moves(size_t *ret_count);
bool approval_may_move(enum approval_state from, enum approval_state to);

/* Can still be used. */
static inline bool approval_is_open(enum approval_state state)
{
    return state == APPROVAL_PENDING || state == APPROVAL_APPROVED;
}
