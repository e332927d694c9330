#pragma once

/* Code that is evaluated: a value comes back. Part of engine/engine.h. */

#include "engine/caller.h"
#include "isolate/isolate.h"
#include "runtime/hints.h"
#include "runtime/output.h"

struct json_out;

/* Where: a sandbox, a session (its sandbox, made when it has none), or neither: once, in a place
 * that ends with the run. */
struct eval_spec {
    struct str sandbox, session;
    struct str code;
    /* Of a kernel: "python3"; of an isolate: "js". Empty: as `language` says. */
    struct str runtime;
    struct str language; /* "python", "ts", ...; empty: the sandbox's own */
    struct str context;  /* of a jail; empty: the runtime's own */
    bool wants_files;    /* of a jail: what the run does to files below /workspace */
    /* Of a jail: packages that are there before the code runs, and whether one that has a missing
     * module is installed. */
    const struct str *requirements;
    size_t requirement_count;
    bool may_install;
    struct str file; /* for stacks; empty: script.js */
    const struct isolate_module *modules;
    size_t module_count;
    struct engine_pairs env;
    struct hints hints;
    struct str network;     /* one-shot: a policy; empty for none */
    int64_t timeout_ms;     /* 0: the sandbox's; an isolate's is brought into its limits */
    int64_t memory_bytes;   /* one-shot; 0: the configuration's */
    bool wants_text;        /* result.text too */
    enum isolate_lang lang; /* filled in by the engine */
};

/* `kernel` in a jail, else `run` with what is below it. */
struct eval_result {
    struct str sandbox; /* empty when one-shot */
    const struct run_output *kernel;
    struct str context, runtime;
    const struct isolate_result *run;
    enum isolate_lang lang;
    const struct isolate_limits *limits;
    const struct hints *hints;
    size_t code_size;
};

/* Any but on_done may be NULL. Output comes as it is made: lines of a console, bytes of a kernel;
 * the latter are in the result too, up to their limit. */
struct eval_calls {
    void (*on_output)(void *ctx, enum isolate_stream stream, struct str text);
    void (*on_done)(void *ctx, const struct eval_result *result, const struct err *why);
    /* Something a kernel shows; with `main` the value of the last expression. */
    void (*on_value)(void *ctx, const struct kernel_part *parts, size_t count, bool main);
};

/* What the code does wrong is in the result. `why`: INVALID, TOO_LARGE, NOT_FOUND, GONE, BUSY (a
 * sandbox evaluates one thing at a time, few wait), LIMIT, UNSUPPORTED (the tier runs no code). */
struct evaluating; /* good until on_done */
struct evaluating *engine_eval(struct engine *engine, const struct engine_caller *caller,
                               const struct eval_spec *spec, const struct eval_calls *calls,
                               void *ctx);
/* The code waits when it has put out more than fits on the way, until output is wanted again.
 * Consoles of isolates do not wait: they are short. */
void engine_eval_flow(struct evaluating *evaluating, bool stop);

/* A line that was put out, for eval_put_json. */
struct eval_line {
    enum isolate_stream stream;
    struct str text;
};
/* The object that `sandglass run --json` prints; with "sandbox" in it unless one-shot. What a
 * kernel has put out is in its result: lines are an isolate's. */
void eval_put_json(const struct eval_result *result, const struct eval_line *lines,
                   size_t line_count, struct json_out *out);
/* The last event of a stream: the same without what it has told. */
void eval_put_end(const struct eval_result *result, const struct eval_line *lines,
                  size_t line_count, struct json_out *out);
/* For models: {type: "text" | "image/png" | "error", content}. */
void eval_put_short(const struct eval_result *result, const struct eval_line *lines,
                    size_t line_count, struct json_out *out);
