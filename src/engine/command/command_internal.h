#pragma once

/* Commands from inside, for command*.c. */

#include "base/err.h"
#include "base/vec.h"
#include "engine/command/command.h"
#include "engine/provider.h"
#include "store/store.h"

struct answer;
struct session;

enum {
    LOG_PIECE_COST = 64,      /* what a piece counts besides its bytes */
    LOG_HEAD_LINE = 64 << 10, /* how far the kept beginning of a log extends to the end of a line */
    LOG_UNFLUSHED_MAX = 1 << 20,
    LOG_UNFLUSHED_LOW = 256 << 10,
    COMMANDS_MAX = 100000,     /* kept when they are over, of all tenants */
    COMMANDS_RECENT = 128,     /* ended and not in use, but kept in memory */
    COMMANDS_RUNNING_MAX = 64, /* in one sandbox; those with open output count */
};

struct command_log_piece {
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
    struct exec *exec;           /* while it runs */
    struct exec *open;           /* it has ended, but processes that it left still put out */
    struct answer *start_answer; /* until its caller has it */
    int starting;                /* what its start still waits for */
    struct err start_err;
    struct timer *timer; /* of its time limit */
    int sent_signal;     /* through the engine; 0: none */
    bool timed_out, is_over_time;
    bool is_complete; /* its end is in the store */
    bool is_unsaved;  /* the store could not record it */
    bool is_counted;  /* as one that is kept */
    bool is_saving;   /* it is being stored again */
    bool is_stopped;  /* its output waits */
    size_t unflushed;
    uint64_t head_cost[3], tail_cost[3]; /* kept, by stream */
    bool is_head_full[3];
    uint64_t lines[3]; /* that were put out, by stream */
    uint64_t cut_end;  /* offset behind the last byte that was not kept */
    VEC(struct command_log_piece) tail[3];
    size_t tail_first[3];
    struct command_log_reader *readers;
    struct command_waiter *waiters;
    VEC(struct answer *) writes; /* who wait for their input to be taken */
    /* Calls under way that point at it. A use count of a cached record, not a struct hold:
     * call-backs do not free commands, and is_wanted of command_kept.c has further conditions. */
    size_t holds;
    bool is_recent; /* not in use: it may be removed from memory */
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
void command_on_closed(void *ctx);
void command_on_time(void *ctx);

/* command_row.c */
void command_save(const struct command *command, struct store_batch *batch);
struct command_info command_info_of_row(const struct store_command *row, struct arena *arena);
/* Adds the command to memory; no command there has its id. */
struct command *command_of_row(struct engine *engine, const struct store_command *row);

/* command_kept.c. A user of a command takes a reference when it starts and releases it when it
 * ends: without references the command may be removed from memory on a later turn of the loop. */
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
struct kept_commands *command_kept_of_tenant(struct engine *engine, struct str tenant);
/* The store has its end, and its log will not grow. */
void command_count(struct command *command);

/* command_log.c */
void command_log_append(struct command *command, enum command_stream stream, struct str bytes);
/* The command has ended and is stored: notifies readers and waiting requests. */
void command_log_complete(struct command *command);
void command_log_drop(struct command *command,
                      const struct err *why); /* it goes: so do its readers */
/* Ends readers that have made the command wait for too long. */
void command_log_drop_stalled(struct command *command, int64_t now);

/* command_reader.c */
void command_tell_waiters(struct command *command, const struct err *why);

/* command_start.c. One of the two ids; session.h's struct for the second. */
int session_or_sandbox_find(struct engine *engine, const struct engine_caller *caller,
                            struct str sandbox_id, struct str session_id,
                            struct sandbox **ret_sandbox, struct session **ret_session,
                            struct err *err) MUST_USE;
/* command_kept.c. Each tick: commands that are not in use are removed from memory. */
void command_tick(struct engine *engine);
void command_save_again(struct engine *engine);
void command_sweep(struct engine *engine);
void command_done_all(struct engine *engine);
/* command_row.c */
int command_load(struct engine *engine, struct err *err) MUST_USE;
/* Those that ran when the last run ended are lost. */
void command_reconcile(struct engine *engine, struct store_batch *batch);

/* Tells the clients that read the sandbox's commands that it was paused, or that it runs again. */
void command_tell_state(struct sandbox *sandbox);
