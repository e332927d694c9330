#pragma once

/* For cmd_run.c and its parts: one request to run code, and what to print of its result. */

#include "base/vec.h"
#include "engine/code/eval.h"
#include "isolate/client/worker.h"
#include "runtime/hints.h"

struct cli_call;
struct config;
struct json_out;
struct run_bridges;

struct run_request {
    struct isolate_call call;
    struct isolate_limits limits;
    struct worker *worker; /* that runs it */
    bool as_json;
    bool is_unread; /* the output was closed by its reader: the code was interrupted */
    struct hints hints;
    struct run_bridges *bridges;
    VEC(struct eval_line) lines; /* collected for --json */
};

/* What code may call outside, by --allow-host, --secret, the configuration and the hints. Bridge
 * calls are carried out on this thread, while it waits for the worker. */
int run_bridges_new(const struct cli_call *call, const struct config *config,
                    const struct hints *hints, struct run_bridges **ret_bridges,
                    struct err *err) MUST_USE;
struct run_bridges *run_bridges_free(struct run_bridges *bridges); /* before the worker */
DEFINE_FREEP(run_bridges)
const char *const *run_bridges_names(const struct run_bridges *bridges);
/* The variables that hold placeholders, as members of an object. */
void run_bridges_put_env(const struct run_bridges *bridges, struct json_out *out);
/* Before each run: calls end with its deadline at the latest. */
void run_bridges_begin(struct run_bridges *bridges, int64_t timeout_ms);
/* The code has called api.getWeather without a place. */
bool run_bridges_used_hints(const struct run_bridges *bridges);
/* Calls under way are ended without an answer. */
void run_bridges_drop(struct run_bridges *bridges);
/* For struct worker_host; `user` is the request. */
bool run_on_bridge(void *user, struct worker *worker, uint64_t call, struct str name,
                   struct str args_json, const char **ret_why);
void run_on_cancel(void *user, uint64_t call);
bool run_on_wait(void *user, int fd, bool writes, int64_t ms);

/* Files that `code` imports by relative path, and what those import, from the directory of `file`.
 * Paths and sources belong to `arena`. Links that lead out are refused; a file that is not there is
 * left to the import to report. */
struct arena;
int run_find_modules(const char *file, struct str code, struct arena *arena,
                     struct isolate_module *modules, size_t max, size_t *ret_count,
                     struct err *err) MUST_USE;

/* What --env gives: NAME=VALUE, or NAME, whose value is ours; false when we have none. */
bool run_env(const char *given, struct str *ret_name, struct str *ret_value);

/* --memory MB: a number without a unit is MiB; else as cli_read_memory. */
int run_read_memory(const char *text, bool may_be_none, int64_t *ret_bytes,
                    struct err *err) MUST_USE;

/* Prints a line on standard output or error. False if the reader has closed it. */
bool run_print(enum isolate_stream stream, struct str text);

/* A prompt: `run` gets what was typed so far, and whether its last line was empty. */
enum repl_verdict {
    REPL_NEXT, /* it ran: a new input follows */
    REPL_MORE, /* it is not whole: another line follows */
    REPL_END,  /* nothing can run any more; `err` may say why */
};
struct repl {
    const char *banner;
    enum repl_verdict (*run)(void *ctx, struct str code, bool is_last, struct err *err);
    void *ctx;
};
int repl_run(const struct repl *repl, struct err *err);

/* Reads from the terminal until its end; variables stay from one input to the next. */
int run_repl(struct worker *worker, struct run_request *request, struct err *err);

/* --sandbox, --session: the same in a place of a running server. */
int run_in_server(const struct cli_call *call, struct str code, struct err *err);

/* --runtime: the same in an interpreter in a fresh jail; a prompt when there is no code. Gives the
 * exit code. */
int run_in_interpreter(const struct cli_call *call, const struct config *config, struct str name,
                       const struct str *code, struct err *err);
