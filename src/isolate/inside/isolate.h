#pragma once

/* JavaScript in an isolate: code in, value and console out.
 *
 * An engine holds the template image and runs the isolates of one process, one at a time. An
 * isolate keeps its variables from one run to the next; pausing gives its bytes, from which any
 * number of isolates can continue. A run that is out of time ends first by an exception that no
 * script can catch, then by a trap, after which the isolate is gone.
 *
 * This is the inner sandbox boundary. It belongs in a locked worker process (worker.h); tests and
 * measurements use it directly. */

#include "base/buf.h"
#include "isolate/wire/limits.h"

struct arena;
struct err;
struct isolate;
struct isolate_engine;

enum isolate_lang { ISOLATE_JS, ISOLATE_TS, ISOLATE_TSX };

enum isolate_stream { ISOLATE_STDOUT, ISOLATE_STDERR };

enum isolate_status {
    ISOLATE_OK,
    ISOLATE_ERROR,       /* the script threw, or did not parse */
    ISOLATE_TIMEOUT,     /* the deadline passed */
    ISOLATE_MEMORY,      /* the memory limit was reached */
    ISOLATE_CRASH,       /* the engine failed; the boundary held */
    ISOLATE_INTERRUPTED, /* it was interrupted; variables stay unless the isolate is gone */
};
const char *isolate_status_name(enum isolate_status status);

/* A file that scripts may import, by its path: "./lib/util.js" finds "lib/util.js". TypeScript by
 * its ending: .ts, .mts, .cts, .tsx. */
struct isolate_module {
    struct str path, source;
};
/* Before the name of a package that is one module: "import 'left'" and "import 'npm:left'" find
 * "npm:left". */
#define ISOLATE_PACKAGE "npm:"

/* What the surroundings do for a run. Any may be NULL. */
struct isolate_host {
    void *user;
    /* A console call, without newline; as it comes. */
    void (*console)(void *user, enum isolate_stream stream, struct str text);
    /* A bridge call begins; isolate_settle answers it, now or later. False refuses: `*ret_why`. */
    bool (*bridge)(void *user, uint32_t id, struct str name, struct str args_json,
                   const char **ret_why);
    /* The answer to a call is no longer needed; if it still comes, it is ignored. */
    void (*cancel)(void *user, uint32_t id);
    /* Nothing to do for `ms` (-1: until an answer comes): wait for one and settle it. False when
     * no answer can come any more. */
    bool (*wait)(void *user, struct isolate *isolate, int64_t ms);
};

struct isolate_call {
    struct str code;
    enum isolate_lang lang; /* types are blanked in place: lines and columns stay */
    const char *file;       /* for stacks; "script.js" when NULL */
    bool is_session;        /* return once the value is known, leave timers for later runs */
    bool wants_text;        /* fill result.text, the value as the console would show it */
    const struct isolate_module *modules;
    size_t module_count;
    struct str env_json; /* an object for process.env; empty for none */
};

struct isolate_result {
    enum isolate_status status;
    bool has_value;  /* false for undefined */
    struct buf json; /* the value, sanitized; "null" without one */
    struct buf text; /* see wants_text */
    struct buf error_name, error_message, error_stack;
    uint64_t lines[2], dropped[2]; /* console calls kept and not kept, by stream */
    int64_t runtime_ns;
    bool is_gone; /* the isolate cannot run again */
};
void isolate_result_done(struct isolate_result *result);
#define AUTO_RESULT AUTO(isolate_result_done)

/* Loads the template that was made with the program: a fraction of a millisecond. `bridges` are
 * names for `api`, ending with NULL; NULL for none. */
int isolate_engine_new(const char *const *bridges, struct isolate_engine **ret_engine,
                       struct err *err) MUST_USE;
struct isolate_engine *isolate_engine_free(struct isolate_engine *engine);
DEFINE_FREEP(isolate_engine)
#define AUTO_ENGINE AUTO(isolate_engine_freep)
/* In a child process that was forked with the engine: signal handlers are restored, new random
 * numbers are drawn. */
int isolate_engine_forked(struct isolate_engine *engine, struct err *err) MUST_USE;
/* Makes an isolate and runs a line in it, so that the next one finds everything in place. */
int isolate_engine_warm(struct isolate_engine *engine, struct err *err) MUST_USE;

int isolate_new(struct isolate_engine *engine, const struct isolate_limits *limits,
                struct isolate **ret_isolate, struct err *err) MUST_USE;
/* Of later runs; the other limits are for good. */
void isolate_set_timeout(struct isolate *isolate, int64_t timeout_ms);
struct isolate *isolate_free(struct isolate *isolate);
DEFINE_FREEP(isolate)
#define AUTO_ISOLATE AUTO(isolate_freep)

/* Runs code to its end. Fails with GONE (ended before), or TOO_LARGE (code); what the script does
 * is in the result. */
int isolate_run(struct isolate *isolate, const struct isolate_call *call,
                const struct isolate_host *host, struct isolate_result *ret_result,
                struct err *err) MUST_USE;
/* Answers bridge call `id` with JSON (or with {name, message} when not ok); for use in `wait` and
 * after `bridge`. Unknown ids are ignored. */
void isolate_settle(struct isolate *isolate, uint32_t id, bool ok, struct str json);

/* Appends the compressed bytes of an isolate that runs no code to `out`. In a copy, pending bridge
 * calls are rejected with an Error; timers keep their dates. */
int isolate_pause(struct isolate *isolate, struct buf *out, struct err *err) MUST_USE;
int isolate_resume(struct isolate_engine *engine, struct str bytes,
                   const struct isolate_limits *limits, struct isolate **ret_isolate,
                   struct err *err) MUST_USE;
/* Bytes of linear memory now. */
uint64_t isolate_memory(const struct isolate *isolate);
