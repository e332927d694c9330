/* The tool run_code: in an isolate a value and a console, in a jail a kernel that shows things. */

#include "agent/internal.h"
#include "base/base64.h"

enum { STACK_MAX = 4096, IMAGES_MAX = 8, FILES_SHOWN = 50 };

struct code {
    struct buf text[2]; /* an isolate's stdout, stderr */
};

static void code_done(struct code *code)
{
    buf_done(&code->text[0]);
    buf_done(&code->text[1]);
}

static void on_output(void *ctx, enum isolate_stream stream, struct str text)
{
    struct tool_run *run = ctx;
    struct code *code = run->state;
    struct buf *kept = &code->text[stream == ISOLATE_STDERR];
    if (kept->len + text.len < TOOL_OUTPUT_MAX * 2) {
        buf_put(kept, text);
        buf_put_char(kept, '\n');
    }
    tool_output(run, stream == ISOLATE_STDERR, text);
}

static void put_error(struct json_out *out, const char *code, const struct buf *name,
                      const struct buf *message, const struct buf *stack)
{
    json_key(out, "error");
    json_begin_object(out);
    json_key(out, "code"), json_put_cstr(out, code);
    json_key(out, "name"), json_put_str(out, buf_str(name));
    json_key(out, "message"), tool_put_cut(out, buf_str(message), STACK_MAX);
    json_key(out, "stack"), tool_put_cut(out, buf_str(stack), STACK_MAX);
    json_end_object(out);
}

static void put_output(struct json_out *out, struct str stdout_text, struct str stderr_text)
{
    json_key(out, "stdout"), tool_put_cut(out, stdout_text, TOOL_OUTPUT_MAX);
    json_key(out, "stderr"), tool_put_cut(out, stderr_text, TOOL_OUTPUT_MAX);
}

/* --- An isolate --- */

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

static void put_isolate(struct json_out *out, const struct code *code,
                        const struct isolate_result *result)
{
    bool is_ok = result->status == ISOLATE_OK;
    json_key(out, "success"), json_put_bool(out, is_ok);
    if (is_ok)
        put_value(out, result);
    else
        put_error(out, isolate_status_name(result->status), &result->error_name,
                  &result->error_message, &result->error_stack);
    put_output(out, buf_str(&code->text[0]), buf_str(&code->text[1]));
}

/* --- A kernel --- */

static bool is_picture(struct str mime)
{
    return str_eq(mime, STR("image/png")) || str_eq(mime, STR("image/jpeg")) ||
           str_eq(mime, STR("image/gif")) || str_eq(mime, STR("image/webp"));
}

/* Text goes into the answer, pictures beside it. */
static void show_part(struct tool_run *run, const struct kernel_part *part, struct buf *text)
{
    AUTO_BUF struct buf coded = {0};
    if (str_eq(part->mime, STR("text/plain"))) {
        buf_put(text, str_slice(part->bytes, 0, TOOL_VALUE_MAX));
        buf_put_char(text, '\n');
    } else if (is_picture(part->mime) && part->bytes.len <= TOOL_IMAGE_MAX &&
               run->images.len < IMAGES_MAX) {
        base64_put(part->bytes, &coded);
        *vec_push(&run->images) = (struct tool_image){arena_dup(&run->arena, part->mime),
                                                      arena_dup(&run->arena, buf_str(&coded))};
    }
}

/* The value of the last expression as JSON; empty when it has none. */
static struct str main_json(const struct run_output *output)
{
    VEC_EACH (value, &output->values)
        for (size_t i = 0; value->main && i < value->count; i++) {
            const struct kernel_part *part = &output->parts.ptr[value->first + i];
            if (str_eq(part->mime, STR("application/json")))
                return part->bytes;
        }
    return (struct str){0};
}

/* `result` is JSON where the value has one, else text; `text` is there when it says more. */
static void put_shown(struct json_out *out, struct str json, struct str text)
{
    struct err err = {0};
    AUTO_JSON struct json_t *value = NULL;
    bool has_json =
        json.len > 0 && json.len <= TOOL_VALUE_MAX && json_parse(json, &value, &err) == 0;
    if (has_json)
        json_key(out, "result"), json_put_value(out, value);
    if (text.len > 0 && !(has_json && str_eq(text, json)))
        json_key(out, has_json ? "text" : "result"), tool_put_cut(out, text, TOOL_VALUE_MAX);
}

static void put_files(struct json_out *out, const struct run_output *output)
{
    static const char *const changes[] = {"created", "changed", "deleted"};
    json_key(out, "files");
    json_begin_array(out);
    for (size_t i = 0; i < output->files.len && i < FILES_SHOWN; i++) {
        const struct run_file *file = &output->files.ptr[i];
        json_begin_object(out);
        json_key(out, "path"), json_put_str(out, file->path);
        json_key(out, "change"), json_put_cstr(out, changes[file->change]);
        if (file->change != RUN_FILE_DELETED)
            json_key(out, "size"), json_put_i64(out, (int64_t)file->size);
        json_end_object(out);
    }
    json_end_array(out);
}

static void put_kernel(struct tool_run *run, struct json_out *out, const struct run_output *output)
{
    AUTO_BUF struct buf text = {0};
    bool is_ok = output->status == RUN_OK;
    VEC_EACH (value, &output->values)
        for (size_t i = 0; i < value->count && text.len < TOOL_VALUE_MAX; i++)
            show_part(run, &output->parts.ptr[value->first + i], &text);
    json_key(out, "success"), json_put_bool(out, is_ok);
    /* Without the last line's end; blanks before it may be a table's. */
    put_shown(out, main_json(output), str_slice(buf_str(&text), 0, text.len - (text.len > 0)));
    if (!is_ok)
        put_error(out, run_status_name(output->status), &output->error_name, &output->error_message,
                  &output->traceback);
    put_output(out, buf_str(&output->out), buf_str(&output->err));
    if (run->images.len > 0)
        json_key(out, "images"), json_put_i64(out, (int64_t)run->images.len);
    if (output->files.len > 0)
        put_files(out, output);
    if (output->is_lost)
        json_key(out, "stateLost"), json_put_bool(out, true);
}

/* --- The call --- */

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
    json_begin_object(&out);
    if (result->kernel != NULL)
        put_kernel(run, &out, result->kernel);
    else
        put_isolate(&out, code, result->run);
    json_end_object(&out);
    code_done(code);
    tool_end(run, &text);
}

static const struct eval_calls calls = {.on_output = on_output, .on_done = on_done};

void tool_run_code(struct tool_run *run)
{
    struct err err = {0};
    struct tool_place place;
    struct str language = tool_arg_str(run, "language");
    if (language.len == 0 && tool_place(run, &place, &err) == 0)
        language = place.tier == ENGINE_TIER_JAIL ? STR("python") : STR("typescript");
    run->state = arena_new(&run->arena, struct code);
    struct eval_spec spec = {.session = run->session,
                             .sandbox = run->sandbox,
                             .code = tool_arg_str(run, "code"),
                             .language = language,
                             .wants_files = true,
                             .timeout_ms = tool_arg_int(run, "timeoutMs", 0)};
    (void)engine_eval(run->engine, &run->caller, &spec, &calls, run);
}
