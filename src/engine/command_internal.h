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
    bool is_unsaved;  /* the store could not be told of it */
    bool is_saving;   /* it is being told again */
    bool is_stopped;  /* its output waits */
    size_t unflushed;
    uint64_t head[3], tail_bytes[3]; /* kept, by stream */
    VEC(struct log_piece) tail[3];
    size_t tail_first[3];
    struct log_reader *readers;
    struct command_waiter *waiters;
    VEC(struct answer *) writes; /* who wait for their input to be taken */
    size_t holds;                /* calls under way that point at it */
    bool is_recent;              /* nobody looks at it: it may leave memory */
    struct command *newer, *older;
};

/* What the store keeps of one tenant's commands that are over. */
struct kept_commands {
    struct engine *engine;
    struct buf tenant;
    uint64_t count, bytes; /* bytes of logs, about */
    bool is_dropping;
};

/* command.c. In memory; NULL with NOT_FOUND, also for another tenant's. */
struct command *command_find(struct engine *engine, const struct engine_caller *caller,
                             struct str id, struct err *err) MUST_USE;
struct command *command_free(struct command *command);
void command_on_end(void *ctx, const struct exec_end *end, const struct err *why);
void command_on_time(void *ctx);

/* command_row.c */
void command_save(const struct command *command, struct store_batch *batch);
struct command_info command_info_of_row(const struct store_command *row, struct arena *arena);
/* Into memory; there is none of its id. */
struct command *command_of_row(struct engine *engine, const struct store_command *row);

/* command_kept.c. Whoever begins to look at a command takes it, whoever ceases lets it rest: then
 * it may leave memory, on a later turn of the loop, unless somebody else looks at it. */
void command_take(struct command *command);
void command_rest(struct command *command);
/* Until command_deliver. */
void command_hold(struct command *command);
/* The end of an answer about a command; gives up one hold of it. */
void command_deliver(struct answer *answer, const struct err *why);
/* `call` comes at once for what is in memory, else when the store has been asked. The command is
 * good until `call` returns; NULL with NOT_FOUND or why it could not be read. */
typedef void command_ready(void *ctx, struct command *command, const struct err *why);
void command_bring(struct engine *engine, const struct engine_caller *caller, struct str id,
                   command_ready *call, void *ctx);
struct kept_commands *kept_of_tenant(struct engine *engine, struct str tenant);
/* The store has its end. */
void command_count(struct command *command);

/* command_log.c */
void log_append(struct command *command, enum command_stream stream, struct str bytes);
/* The command has ended and the store has it: readers and waiters hear so. */
void log_complete(struct command *command);
void log_drop(struct command *command, const struct err *why); /* it goes: so do its readers */
