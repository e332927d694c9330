/* A run's answer as JSON: whole, and short for models. */

#include "base/err.h"
#include "base/format/base64.h"
#include "base/format/json.h"
#include "runtime/loss.h"
#include "runtime/output.h"

static bool is_text(struct str mime)
{
    return str_starts(mime, STR("text/")) || str_eq(mime, STR("image/svg+xml")) ||
           str_ends(mime, STR("json")) || str_ends(mime, STR("javascript"));
}

size_t run_part_size(const struct interpreter_part *part)
{
    size_t size = part->mime.len * 6 + 8;
    if (!is_text(part->mime))
        return size + part->bytes.len / 3 * 4 + 4;
    for (size_t i = 0; i < part->bytes.len; i++) {
        unsigned char c = (unsigned char)part->bytes.ptr[i];
        size += c < 0x20 ? 6 : c == '"' || c == '\\' ? 2 : c < 0x80 ? 1 : 3;
    }
    return size;
}

static const struct interpreter_part *find_part(const struct run_output *output,
                                                const struct run_value *value, const char *mime)
{
    for (size_t i = value->first; i < value->first + value->count; i++)
        if (str_eq(output->parts.ptr[i].mime, str_of(mime)))
            return &output->parts.ptr[i];
    return NULL;
}

static const struct interpreter_part *main_part(const struct run_output *output, const char *mime)
{
    VEC_EACH (value, &output->values)
        if (value->main)
            return find_part(output, value, mime);
    return NULL;
}

void run_value_put_json(const struct interpreter_part *parts, size_t count, bool main,
                        struct json_out *out)
{
    json_begin_object(out);
    json_key(out, "data"), json_begin_object(out);
    for (size_t i = 0; i < count; i++) {
        AUTO_BUF struct buf text = buf_with_limit((size_t)RUN_VALUES_MAX * 2);
        if (!run_part_is_shown(parts, i))
            continue;
        bool plain = is_text(parts[i].mime);
        if (!plain)
            base64_put(parts[i].bytes, &text);
        json_key_str(out, parts[i].mime);
        json_put_str(out, plain ? parts[i].bytes : buf_str(&text));
    }
    json_end_object(out);
    json_key(out, "main"), json_put_bool(out, main);
    json_end_object(out);
}

/* Numbers may get longer when they are written again ("1e14"); the answer must stay within its
 * limit. */
static bool is_short_enough(const struct json_t *value)
{
    AUTO_BUF struct buf text = {0};
    json_put_value(&(struct json_out){.buf = &text}, value);
    return text.len <= RUN_VALUES_MAX;
}

/* The interpreter's own words, so they are read before they are passed on. */
static void output_json_put_result(const struct run_output *output, struct json_out *out)
{
    const struct interpreter_part *part = main_part(output, "application/json");
    AUTO_JSON struct json_t *value = NULL;
    struct err err;
    json_key(out, "result");
    if (part != NULL && json_parse(part->bytes, &value, &err) == 0 &&
        (part->bytes.len <= RUN_VALUES_MAX / 4 || is_short_enough(value)))
        json_put_value(out, value);
    else
        json_put_null(out);
    part = main_part(output, "text/plain");
    json_key(out, "text");
    if (part != NULL)
        json_put_str(out, part->bytes);
    else
        json_put_null(out);
}

void run_output_put_error(const struct run_output *output, struct json_out *out)
{
    if (output->status == RUN_OK) {
        json_put_null(out);
        return;
    }
    json_begin_object(out);
    json_key(out, "name"), json_put_str(out, buf_str(&output->error_name));
    json_key(out, "message"), json_put_str(out, buf_str(&output->error_message));
    json_key(out, "traceback"), json_put_str(out, buf_str(&output->traceback));
    json_end_object(out);
}

static void put_files(const struct run_output *output, struct json_out *out)
{
    static const char *const changes[] = {"created", "changed", "deleted"};
    json_key(out, "files");
    if (!output->has_files) {
        json_put_null(out);
        return;
    }
    json_begin_array(out);
    VEC_EACH (file, &output->files) {
        json_begin_object(out);
        json_key(out, "path"), json_put_str(out, file->path);
        json_key(out, "change"), json_put_cstr(out, changes[file->change]);
        json_key(out, "size");
        if (file->change == RUN_FILE_DELETED)
            json_put_null(out);
        else
            json_put_i64(out, (int64_t)file->size);
        json_end_object(out);
    }
    json_end_array(out);
    json_key(out, "moreFiles"), json_put_bool(out, output->has_more_files);
}

/* Both ends of a text that is too long, with a line about what is between. */
static void add_text(struct buf *text, const struct excerpt *kept)
{
    struct excerpt_view view = excerpt_view(kept, 0);
    excerpt_view_put(&view, "omitted from this response", text);
}

