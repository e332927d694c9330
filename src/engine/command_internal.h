#pragma once

/* Commands from inside, for command*.c. */

#include "engine/internal.h"

enum {
    LOG_HALF_BYTES = 512 << 10, /* kept of each stream: its first and its last */
    LOG_UNFLUSHED_MAX = 1 << 20,
    LOG_UNFLUSHED_LOW = 256 << 10,
    COMMAND_TTL_MS = 86400000,
    COMMAND_GRACE_MS = 2000,
};
#define LOG_TOTAL_MAX ((uint64_t)1 << 30)

struct log_piece {
    uint64_t start;
    size_t len;
};

struct command {
    struct engine *engine;
    struct command_info info;
    struct arena arena;
    struct str tenant;
    int64_t ord;
    const struct provider_table *table;
    struct exec *exec; /* while it runs */
    struct answer *start_answer;
    int starting; /* what its start still waits for */
    struct err start_err;
    struct timer *timer; /* of its time limit */
    int sent_signal;     /* through the engine; 0: none */
    bool timed_out, is_over_time;
    bool is_complete; /* its end is in the store */
    bool is_stopped;  /* its output waits */
    size_t unflushed;
    uint64_t head[3], tail_bytes[3]; /* kept, by stream */
    VEC(struct log_piece) tail[3];
    size_t tail_first[3];
    struct log_reader *readers;
    struct command_waiter *waiters;
    VEC(struct answer *) writes; /* who wait for their input to be taken */
};

struct command *command_find(struct engine *engine, const struct engine_caller *caller,
                             struct str id, struct err *err) MUST_USE;
void command_save(const struct command *command, struct store_batch *batch);
struct command *command_free(struct command *command);
int command_load(struct engine *engine, struct err *err) MUST_USE;

/* command_log.c */
void log_append(struct command *command, enum command_stream stream, struct str bytes);
/* The command has ended and the store has it: readers and waiters hear so. */
void log_complete(struct command *command);
void log_drop(struct command *command, const struct err *why); /* it goes: so do its readers */
