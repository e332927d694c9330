/* The moves of an interpreter's states, as tables, and which states go together. */

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

static const unsigned memory_moves[] = {
    [MEMORY_OWN] = TO(MEMORY_LOST) | TO(MEMORY_MAPPING) | TO(MEMORY_READING),
    [MEMORY_MAPPING] = TO(MEMORY_RESTORED) | TO(MEMORY_LOST),
    [MEMORY_READING] = TO(MEMORY_RESTORED) | TO(MEMORY_LOST),
    [MEMORY_RESTORED] = TO(MEMORY_MAPPING) | TO(MEMORY_READING),
    [MEMORY_LOST] = TO(MEMORY_MAPPING) | TO(MEMORY_READING),
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

void context_set_memory(struct context *context, enum memory_state state)
{
    assert(may_move(memory_moves, context->memory, state));
    context->memory = state;
}

bool context_is_reviving(const struct context *context)
{
    return context->memory == MEMORY_MAPPING || context->memory == MEMORY_READING;
}

void context_assert(const struct context *context)
{
    bool is_there = context->interpreter != NULL;
    bool is_asked = context->process == PROCESS_ASKED;
    assert(is_there == (context->process != PROCESS_NONE));
    assert(is_there == (context->line != LINE_NONE));
    assert(is_asked == (context->inner[0] >= 0));
    assert(is_there || context->quiescent == QUIESCENT_NO);
    assert(is_there || context->copying == NULL);
    assert(is_there || !context_is_reviving(context));
    assert(context->memory_fd < 0 || (is_asked && context_is_reviving(context)));
    assert(!context_is_reviving(context) || context->place->reviving != NULL);
}
