#pragma once

/* Code that is evaluated: a value comes back. Part of engine/engine.h. */

#include "engine/sandbox.h"
#include "isolate/isolate.h"
#include "runtime/hints.h"

struct json_out;

/* Where: a sandbox, a session (its sandbox, made when it has none), or neither: once, in a place
 * that ends with the run. */
struct eval_spec {
    struct str sandbox, session;
    struct str code;
    enum isolate_lang lang;
    struct str file; /* for stacks; empty: script.js */
    const struct isolate_module *modules;
    size_t module_count;
    struct engine_pairs env;
    struct hints hints;
    struct str network;             /* one-shot: a policy; empty for none */
    struct sandbox_secrets secrets; /* one-shot, too */
    int64_t timeout_ms;   /* 0: the configuration's; brought into ISOLATE_TIMEOUT_MIN_MS, _MAX_MS */
    int64_t memory_bytes; /* one-shot; 0: the configuration's */
    bool wants_text;      /* result.text too */
};

struct eval_result {
    struct str sandbox; /* empty when one-shot */
    enum isolate_lang lang;
    const struct isolate_result *run;
    const struct isolate_limits *limits;
    const struct hints *hints;
    size_t code_size;
};

/* Any but on_done may be NULL. Output comes as it is made and is not kept. */
struct eval_calls {
    void (*on_output)(void *ctx, enum isolate_stream stream, struct str line);
    void (*on_done)(void *ctx, const struct eval_result *result, const struct err *why);
};

/* What the code does wrong is in the result. `why`: INVALID, TOO_LARGE, NOT_FOUND, GONE, BUSY (a
 * sandbox evaluates one thing at a time, few wait), LIMIT, UNSUPPORTED (the tier runs no code). */
void engine_eval(struct engine *engine, const struct engine_caller *caller,
                 const struct eval_spec *spec, const struct eval_calls *calls, void *ctx);

/* A line that was put out, for eval_put_json. */
struct eval_line {
    enum isolate_stream stream;
    struct str text;
};
/* The object that `sandglass run --json` prints; with "sandbox" in it unless one-shot. */
void eval_put_json(const struct eval_result *result, const struct eval_line *lines,
                   size_t line_count, struct json_out *out);
