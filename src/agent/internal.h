#pragma once

/* A tool's run from inside, for the tool_*.c files. */

#include "agent/tool.h"
#include "base/err.h"
#include "base/excerpt.h"
#include "base/vec.h"
#include "config/config.h"

struct tool_run {
    const struct tool *tool;
    const struct tool_calls *calls;
    void *ctx;
    struct engine *engine;
    const struct config *config;
    struct loop *loop;
    struct engine_caller caller; /* texts are the arena's */
    struct str session, sandbox; /* one of the two */
    struct json_t *args;
    struct arena arena;
    VEC(struct tool_image) images;
    bool fits_schema; /* of an answer that is an error */
    bool is_canceled; /* the caller left; freed when the engine has answered */
    /* Ends what the engine does for it; NULL: that needs no ending. Frees nothing. */
    void (*cancel)(struct tool_run *run);
    void *state; /* the tool's own, of the arena */
};

/* The checked arguments; absent ones are empty. */
struct str tool_arg_str(const struct tool_run *run, const char *name);
/* A relative path is meant below /workspace, none is /workspace itself. */
struct str tool_arg_path(struct tool_run *run, const char *name);
int64_t tool_arg_int(const struct tool_run *run, const char *name, int64_t fallback);
/* A limit of time: 0 and "none" give 0, no limit; -1: not given. */
int64_t tool_arg_limit(const struct tool_run *run, const char *name);
bool tool_arg_bool(const struct tool_run *run, const char *name);

/* Where the call works: gives the sandbox's id, empty when the session has none yet. */
struct tool_place {
    enum engine_tier tier;
    struct str sandbox;
};
int tool_place(const struct tool_run *run, struct tool_place *ret_place, struct err *err) MUST_USE;
/* The same for the engine's file verbs. */
struct file_place tool_file_place(const struct tool_run *run);

/* The last word: `buf` holds one JSON object. */
void tool_end(struct tool_run *run, const struct buf *json);
/* The same, for an answer that says that what was asked for failed. */
void tool_end_failed(struct tool_run *run, const struct buf *json);
/* `hint` says what to try next; NULL: the code's own. */
void tool_fail(struct tool_run *run, const struct err *why, const char *hint);
/* From within a tool's start: answers come later. The hint is static. */
void tool_fail_later(struct tool_run *run, const struct err *why, const char *hint);
/* If the caller left: frees the run and returns true. Call-backs of the engine begin with it. */
bool tool_is_over(struct tool_run *run);
void tool_output(struct tool_run *run, bool is_stderr, struct str text);

/* Text of at most `max` bytes: its head and its tail, with a line between that tells what is
 * missing. Cut between characters. */
void tool_put_cut(struct json_out *out, struct str text, size_t max);
/* Up to TOOL_OUTPUT_MAX of it. */
void tool_put_excerpt(struct json_out *out, const struct excerpt *text);

void tool_run_code(struct tool_run *run);
void tool_search_docs(struct tool_run *run);
void tool_bash(struct tool_run *run);
void tool_bash_output(struct tool_run *run);
void tool_bash_stop(struct tool_run *run);
void tool_read(struct tool_run *run);
void tool_write(struct tool_run *run);
void tool_edit(struct tool_run *run);
void tool_glob(struct tool_run *run);
void tool_grep(struct tool_run *run);
void tool_list(struct tool_run *run);
void tool_delete(struct tool_run *run);
void tool_exists(struct tool_run *run);
void tool_move(struct tool_run *run);
void tool_undo(struct tool_run *run);
