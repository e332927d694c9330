#pragma once

/* Why the variables of earlier runs were lost, as an answer of run_code reports it. */

#include "base/str.h"

struct buf;
struct json_out;

/* name, wire name, the sentence's middle: "Variables of earlier runs were lost: MIDDLE, at DATE" */
#define LOSS_MAP(X)                                                                                \
    X(DORMANT, "dormant", "the session was dormant and its interpreters were closed")              \
    X(RESTART, "restart", "the server was restarted")                                              \
    X(ROLLBACK, "rollback", "the sandbox was rolled back to a checkpoint")                         \
    X(TIMEOUT, "timeout",                                                                          \
      "a run reached its time limit and ignored the interrupt, so its interpreter was killed")     \
    X(OUT_OF_MEMORY, "out_of_memory",                                                              \
      "the memory limit was reached and the interpreter was killed")                               \
    X(VOLUME_EXPIRED, "volume_expired",                                                            \
      "the session was unused for longer than its volume's TTL; its files in /workspace were "     \
      "deleted")                                                                                   \
    X(VOLUME_DELETED, "volume_deleted",                                                            \
      "the session's volume was deleted with its files in /workspace")                             \
    X(EXITED, "exited", "the interpreter exited")                                                  \
    X(CONTEXT_RESTART, "context_restart", "the context was restarted")                             \
    X(SANDBOX_ENDED, "sandbox_ended", "the sandbox ended and was replaced by another one")         \
    X(FORK, "fork", "this sandbox is a fork, and the interpreter could not be copied")

enum loss_reason {
    LOSS_NONE,
#define X(name, wire, text) LOSS_##name,
    LOSS_MAP(X)
#undef X
        LOSS_COUNT
};

/* Nothing was lost: reason LOSS_NONE. */
struct loss {
    enum loss_reason reason;
    int64_t at_ms; /* a date */
};

const char *loss_name(enum loss_reason reason); /* NULL for LOSS_NONE */
bool loss_of_name(struct str name, enum loss_reason *ret_reason) MUST_USE;

const char *loss_cause(enum loss_reason reason); /* the sentence's middle */

/* "Variables of earlier runs were lost: ..., at 2026-01-02T03:04:05Z; define them again." */
void loss_put_text(const struct loss *loss, struct buf *out);
/* The same with a newline behind it; nothing without a loss. */
void loss_put_line(const struct loss *loss, struct buf *out);
/* stateLost, stateLostReason, stateLostAt, stateLostMessage; the last three null without a loss. */
void loss_put_json(const struct loss *loss, struct json_out *out);
