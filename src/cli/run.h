#pragma once

/* For cmd_run.c and its parts: one request to run code, and what to print of its result. */

#include "base/vec.h"
#include "isolate/worker.h"

struct json_out;

struct run_line {
    enum isolate_stream stream;
    struct str text; /* owned */
};

struct run_hint {
    const char *key;
    struct str value;
};

struct run_request {
    struct isolate_call call;
    struct isolate_limits limits;
    const char *lang; /* as it is called outside: "javascript", "typescript" */
    bool as_json;
    VEC(struct run_hint) hints;
    VEC(struct run_line) lines; /* collected for --json */
};

/* The whole answer of --json. `engine` is the runtime's name. */
void run_put_json(struct run_request *request, const struct isolate_result *result,
                  struct json_out *out);

/* Files that `code` imports by relative path, and what those import, from the directory of `file`.
 * Paths and sources belong to `arena`. Links that lead out are refused; a file that is not there is
 * left to the import to report. */
struct arena;
int run_find_modules(const char *file, struct str code, struct arena *arena,
                     struct isolate_module *modules, size_t max, size_t *ret_count,
                     struct err *err) MUST_USE;

/* A line on standard output or error. */
void run_print(enum isolate_stream stream, struct str text);

/* Reads from the terminal until its end; variables stay from one input to the next. */
int run_repl(struct worker *worker, const struct run_request *request, struct err *err);
