#pragma once

/* The answer to the caller of a verb: given once, delivered on a later turn of the loop. */

#include "base/err.h"
#include "base/id.h"
#include "engine/engine.h"
#include "engine/key.h"
#include "engine/quota.h"
#include "io/loop.h"

/* Makes the answer report what an earlier call with its key has created. */
struct answer;
typedef void answer_known(struct answer *answer, struct str object);

/* Made when the verb is called, given exactly once, delivered on a later turn of the loop. */
struct answer {
    struct loop_task task;
    struct engine *engine;
    void (*deliver)(struct answer *answer, const struct err *why);
    union {
        engine_done *plain;
        sandbox_done *sandbox;
        sandbox_many_done *many;
        checkpoint_done *checkpoint;
        port_exposed *port;
        command_done *command;
        session_done *session;
        volume_done *volume;
        snapshot_done *snapshot;
        token_done *token;
        approval_done *approval;
    } done;
    void *ctx;
    char id[ID_SIZE]; /* of what it is about */
    uint64_t number;  /* or its order, for sessions */
    void *data;       /* the verb's own */
    enum engine_tier tier;
    char *secret;            /* of a token; wiped */
    struct key_claim *claim; /* of its caller's key; ended when it is delivered */
    struct key_wait wait;
    answer_known *known;
    struct reservation reservation; /* ends when it is delivered */
    struct err err;
    bool failed;
};

struct answer *answer_new(struct engine *engine,
                          void (*deliver)(struct answer *answer, const struct err *why),
                          void *ctx) MUST_USE;
struct answer *answer_plain(struct engine *engine, engine_done *done, void *ctx);
struct answer *answer_sandbox(struct engine *engine, sandbox_done *done, void *ctx);
/* NULL `why` for success. */
void answer_give(struct answer *answer, const struct err *why);
/* Called before a create. 0: continue; -1: `err` is the answer; 1: an earlier call with the same
 * key has the answer, which will be delivered. */
int answer_claim(struct answer *answer, const struct engine_caller *caller, key_is_there *is_there,
                 answer_known *known, struct err *err) MUST_USE;
void answer_fail(struct answer *answer, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);
