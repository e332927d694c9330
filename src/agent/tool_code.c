/* The tool run_code. */

#include "agent/internal.h"

struct code {
    struct buf text[2]; /* stdout, stderr */
};

static void code_done(struct code *code)
{
    buf_done(&code->text[0]);
    buf_done(&code->text[1]);
}

static void on_output(void *ctx, enum isolate_stream stream, struct str line)
{
    struct tool_run *run = ctx;
    struct code *code = run->state;
    struct buf *text = &code->text[stream == ISOLATE_STDERR];
    buf_put(text, line);
    buf_put_char(text, '\n');
    tool_output(run, stream == ISOLATE_STDERR, line);
}

static void put_value(struct json_out *out, const struct isolate_result *result)
{
    struct err err = {0};
    AUTO_JSON struct json_t *value = NULL;
    if (!result->has_value)
        return;
    json_key(out, "result");
    if (result->json.len > TOOL_VALUE_MAX)
        tool_put_cut(out, buf_str(&result->json), TOOL_VALUE_MAX);
    else if (json_parse(buf_str(&result->json), &value, &err) == 0)
        json_put_value(out, value);
    else
        json_put_null(out);
}

static void put_error(struct json_out *out, const struct isolate_result *result)
{
    json_key(out, "error");
    json_begin_object(out);
    json_key(out, "code"), json_put_cstr(out, isolate_status_name(result->status));
    json_key(out, "name"), json_put_str(out, buf_str(&result->error_name));
    json_key(out, "message"), json_put_str(out, buf_str(&result->error_message));
    json_key(out, "stack"), tool_put_cut(out, buf_str(&result->error_stack), 4096);
    json_end_object(out);
}

static void on_done(void *ctx, const struct eval_result *result, const struct err *why)
{
    struct tool_run *run = ctx;
    struct code *code = run->state;
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    if (why != NULL || run->is_canceled) {
        code_done(code);
        if (!tool_is_over(run))
            tool_fail(run, why, NULL);
        return;
    }
    bool is_ok = result->run->status == ISOLATE_OK;
    json_begin_object(&out);
    json_key(&out, "success"), json_put_bool(&out, is_ok);
    if (is_ok)
        put_value(&out, result->run);
    else
        put_error(&out, result->run);
    json_key(&out, "stdout"), tool_put_cut(&out, buf_str(&code->text[0]), TOOL_OUTPUT_MAX);
    json_key(&out, "stderr"), tool_put_cut(&out, buf_str(&code->text[1]), TOOL_OUTPUT_MAX);
    json_end_object(&out);
    code_done(code);
    tool_end(run, &text);
}

static const struct eval_calls calls = {on_output, on_done};

void tool_run_code(struct tool_run *run)
{
    struct str language = tool_arg_str(run, "language");
    run->state = arena_new(&run->arena, struct code);
    struct eval_spec spec = {.session = run->session,
                             .code = tool_arg_str(run, "code"),
                             .lang = str_eq(language, STR("javascript")) ? ISOLATE_JS : ISOLATE_TS,
                             .timeout_ms = tool_arg_int(run, "timeoutMs", 0)};
    engine_eval(run->engine, &run->caller, &spec, &calls, run);
}
