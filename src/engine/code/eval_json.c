/* The answer of an evaluation as JSON: the object that `sandglass run --json` prints. */

#include <math.h>

#include "base/err.h"
#include "base/format/json.h"
#include "engine/code/eval.h"

static void put_limits(const struct isolate_limits *limits, struct json_out *out)
{
    json_key(out, "limits");
    json_begin_object(out);
    json_key(out, "memoryMb"), json_put_i64(out, (int64_t)(limits->memory_bytes >> 20));
    json_key(out, "stackKb"), json_put_i64(out, limits->stack_bytes >> 10);
    json_key(out, "codeChars"), json_put_i64(out, limits->code_chars);
    json_key(out, "consoleLines"), json_put_i64(out, limits->console_lines);
    json_key(out, "resultDepth"), json_put_i64(out, limits->result_depth);
    json_key(out, "resultItems"), json_put_i64(out, limits->result_items);
    json_end_object(out);
}

static void put_environment(const struct eval_result *result, struct json_out *out)
{
    json_key(out, "environment");
    json_begin_object(out);
    json_key(out, "language");
    json_put_cstr(out, result->lang == ISOLATE_JS ? "javascript" : "typescript");
    json_key(out, "runtime"), json_put_cstr(out, "isolate");
    json_key(out, "timeoutMs"),
        json_put_i64(out, result->limits->timeout_ms >= ISOLATE_TIMEOUT_NONE_MS
                              ? 0
                              : result->limits->timeout_ms);
    put_limits(result->limits, out);
    json_key(out, "locationHints"), hints_put_json(result->hints, out);
    json_key(out, "warnings"), hints_put_warnings(result->hints, result->used_hints, out);
    json_end_object(out);
}

static void put_lines(const struct eval_line *lines, size_t count, enum isolate_stream stream,
                      const char *key, struct json_out *out)
{
    AUTO_BUF struct buf text = buf_with_limit(64 << 20);
    for (size_t i = 0; i < count; i++)
        if (lines[i].stream == stream)
            buf_put(&text, lines[i].text);
    json_key(out, key), json_put_str(out, buf_str(&text));
}

static void put_error(const struct isolate_result *run, struct json_out *out)
{
    json_key(out, "error");
    if (run->status == ISOLATE_OK) {
        json_put_null(out);
        return;
    }
    json_begin_object(out);
    json_key(out, "name"), json_put_str(out, buf_str(&run->error_name));
    json_key(out, "message"), json_put_str(out, buf_str(&run->error_message));
    json_key(out, "stack"), json_put_str(out, buf_str(&run->error_stack));
    json_end_object(out);
}

/* The value is JSON already; it is parsed once more so that nothing of it is taken on trust. */
static void eval_json_put_value(const struct isolate_result *run, struct json_out *out)
{
    struct err err = {0};
    AUTO_JSON struct json_t *value = NULL;
    json_key(out, "result");
    if (run->status == ISOLATE_OK && json_parse(buf_str(&run->json), &value, &err) == 0)
        json_put_value(out, value);
    else
        json_put_null(out);
}

void eval_put_dropped(const struct isolate_result *run, const struct isolate_limits *limits,
                      struct buf *out)
{
    for (int i = 0; i < 2; i++)
        if (run->dropped[i] > 0)
            buf_printf(out,
                       "... %llu more lines on %s were not kept: the setting isolate.console_lines "
                       "is %u\n",
                       (unsigned long long)run->dropped[i],
                       i == ISOLATE_STDERR ? "stderr" : "stdout", limits->console_lines);
}

static void put_missing(const struct eval_result *result, struct buf *out)
{
    uint64_t unkept = result->unkept[0] + result->unkept[1];
    eval_put_dropped(result->run, result->limits, out);
    if (unkept > 0)
        buf_printf(out, "... %llu lines did not fit into one answer: print less\n",
                   (unsigned long long)unkept);
}

