/* The moves of a sandbox's life, as a table, and the names of its states. */

#include "engine/sandbox/sandbox_state.h"

#include "engine/sandbox/sandbox.h"

static const char *const tier_names[] = {"default", "jail", "isolate", "memory"};
static const char *const state_names[] = {"creating", "running",  "pausing",
                                          "paused",   "resuming", "stopping",
                                          "stopped",  "failed",   "interrupted"};

_Static_assert(countof(tier_names) == ENGINE_TIER_COUNT, "a name for each tier");
_Static_assert(countof(state_names) == SANDBOX_STATE_COUNT, "a name for each state");

/* From, to, and what makes the move. docs/ENGINE.md shows the same as a picture. */
static const struct sandbox_move moves[] = {
    {SANDBOX_CREATING, SANDBOX_RUNNING, "its place is ready"},
    {SANDBOX_CREATING, SANDBOX_FAILED, "its place could not be made"},
    {SANDBOX_CREATING, SANDBOX_STOPPING, "stop or delete"},
    {SANDBOX_CREATING, SANDBOX_INTERRUPTED, "the daemon or the tier's process died"},
    {SANDBOX_RUNNING, SANDBOX_PAUSING, "pause, or its time is up"},
    {SANDBOX_RUNNING, SANDBOX_STOPPING, "stop or delete, or its time is up (kill)"},
    {SANDBOX_RUNNING, SANDBOX_FAILED, "its place died"},
    {SANDBOX_RUNNING, SANDBOX_INTERRUPTED, "the daemon or the tier's process died"},
    {SANDBOX_PAUSING, SANDBOX_PAUSED, "its state is saved"},
    {SANDBOX_PAUSING, SANDBOX_RUNNING, "its state could not be saved; it keeps running"},
    {SANDBOX_PAUSING, SANDBOX_FAILED, "its place died"},
    {SANDBOX_PAUSING, SANDBOX_INTERRUPTED, "the daemon or the tier's process died"},
    {SANDBOX_PAUSED, SANDBOX_RESUMING, "resume, connect, or work for it"},
    {SANDBOX_PAUSED, SANDBOX_STOPPING, "stop or delete"},
    {SANDBOX_PAUSED, SANDBOX_FAILED, "its place died"},
    {SANDBOX_PAUSED, SANDBOX_INTERRUPTED, "its state in memory is lost"},
    {SANDBOX_RESUMING, SANDBOX_RUNNING, "its place is restored"},
    {SANDBOX_RESUMING, SANDBOX_PAUSED, "it could not be resumed; its saved state is intact"},
    {SANDBOX_RESUMING, SANDBOX_FAILED, "its saved state cannot be used"},
    {SANDBOX_RESUMING, SANDBOX_INTERRUPTED, "the daemon or the tier's process died"},
    {SANDBOX_STOPPING, SANDBOX_STOPPED, "its place is gone"},
    {SANDBOX_INTERRUPTED, SANDBOX_RESUMING, "resume, connect, or work for it"},
    {SANDBOX_INTERRUPTED, SANDBOX_STOPPING, "stop or delete"},
    {SANDBOX_FAILED, SANDBOX_STOPPING, "stop or delete"},
};

const struct sandbox_move *sandbox_moves(size_t *ret_count)
{
    *ret_count = countof(moves);
    return moves;
}

bool sandbox_may_move(enum sandbox_state from, enum sandbox_state to)
{
    for (size_t i = 0; i < countof(moves); i++)
        if (moves[i].from == from && moves[i].to == to)
            return true;
    return false;
}

const char *engine_tier_name(enum engine_tier tier)
{
    assert(tier < ENGINE_TIER_COUNT);
    return tier_names[tier];
}

bool engine_tier_of_name(struct str name, enum engine_tier *ret_tier)
{
    for (unsigned i = ENGINE_TIER_JAIL; i < ENGINE_TIER_COUNT; i++)
        if (str_eq(name, str_of(tier_names[i]))) {
            *ret_tier = (enum engine_tier)i;
            return true;
        }
    return false;
}

const char *sandbox_state_name(enum sandbox_state state)
{
    assert(state < SANDBOX_STATE_COUNT);
    return state_names[state];
}

bool sandbox_state_of_name(struct str name, enum sandbox_state *ret_state)
{
    for (unsigned i = 0; i < SANDBOX_STATE_COUNT; i++)
        if (str_eq(name, str_of(state_names[i]))) {
            *ret_state = (enum sandbox_state)i;
            return true;
        }
    return false;
}