static void output_json_put_text(struct json_out *out, const char *key, const struct excerpt *kept)
{
    AUTO_BUF struct buf text = {0};
    add_text(&text, kept);
    json_key(out, key), json_put_str(out, buf_str(&text));
}

void run_output_put_dropped(const struct run_output *output, struct buf *out)
{
    if (output->dropped_values > 0)
        buf_printf(out,
                   "%llu values were left out: one answer holds %d values and %d MiB; write large "
                   "values to files",
                   (unsigned long long)output->dropped_values, RUN_VALUES_COUNT,
                   RUN_VALUES_MAX >> 20);
}

void run_output_put_members(const struct run_output *output, const struct loss *loss,
                            struct json_out *out)
{
    output_json_put_result(output, out);
    json_key(out, "results"), json_begin_array(out);
    VEC_EACH (value, &output->values)
        run_value_put_json(output->parts.ptr + value->first, value->count, value->main, out);
    json_end_array(out);
    output_json_put_text(out, "stdout", &output->out);
    output_json_put_text(out, "stderr", &output->err);
    json_key(out, "truncatedStdout");
    json_put_i64(out, (int64_t)excerpt_view(&output->out, 0).cut);
    json_key(out, "truncatedStderr");
    json_put_i64(out, (int64_t)excerpt_view(&output->err, 0).cut);
    json_key(out, "truncatedResults"), json_put_i64(out, (int64_t)output->dropped_values);
    json_key(out, "truncatedMessage");
    if (output->dropped_values > 0) {
        AUTO_BUF struct buf message = {0};
        run_output_put_dropped(output, &message);
        json_put_str(out, buf_str(&message));
    } else {
        json_put_null(out);
    }
    run_output_put_end(output, loss, out);
}

void run_output_put_end(const struct run_output *output, const struct loss *loss,
                        struct json_out *out)
{
    json_key(out, "status"), json_put_cstr(out, run_status_name(output->status));
    json_key(out, "success"), json_put_bool(out, output->status == RUN_OK);
    json_key(out, "error"), run_output_put_error(output, out);
    loss_put_json(loss, out);
    json_key(out, "executionCount"), json_put_i64(out, output->count);
    json_key(out, "durationMs"), json_put_f64(out, (double)output->duration_us / 1e3);
    put_files(output, out);
}

/* --- Short --- */

static void put_short(struct json_out *out, const char *type, struct str content, struct str note)
{
    json_begin_object(out);
    json_key(out, "type"), json_put_cstr(out, type);
    json_key(out, "content"), json_put_str(out, content);
    if (note.len > 0)
        json_key(out, "note"), json_put_str(out, note);
    json_end_object(out);
}

/* A shell has no traceback: its output before the error explains the error. */
static void put_short_error(const struct run_output *output, const struct loss *loss,
                            struct json_out *out)
{
    AUTO_BUF struct buf text = {0};
    loss_put_line(loss, &text);
    if (output->traceback.len == 0) {
        add_text(&text, &output->out);
        add_text(&text, &output->err);
        if (text.len > 0 && text.ptr[text.len - 1] != '\n')
            buf_put_char(&text, '\n');
        buf_printf(&text, "%s: %s", buf_cstr(&output->error_name),
                   buf_cstr(&output->error_message));
    } else {
        buf_put(&text, str_trim(buf_str(&output->traceback)));
    }
    put_short(out, "error", buf_str(&text), (struct str){0});
}

void run_output_put_short(const struct run_output *output, const struct loss *loss,
                          struct json_out *out)
{
    AUTO_BUF struct buf text = buf_with_limit((size_t)RUN_VALUES_MAX * 2), note = {0};
    if (output->status != RUN_OK) {
        put_short_error(output, loss, out);
        return;
    }
    loss_put_text(loss, &note);
    VEC_EACH (value, &output->values) {
        const struct interpreter_part *picture = find_part(output, value, "image/png");
        if (picture == NULL)
            continue;
        base64_put(picture->bytes, &text);
        put_short(out, "image/png", buf_str(&text), buf_str(&note));
        return;
    }
    loss_put_line(loss, &text);
    add_text(&text, &output->out);
    add_text(&text, &output->err);
    VEC_EACH (value, &output->values) {
        const struct interpreter_part *part = find_part(output, value, "text/plain");
        if (part == NULL)
            continue;
        if (text.len > 0 && text.ptr[text.len - 1] != '\n')
            buf_put_char(&text, '\n');
        buf_put(&text, part->bytes);
    }
    if (output->dropped_values > 0) {
        buf_put_cstr(&text, "\n... ");
        run_output_put_dropped(output, &text);
        buf_put_cstr(&text, " ...");
    }
    put_short(out, "text", buf_str(&text), (struct str){0});
}
