#pragma once

/* Code that is evaluated: a value comes back. Part of engine/engine.h. */

#include "engine/sandbox/sandbox.h"
#include "engine/time_limit.h"
#include "isolate/inside/isolate.h"
#include "runtime/hints.h"
#include "runtime/output.h"

struct config;
struct json_out;

/* Where: a sandbox, a session (its sandbox, made when it has none), or neither: once, in a place
 * that ends with the run. */
struct eval_spec {
    struct str sandbox, session;
    struct str code;
    /* Of an interpreter: "python3"; of an isolate: "js". Empty: as `language` says. */
    struct str runtime;
    struct str language; /* "python", "ts", ...; empty: the sandbox's own */
    struct str context;  /* of a jail; empty: the runtime's own */
    bool wants_files;    /* of a jail: what the run does to files below /workspace */
    /* For jails: packages that are installed before the code runs, and whether the package of a
     * missing module is installed. */
    const struct str *requirements;
    size_t requirement_count;
    bool may_install;
    struct str file; /* for stacks; empty: script.js */
    const struct isolate_module *modules;
    size_t module_count;
    struct engine_pairs env;
    struct hints hints;
    struct str network;             /* one-shot: a policy; empty for none */
    struct sandbox_secrets secrets; /* one-shot, too */
    int64_t timeout_ms;             /* 0: the sandbox's or the configuration's; -1: none */
    int64_t memory_bytes;           /* one-shot; 0: the configuration's */
    bool wants_text;                /* result.text too */
    enum isolate_lang lang;         /* filled in by the engine, as the next */
    struct time_limit limit;
};

/* `interpreter` in a jail, else `run` with what is below it. */
struct eval_result {
    struct str sandbox; /* empty when one-shot */
    const struct run_output *interpreter;
    struct str context, runtime;
    const struct isolate_result *run;
    enum isolate_lang lang;
    const struct isolate_limits *limits;
    const struct hints *hints;
    bool used_hints; /* the code called api.getWeather without a place */
    size_t code_size;
    struct loss loss;   /* of the variables of earlier runs, since the last run in this context */
    uint64_t unkept[2]; /* of an isolate: lines that a caller of eval_put_json has left out of its
                           `lines`, because one answer does not hold more */
};

/* Any but on_done may be NULL. Output comes as it is made, text to be put behind what came before:
 * whole lines of a console, bytes of an interpreter; the latter are in the result too, up to their
 * limit.
 */
struct eval_calls {
    void (*on_output)(void *ctx, enum isolate_stream stream, struct str text);
    void (*on_done)(void *ctx, const struct eval_result *result, const struct err *why);
    /* Something an interpreter shows; with `main` the value of the last expression. */
    void (*on_value)(void *ctx, const struct interpreter_part *parts, size_t count, bool main);
    /* Its sandbox was paused, or runs again. NULL: a pause answers the call with CONFLICT; the code
     * continues when the sandbox is resumed. */
    void (*on_state)(void *ctx, const struct sandbox_info *sandbox);
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

/* The limits of an isolate, by the configuration. */
struct isolate_limits eval_limits_of(const struct config *config);

/* A piece that was put out, with its line's end, for eval_put_json. */
struct eval_line {
    enum isolate_stream stream;
    struct str text;
};
/* The object that `sandglass run --json` prints; with "sandbox" in it unless one-shot. The output
 * of an interpreter is in its result; `lines` are only for isolates. */
void eval_put_json(const struct eval_result *result, const struct eval_line *lines,
                   size_t line_count, struct json_out *out);
/* The last event of a stream: the same without what the stream has already sent. */
void eval_put_end(const struct eval_result *result, const struct eval_line *lines,
                  size_t line_count, struct json_out *out);
/* Console calls of an isolate that were not kept, a line for each stream with its setting; nothing
 * when all were. */
void eval_put_dropped(const struct isolate_result *run, const struct isolate_limits *limits,
                      struct buf *out);
/* For models: {type: "text" | "image/png" | "error", content}. */
void eval_put_short(const struct eval_result *result, const struct eval_line *lines,
                    size_t line_count, struct json_out *out);
