#pragma once

/* A verb that waits until its sandbox can take it. Only for engine/sandbox/. */

#include "engine/sandbox/sandbox_internal.h"

/* An operation that waits until the sandbox runs, or until its state change has finished. */
struct sandbox_verb {
    struct want want;
    struct answer *answer;
    void (*run)(struct sandbox_verb *verb, struct sandbox *sandbox);
    int64_t timeout_ms;
    char *text;
};

/* Finds the sandbox, then calls `run` once it is in a state that lasts, or runs if that is needed;
 * gives the answer if that cannot be. */
void sandbox_verb_start(struct answer *answer, const struct engine_caller *caller, struct str id,
                        bool needs_running,
                        void (*run)(struct sandbox_verb *verb, struct sandbox *sandbox),
                        int64_t timeout_ms, struct str text);
/* The answer is CONFLICT: "... and cannot be VERB". */
void sandbox_verb_refuse_state(struct answer *answer, const struct sandbox *sandbox,
                               const char *verb);
/* The answer is UNSUPPORTED. */
void sandbox_verb_refuse(struct answer *answer, const struct sandbox *sandbox, const char *verb);
