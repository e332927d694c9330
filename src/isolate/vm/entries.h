#pragma once

/* The functions of the bootstrap (bootstrap/core.js) that the host calls: values that are the same
 * in every copy of the template. Only for boot.c and the engine. */

#include "isolate/vm/vm.h"

#define ENTRY_MAP(X)                                                                               \
    X(TICK, "tick")                                                                                \
    X(SETTLE, "settle")                                                                            \
    X(ABANDON, "abandon")                                                                          \
    X(SET_BRIDGES, "setBridges")                                                                   \
    X(SET_ENV, "setEnv")                                                                           \
    X(PEEK, "peek")                                                                                \
    X(STOP, "stop")                                                                                \
    X(KEEP, "keep")

enum entry {
#define X(name, text) ENTRY_##name,
    ENTRY_MAP(X)
#undef X
        ENTRY_COUNT
};

static const char *const entry_names[] = {
#define X(name, text) text,
    ENTRY_MAP(X)
#undef X
};

struct entries {
    vm_value at[ENTRY_COUNT];
};