/* What is missing and how to get it, as sentences. */
static void put_truncated(const struct eval_result *result, struct json_out *out)
{
    static const char *const keys[] = {"truncatedStdout", "truncatedStderr"};
    AUTO_BUF struct buf message = {0};
    for (int i = 0; i < 2; i++) {
        json_key(out, keys[i]);
        json_put_i64(out, (int64_t)(result->run->dropped[i] + result->unkept[i]));
    }
    put_missing(result, &message);
    json_key(out, "truncatedMessage");
    if (message.len > 0)
        json_put_str(out, str_trim(buf_str(&message)));
    else
        json_put_null(out);
}

static void put_place(const struct eval_result *result, struct json_out *out)
{
    if (result->sandbox.len > 0)
        json_key(out, "sandbox"), json_put_str(out, result->sandbox);
    if (result->interpreter != NULL) {
        json_key(out, "runtime"), json_put_str(out, result->runtime);
        json_key(out, "context"), json_put_str(out, result->context);
    }
}

void eval_put_end(const struct eval_result *result, const struct eval_line *lines,
                  size_t line_count, struct json_out *out)
{
    if (result->interpreter == NULL) {
        eval_put_json(result, lines, line_count, out);
        return;
    }
    json_begin_object(out);
    put_place(result, out);
    run_output_put_end(result->interpreter, &result->loss, out);
    json_end_object(out);
}

static void put_isolate_text(const struct eval_result *result, const struct eval_line *lines,
                             size_t line_count, struct buf *text)
{
    const struct isolate_result *run = result->run;
    for (size_t i = 0; i < line_count; i++)
        buf_put(text, lines[i].text);
    if (run->status == ISOLATE_OK) /* the content of an error has no output */
        put_missing(result, text);
    if (run->status == ISOLATE_OK && run->has_value)
        buf_put(text, run->text.len > 0 ? buf_str(&run->text) : buf_str(&run->json));
    else if (run->status != ISOLATE_OK && run->error_stack.len > 0)
        buf_put(text, buf_str(&run->error_stack));
    else if (run->status != ISOLATE_OK)
        buf_printf(text, "%s: %s", buf_cstr(&run->error_name), buf_cstr(&run->error_message));
}

void eval_put_short(const struct eval_result *result, const struct eval_line *lines,
                    size_t line_count, struct json_out *out)
{
    AUTO_BUF struct buf text = {0};
    if (result->interpreter != NULL) {
        run_output_put_short(result->interpreter, &result->loss, out);
        return;
    }
    bool ok = result->run->status == ISOLATE_OK;
    loss_put_line(&result->loss, &text);
    put_isolate_text(result, ok ? lines : NULL, ok ? line_count : 0, &text);
    json_begin_object(out);
    json_key(out, "type"), json_put_cstr(out, ok ? "text" : "error");
    json_key(out, "content"), json_put_str(out, buf_str(&text));
    json_end_object(out);
}

void eval_put_json(const struct eval_result *result, const struct eval_line *lines,
                   size_t line_count, struct json_out *out)
{
    const struct isolate_result *run = result->run;
    json_begin_object(out);
    put_place(result, out);
    if (result->interpreter != NULL) {
        run_output_put_members(result->interpreter, &result->loss, out);
        json_end_object(out);
        return;
    }
    json_key(out, "status"), json_put_cstr(out, isolate_status_name(run->status));
    json_key(out, "success"), json_put_bool(out, run->status == ISOLATE_OK);
    eval_json_put_value(run, out);
    put_error(run, out);
    loss_put_json(&result->loss, out);
    put_lines(lines, line_count, ISOLATE_STDOUT, "stdout", out);
    put_lines(lines, line_count, ISOLATE_STDERR, "stderr", out);
    put_truncated(result, out);
    json_key(out, "durationMs"), json_put_f64(out, round((double)run->runtime_ns / 1e3) / 1e3);
    json_key(out, "codeSize"), json_put_i64(out, (int64_t)result->code_size);
    put_environment(result, out);
    json_end_object(out);
}
