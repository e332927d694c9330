/* The tool run_code: in an isolate a value and a console, in a jail an interpreter that shows
 * results. */

#include "agent/internal.h"
#include "base/format/base64.h"

enum { STACK_MAX = 4096, IMAGES_MAX = 8, FILES_SHOWN = 50 };

struct code {
    struct excerpt text[2]; /* an isolate's stdout, stderr */
};

static void code_done(struct code *code)
{
    excerpt_done(&code->text[0]);
    excerpt_done(&code->text[1]);
}

static void tool_code_on_output(void *ctx, enum isolate_stream stream, struct str text)
{
    struct tool_run *run = ctx;
    struct code *code = run->state;
    struct excerpt *kept = &code->text[stream == ISOLATE_STDERR];
    excerpt_put(kept, text, TOOL_OUTPUT_MAX);
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

static void put_output(struct json_out *out, const struct excerpt *stdout_text,
                       const struct excerpt *stderr_text)
{
    json_key(out, "stdout"), tool_put_excerpt(out, stdout_text);
    json_key(out, "stderr"), tool_put_excerpt(out, stderr_text);
}

/* --- An isolate --- */

static void tool_code_put_value(struct json_out *out, const struct isolate_result *result)
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

static void put_note(struct json_out *out, const struct buf *note)
{
    if (note->len > 0)
        json_key(out, "note"), json_put_str(out, str_trim(buf_str(note)));
}

static void put_isolate(struct json_out *out, const struct code *code,
                        const struct eval_result *eval)
{
    const struct isolate_result *result = eval->run;
    AUTO_BUF struct buf note = {0};
    bool is_ok = result->status == ISOLATE_OK;
    json_key(out, "success"), json_put_bool(out, is_ok);
    if (is_ok)
        tool_code_put_value(out, result);
    else
        put_error(out, isolate_status_name(result->status), &result->error_name,
                  &result->error_message, &result->error_stack);
    put_output(out, &code->text[0], &code->text[1]);
    eval_put_dropped(result, eval->limits, &note);
    put_note(out, &note);
}

/* --- An interpreter --- */

static bool is_picture(struct str mime)
{
    return str_eq(mime, STR("image/png")) || str_eq(mime, STR("image/jpeg")) ||
           str_eq(mime, STR("image/gif")) || str_eq(mime, STR("image/webp"));
}

/* What an answer leaves out. */
struct left_out {
    size_t images, large_images;
};

/* Text goes into the answer, pictures beside it. */
static void show_part(struct tool_run *run, const struct interpreter_part *part, struct buf *text,
                      struct left_out *left)
{
    AUTO_BUF struct buf coded = {0};
    if (str_eq(part->mime, STR("text/plain"))) {
        buf_put(text, part->bytes);
        buf_put_char(text, '\n');
    } else if (is_picture(part->mime) && part->bytes.len > TOOL_IMAGE_MAX) {
        left->large_images++;
    } else if (is_picture(part->mime) && run->images.len == IMAGES_MAX) {
        left->images++;
    } else if (is_picture(part->mime)) {
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
            const struct interpreter_part *part = &output->parts.ptr[value->first + i];
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
    if (!has_json && text.len == 0)
        text = json;
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

static void put_left_out(const struct left_out *left, const struct run_output *output,
                         struct buf *note)
{
    if (left->images > 0)
        buf_printf(note,
                   "%zu more images were left out: an answer has %d; save the others to files and "
                   "read them\n",
                   left->images, IMAGES_MAX);
    if (left->large_images > 0)
        buf_printf(note, "%zu images were left out: larger than %d MiB; make them smaller\n",
                   left->large_images, TOOL_IMAGE_MAX >> 20);
    if (output->files.len > FILES_SHOWN || output->has_more_files)
        buf_printf(note, "%s%zu more changed files are not in the list of files\n",
                   output->has_more_files ? "at least " : "",
                   output->files.len - MIN(output->files.len, (size_t)FILES_SHOWN) +
                       output->has_more_files);
    run_output_put_dropped(output, note);
}

static void put_interpreter(struct tool_run *run, struct json_out *out,
                            const struct run_output *output)
{
    AUTO_BUF struct buf text = buf_with_limit((size_t)RUN_VALUES_MAX * 2), note = {0};
    struct left_out left = {0};
    bool is_ok = output->status == RUN_OK;
    VEC_EACH (value, &output->values)
        for (size_t i = 0; i < value->count; i++)
            show_part(run, &output->parts.ptr[value->first + i], &text, &left);
    json_key(out, "success"), json_put_bool(out, is_ok);
    /* Without the last line's end; blanks before it may be a table's. */
    put_shown(out, main_json(output), str_slice(buf_str(&text), 0, text.len - (text.len > 0)));
    if (!is_ok)
        put_error(out, run_status_name(output->status), &output->error_name, &output->error_message,
                  &output->traceback);
    put_output(out, &output->out, &output->err);
    if (run->images.len > 0)
        json_key(out, "images"), json_put_i64(out, (int64_t)run->images.len);
    if (output->files.len > 0)
        put_files(out, output);
    put_left_out(&left, output, &note);
    put_note(out, &note);
}

/* First, where a model reads it before it looks for its variables. */
static void put_loss(struct json_out *out, const struct loss *loss)
{
    if (loss->reason != LOSS_NONE)
        loss_put_json(loss, out);
}

/* --- The call --- */

static void tool_code_on_done(void *ctx, const struct eval_result *result, const struct err *why)
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
    put_loss(&out, &result->loss);
    if (result->interpreter != NULL)
        put_interpreter(run, &out, result->interpreter);
    else
        put_isolate(&out, code, result);
    json_end_object(&out);
    code_done(code);
    bool is_ok = result->interpreter != NULL ? result->interpreter->status == RUN_OK
                                             : result->run->status == ISOLATE_OK;
    if (is_ok)
        tool_end(run, &text);
    else
        tool_end_failed(run, &text);
}

static const struct eval_calls calls = {.on_output = tool_code_on_output,
                                        .on_done = tool_code_on_done};

void tool_run_code(struct tool_run *run)
{
    int64_t timeout_ms = tool_arg_limit(run, "timeoutMs"); /* 0: none; left out: the session's */
    run->state = arena_new(&run->arena, struct code);
    struct eval_spec spec = {.session = run->session,
                             .sandbox = run->sandbox,
                             .code = tool_arg_str(run, "code"),
                             .language = tool_arg_str(run, "language"),
                             .wants_files = true,
                             .may_install = true,
                             .timeout_ms = timeout_ms == 0 ? -1 : MAX(timeout_ms, (int64_t)0)};
    (void)engine_eval(run->engine, &run->caller, &spec, &calls, run);
}
