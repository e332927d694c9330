#pragma once

/* Commands: programs that run in a sandbox, and the logs they leave. Part of engine/engine.h. */

#include "engine/caller.h"

enum {
    COMMAND_ARGS_MAX = 4096,
    COMMAND_STDIN_MAX = 4 << 20, /* bytes that wait for the command to read them */
    COMMAND_CHUNK_MAX = 32 << 10,
};

enum command_stream { COMMAND_STDOUT, COMMAND_STDERR, COMMAND_TTY };
const char *command_stream_name(enum command_stream stream);

/* Where it runs: a sandbox or a session (its sandbox, made when it has none). */
struct command_spec {
    struct str sandbox, session;
    const struct str *argv; /* either this */
    size_t arg_count;
    struct str shell;        /* or this, for sh -c */
    struct str cwd;          /* absolute; empty: /workspace */
    struct engine_pairs env; /* besides the sandbox's */
    struct str user;         /* empty or "sandbox"; others are UNSUPPORTED */
    bool has_stdin;          /* engine_command_write follows; else it reads nothing */
    struct str input;        /* what it reads first */
    int64_t timeout_ms;      /* 0: the sandbox's; -1: none */
    bool tty;
    uint16_t rows, cols;
    bool waits; /* nobody outside hears of it before its end: its record may come with that */
};

enum command_state { COMMAND_RUNNING, COMMAND_ENDED };
/* Why it ended. */
enum command_end {
    COMMAND_EXITED,  /* by itself: `code`, or `signal` of its own doing */
    COMMAND_KILLED,  /* engine_command_signal ended it */
    COMMAND_TIMEOUT, /* its time was up */
    COMMAND_OOM,     /* the sandbox's memory was */
    COMMAND_STOPPED, /* its sandbox was paused, stopped or rolled back */
    COMMAND_LOST,    /* the daemon or its sandbox died; how it ended is not known */
    COMMAND_END_COUNT
};
const char *command_end_name(enum command_end end);

struct command_info {
    struct str id, sandbox, cwd, user;
    const struct str *argv;
    size_t arg_count;
    struct str shell;
    enum command_state state;
    bool tty;
    int64_t started_ms, ended_ms;                    /* dates */
    int64_t wall_us, user_us, system_us, peak_bytes; /* once it has ended; -1: unknown */
    int code; /* 0 to 255, -1 when a signal ended it or it is not known */
    int signal;
    enum command_end end;
    uint64_t log_end;  /* offset behind the last byte */
    uint64_t bytes[3]; /* by stream, all that were put out */
    bool truncated;    /* the log has a gap: its middle was not kept */
};

typedef void command_done(void *ctx, const struct command_info *command, const struct err *why);

/* `done` comes when it runs. INVALID, NOT_FOUND (no such program), FORBIDDEN, GONE, LIMIT,
 * UNSUPPORTED (the tier has no commands). */
void engine_command_start(struct engine *engine, const struct engine_caller *caller,
                          const struct command_spec *spec, command_done *done, void *ctx);
/* As it is. One that is over may have to be read from the store first; from `done` on, and at least
 * until that returns, the calls below that answer at once find it. */
void engine_command_get(struct engine *engine, const struct engine_caller *caller, struct str id,
                        command_done *done, void *ctx);
/* The same at once, for one that runs or that somebody reads or waits for; false for others. */
bool engine_command_peek(struct engine *engine, const struct engine_caller *caller, struct str id,
                         struct command_info *ret_command);

struct command_filter {
    struct str sandbox; /* empty for all */
    bool running_only;
    struct engine_page page;
};
struct command_list {
    struct command_info *items;
    size_t count;
    char next[ENGINE_CURSOR_SIZE];
};
/* The list is borrowed. */
typedef void command_list_done(void *ctx, const struct command_list *list, const struct err *why);
void engine_command_list(struct engine *engine, const struct engine_caller *caller,
                         const struct command_filter *filter, command_list_done *done, void *ctx);

/* `done` comes when it has ended and its log is complete; TIMEOUT after `timeout_ms` (-1: none),
 * which leaves the command alone. For one that runs, or in the `done` of engine_command_get: others
 * are NOT_FOUND. */
struct command_waiter;
int engine_command_wait(struct engine *engine, const struct engine_caller *caller, struct str id,
                        int64_t timeout_ms, command_done *done, void *ctx,
                        struct command_waiter **ret_waiter, struct err *err) MUST_USE;
/* Before `done`: then it never comes. In `done` or later: nothing happens but that memory goes. */
struct command_waiter *command_waiter_free(struct command_waiter *waiter);
DEFINE_FREEP(command_waiter)

/* Standard input, or the keys of its terminal. LIMIT when COMMAND_STDIN_MAX waits already: then
 * come back after `done` of an earlier call. CONFLICT when it has none or is closed. */
void engine_command_write(struct engine *engine, const struct engine_caller *caller, struct str id,
                          struct str bytes, engine_done *done, void *ctx);
void engine_command_close_stdin(struct engine *engine, const struct engine_caller *caller,
                                struct str id, engine_done *done, void *ctx);
/* To its process group. CONFLICT when it has ended. */
void engine_command_signal(struct engine *engine, const struct engine_caller *caller, struct str id,
                           int signo, engine_done *done, void *ctx);
void engine_command_resize(struct engine *engine, const struct engine_caller *caller, struct str id,
                           uint16_t rows, uint16_t cols, engine_done *done, void *ctx);

/* One piece of a log. Offsets count the bytes of all streams in the order of their coming; a piece
 * that begins behind the end of the one before tells of a gap. */
struct log_chunk {
    uint64_t offset;
    enum command_stream stream;
    struct str bytes;
};

struct log_reader;
struct log_calls {
    void (*on_chunk)(void *ctx, const struct log_chunk *chunk);
    /* Nothing more will come: the log was read to its end (`why` NULL; with `follow` the command
     * has ended), or could not be. The reader stays the caller's to free. */
    void (*on_end)(void *ctx, const struct command_info *command, const struct err *why);
};
/* From `offset` on; past the end is INVALID. With `follow` it goes on while the command does. Any
 * number of readers may read one log, each at its own pace. NOT_FOUND as with engine_command_wait.
 */
int engine_log_open(struct engine *engine, const struct engine_caller *caller, struct str id,
                    uint64_t offset, bool follow, const struct log_calls *calls, void *ctx,
                    struct log_reader **ret_reader, struct err *err) MUST_USE;
struct log_reader *log_reader_free(struct log_reader *reader); /* no call-back comes after it */
DEFINE_FREEP(log_reader)
/* A reader that waits holds nobody up: it catches up from the store. */
void log_reader_pause(struct log_reader *reader);
void log_reader_resume(struct log_reader *reader);
