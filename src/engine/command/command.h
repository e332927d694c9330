#pragma once

/* Commands: programs that run in a sandbox, and the logs they leave. Part of engine/engine.h. */

#include "engine/caller.h"
#include "engine/time_limit.h"

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
    int64_t timeout_ms;      /* 0: the sandbox's or the configuration's; -1: none */
    bool is_tools;           /* timeout_ms is the default of a tool, not the caller's wish */
    bool is_detached;        /* no caller waits for its end: only a limit of the request applies */
    bool tty;
    uint16_t rows, cols;
    bool waits; /* no client sees it before its end: its record may be stored then */
};

enum command_state { COMMAND_RUNNING, COMMAND_ENDED };
/* Why it ended. */
enum command_end {
    COMMAND_EXITED,  /* exited on its own: `code`, or `signal` */
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
    bool is_of_session;           /* of COMMAND_OOM: its sandbox is a session's */
    int32_t pid;                  /* in the sandbox, while it runs; 0: unknown */
    int64_t started_ms, ended_ms; /* dates */
    int64_t wall_us, user_us, system_us, peak_bytes; /* once it has ended; -1: unknown */
    int code; /* 0 to 255, -1 when a signal ended it or it is not known */
    int signal;
    enum command_end end;
    struct str why_stopped;  /* why its sandbox was, when that is known */
    struct time_limit limit; /* of its time, in effect */
    int64_t memory_bytes;    /* of COMMAND_OOM: the limit of its sandbox then; 0: unknown */
    uint64_t log_end;        /* offset behind the last byte */
    uint64_t bytes[3];       /* by stream, all that were put out */
    bool truncated;          /* the log has a gap: its middle was not kept */
    uint64_t missing;        /* bytes of that gap, of all streams */
    bool is_open; /* it has ended, but processes that it left hold its output: the log may grow */
};

/* Why the command ended when it did not exit on its own, and what the user can do: one line for
 * people. Empty while it runs. */
void command_put_reason(const struct command_info *command, struct buf *out);

typedef void command_done(void *ctx, const struct command_info *command, const struct err *why);

/* `done` comes when it runs. INVALID, NOT_FOUND (no such program), FORBIDDEN, GONE, LIMIT,
 * UNSUPPORTED (the tier has no commands). */
void engine_command_start(struct engine *engine, const struct engine_caller *caller,
                          const struct command_spec *spec, command_done *done, void *ctx);
/* As it is. One that is over may have to be read from the store first; from `done` on, and at least
 * until that returns, the calls below that answer at once find it. */
void engine_command_get(struct engine *engine, const struct engine_caller *caller, struct str id,
                        command_done *done, void *ctx);
/* The same at once, for a command that runs or that a client reads or waits for; false for
 * others. */
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

/* Calls `done` when the command has ended and its log is complete; TIMEOUT after `timeout_ms` (-1:
 * none), which does not affect the command; CONFLICT when its sandbox is paused before that. Works
 * for a running command, or within the `done` of engine_command_get: others are NOT_FOUND. */
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

/* One piece of a log. Offsets count the bytes of all streams in the order of their coming. */
struct log_chunk {
    uint64_t offset;
    enum command_stream stream;
    struct str bytes;
};

/* What is missing of one stream before the piece that follows. */
struct log_gap {
    uint64_t offset; /* offset where the log continues */
    enum command_stream stream;
    uint64_t bytes;
    int64_t lines; /* -1: not known */
};

enum log_mode {
    LOG_KEPT,   /* what the log has now */
    LOG_FOLLOW, /* then new output while the command runs; a slow reader misses some of it */
    LOG_ATTACH, /* the same, but the command waits for this reader rather than that it misses any */
};

struct command_log_reader;
struct sandbox_info;
struct log_calls {
    void (*on_chunk)(void *ctx, const struct log_chunk *chunk);
    /* Nothing more will come: the log was read to its end (`why` NULL; one that follows: the
     * command has ended), or could not be. The reader stays the caller's to free. */
    void (*on_end)(void *ctx, const struct command_info *command, const struct err *why);
    /* May be NULL. Before the piece (or the end) that it is about. */
    void (*on_gap)(void *ctx, const struct log_gap *gap);
    /* One that follows: its sandbox was paused, or runs again. NULL: the pause ends the reader with
     * CONFLICT. */
    void (*on_state)(void *ctx, const struct sandbox_info *sandbox);
};
/* From `offset` on; past the end is INVALID. Any number of readers may read one log; the slowest
 * that is attached sets the command's pace. One that is attached and has taken nothing for
 * logs.stalled_seconds while the command waited for it ends with TIMEOUT. NOT_FOUND as with
 * engine_command_wait. */
int engine_log_open(struct engine *engine, const struct engine_caller *caller, struct str id,
                    uint64_t offset, enum log_mode mode, const struct log_calls *calls, void *ctx,
                    struct command_log_reader **ret_reader, struct err *err) MUST_USE;
struct command_log_reader *
command_log_reader_free(struct command_log_reader *reader); /* no call-back comes after it */
DEFINE_FREEP(command_log_reader)
/* A paused reader catches up from the store; an attached one makes the command wait once the store
 * has reached its limit. */
void command_log_reader_pause(struct command_log_reader *reader);
void command_log_reader_resume(struct command_log_reader *reader);
