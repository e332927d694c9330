/* The moves of an approval, as a table, and the names of its states. */

#include "engine/approval/approval_state.h"

static const char *const state_names[] = {"pending",  "approved", "used",
                                          "rejected", "expired",  "void"};
_Static_assert(countof(state_names) == APPROVAL_STATE_COUNT, "a name for each state");

/* From, to, and what makes the move. docs/APPROVALS.md shows the same. */
static const struct approval_move moves[] = {
    {APPROVAL_PENDING, APPROVAL_APPROVED, "a person approves it"},
    {APPROVAL_PENDING, APPROVAL_REJECTED, "a person rejects it"},
    {APPROVAL_PENDING, APPROVAL_EXPIRED, "its time is up"},
    {APPROVAL_PENDING, APPROVAL_VOID, "base, target or content changed, or it is withdrawn"},
    {APPROVAL_APPROVED, APPROVAL_USED, "what it allows begins"},
    {APPROVAL_APPROVED, APPROVAL_EXPIRED, "its time is up"},
    {APPROVAL_APPROVED, APPROVAL_VOID, "base, target or content changed, or it is withdrawn"},
};

const struct approval_move *approval_moves(size_t *ret_count)
{
    *ret_count = countof(moves);
    return moves;
}

bool approval_may_move(enum approval_state from, enum approval_state to)
{
    for (size_t i = 0; i < countof(moves); i++)
        if (moves[i].from == from && moves[i].to == to)
            return true;
    return false;
}

const char *approval_state_name(enum approval_state state)
{
    assert(state < APPROVAL_STATE_COUNT);
    return state_names[state];
}

bool approval_state_of_name(struct str name, enum approval_state *ret_state)
{
    for (unsigned i = 0; i < APPROVAL_STATE_COUNT; i++)
        if (str_eq(name, str_of(state_names[i]))) {
            *ret_state = (enum approval_state)i;
            return true;
        }
    return false;
}
