/* The moves of an interpreter's states, as tables. */

#include "tiers/jail/code/context_state.h"

#include "tiers/jail/code/interpreter.h"

#define TO(state) (1u << (state))

static const unsigned process_moves[] = {
    [PROCESS_NONE] = TO(PROCESS_ASKED),
    [PROCESS_ASKED] = TO(PROCESS_STARTED) | TO(PROCESS_ENDED) | TO(PROCESS_NONE),
    [PROCESS_STARTED] = TO(PROCESS_ENDED) | TO(PROCESS_NONE),
    [PROCESS_ENDED] =
        TO(PROCESS_ASKED) | TO(PROCESS_NONE), /* a refused fork is started otherwise */
};

static const unsigned line_moves[] = {
    [LINE_NONE] = TO(LINE_OPEN),
    [LINE_OPEN] = TO(LINE_READY) | TO(LINE_GONE) | TO(LINE_NONE),
    [LINE_READY] = TO(LINE_GONE) | TO(LINE_NONE),
    [LINE_GONE] = TO(LINE_NONE),
};

static const unsigned quiescent_moves[] = {
    [QUIESCENT_NO] = TO(QUIESCENT_ASKED),
    [QUIESCENT_ASKED] = TO(QUIESCENT_YES) | TO(QUIESCENT_NO), /* it exited meanwhile */
    [QUIESCENT_YES] = TO(QUIESCENT_NO),
};

/* To stay is no move. */
static bool may_move(const unsigned *moves, unsigned from, unsigned to)
{
    return from == to || (moves[from] & TO(to)) != 0;
}

void context_set_process(struct context *context, enum process_state state)
{
    assert(may_move(process_moves, context->process, state));
    context->process = state;
}

void context_set_line(struct context *context, enum line_state state)
{
    assert(may_move(line_moves, context->line, state));
    context->line = state;
}

void context_set_quiescent(struct context *context, enum quiescent_state state)
{
    assert(may_move(quiescent_moves, context->quiescent, state));
    context->quiescent = state;
}
