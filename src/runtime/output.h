#pragma once

/* The result of a run in an interpreter: collected from the interpreter's events, written as JSON.
 *
 * Everything in it is a tenant's data. It is bounded, kept as bytes and not parsed, except that the
 * value of the last expression is parsed as JSON before it is passed on as such. */

#include "base/arena.h"
#include "base/buf.h"
#include "base/excerpt.h"
#include "base/vec.h"
#include "runtime/interpreter.h"
#include "runtime/loss.h"

struct json_out;

enum {
    /* Together they keep the answer, escapes and all, below what a buffer may hold. */
    RUN_OUTPUT_MAX = EXCERPT_STREAM_MAX,
    RUN_VALUES_MAX = 16 << 20, /* bytes of JSON for all that is shown */
    RUN_VALUES_COUNT = 1000,
    RUN_ERROR_MAX = 32 << 10, /* of each text of an error */
    RUN_FILES_MAX = 1000,
    RUN_FILES_BYTES = 256 << 10, /* of their paths */
};

enum run_status {
    RUN_OK,
    RUN_FAILED,      /* the code did, and said how */
    RUN_INTERRUPTED, /* on demand; variables are kept */
    RUN_TIMEOUT,
    RUN_OUT_OF_MEMORY,
    RUN_DIED, /* the interpreter has exited */
};
const char *run_status_name(enum run_status status);

struct run_value {
    size_t first, count; /* of its parts */
    bool main;           /* of the last expression */
};

enum run_change { RUN_FILE_CREATED, RUN_FILE_CHANGED, RUN_FILE_DELETED };
struct run_file {
    enum run_change change;
    struct str path; /* absolute, inside */
    uint64_t size;   /* of one that is there */
};

struct run_output {
    struct arena arena;      /* of values and files */
    struct excerpt out, err; /* of standard output and standard error */
    VEC(struct interpreter_part) parts;
    VEC(struct run_value) values;
    uint64_t dropped_values;
    size_t values_size; /* as JSON */
    enum run_status status;
    struct buf error_name, error_message, traceback, module;
    uint32_t count;
    int64_t duration_us;
    bool is_lost; /* the run lost the variables, its own and those before */
    bool has_files, has_more_files;
    VEC(struct run_file) files;
    size_t files_size;
};

void run_output_done(struct run_output *output);
#define AUTO_RUN_OUTPUT AUTO(run_output_done)

/* READY and GONE change nothing. */
void run_output_take(struct run_output *output, const struct interpreter_event *event);
void run_output_add_file(struct run_output *output, enum run_change change, struct str path,
                         uint64_t size);
/* The run did not end normally. A traceback that was already reported stays, followed by this. */
void run_output_end(struct run_output *output, enum run_status status, const char *name,
                    const char *message);
/* Forgets how the code failed, so that it can be run once more. */
void run_output_retry(struct run_output *output);

/* The members of the answer, into an object that is open: success, status, result, results, text,
 * stdout, stderr, error, stateLost and its reason, executionCount, durationMs, files. */
void run_output_put_members(const struct run_output *output, const struct loss *loss,
                            struct json_out *out);
/* A sentence about values that are missing; nothing when none are. */
void run_output_put_dropped(const struct run_output *output, struct buf *out);
/* The same without what a stream has already sent. */
void run_output_put_end(const struct run_output *output, const struct loss *loss,
                        struct json_out *out);
/* For models: {type: "text" | "image/png" | "error", content}, and `note` about a loss where the
 * content is no text. */
void run_output_put_short(const struct run_output *output, const struct loss *loss,
                          struct json_out *out);
/* What a run that lost its variables itself died of. */
enum loss_reason run_output_loss(const struct run_output *output);
/* Whether the part `at` is shown: a type that is a word, and none before it of the same, which
 * would be the same key twice in an object. */
bool run_part_is_shown(const struct interpreter_part *parts, size_t at);
/* Bytes of JSON that a part takes. */
size_t run_part_size(const struct interpreter_part *part);
/* {"data": {MIME type: text or base64}, "main": bool}. */
void run_value_put_json(const struct interpreter_part *parts, size_t count, bool main,
                        struct json_out *out);
void run_output_put_error(const struct run_output *output, struct json_out *out);
