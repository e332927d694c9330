#pragma once

/* Contexts: the interpreters of a sandbox that run code. Part of engine/engine.h.
 *
 * Each has its variables, its working directory and its environment, and runs one thing at a time;
 * several run side by side. The first run of a language creates a context named after its runtime
 * ("python3"); others are created by requests and have random ids. The next run restarts an
 * interpreter that has died. */

#include "engine/caller.h"

enum { CONTEXTS_MAX = 16, CONTEXT_REASON_MAX = 160 }; /* of one sandbox; bytes of a reason */

enum context_state {
    CONTEXT_COLD, /* the interpreter has not started or has exited */
    CONTEXT_IDLE,
    CONTEXT_BUSY,
};
const char *context_state_name(enum context_state state);

struct context_info {
    struct str id, runtime, language, cwd;
    enum context_state state;
    size_t waiting;     /* runs behind the one under way */
    uint64_t run_count; /* since its interpreter was started */
    int64_t created_ms;
    bool is_copy;      /* it came with a fork of the sandbox */
    bool is_live;      /* and its variables came along */
    struct str reason; /* or why they did not */
};

enum context_op {
    CONTEXT_CREATE,    /* runtime or language, cwd, env; gives it */
    CONTEXT_LIST,      /* gives all */
    CONTEXT_GET,       /* id, as the following */
    CONTEXT_DELETE,    /* with its interpreter; gives none */
    CONTEXT_RESTART,   /* its variables go; what runs is ended */
    CONTEXT_INTERRUPT, /* what runs is; variables stay. Nothing happens when nothing runs */
};

struct context_request {
    enum context_op op;
    struct str id;
    struct str runtime, language; /* empty: the sandbox's own */
    struct str cwd;               /* empty: /workspace */
    struct engine_pairs env;
};

typedef void context_done(void *ctx, const struct context_info *contexts, size_t count,
                          const struct err *why);

/* In a sandbox or a session, one of the two; it is brought to life. NOT_FOUND, LIMIT, UNSUPPORTED
 * for tiers that have none, UNAVAILABLE for a runtime that this machine lacks. */
void engine_context(struct engine *engine, const struct engine_caller *caller, struct str sandbox,
                    struct str session, const struct context_request *request, context_done *done,
                    void *ctx);
