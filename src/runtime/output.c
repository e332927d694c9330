#include "runtime/output.h"

enum { MIME_MAX = 128 };

static const char *const status_names[] = {"ok",      "error",         "interrupted",
                                           "timeout", "out_of_memory", "died"};
_Static_assert(countof(status_names) == RUN_DIED + 1, "a name for each status");

const char *run_status_name(enum run_status status)
{
    return status_names[status];
}

void run_output_done(struct run_output *output)
{
    excerpt_done(&output->out);
    excerpt_done(&output->err);
    vec_done(&output->parts);
    vec_done(&output->values);
    vec_done(&output->files);
    buf_done(&output->error_name);
    buf_done(&output->error_message);
    buf_done(&output->traceback);
    buf_done(&output->module);
    arena_done(&output->arena);
}

bool run_part_is_shown(const struct interpreter_part *parts, size_t at)
{
    struct str mime = parts[at].mime;
    for (size_t i = 0; i < at; i++)
        if (str_eq(parts[i].mime, mime))
            return false;
    return mime.len > 0 && mime.len <= MIME_MAX && str_is_utf8(mime);
}

static void keep_value(struct run_output *output, const struct interpreter_event *event)
{
    size_t size = 0, first = output->parts.len;
    for (size_t i = 0; i < event->part_count && size <= RUN_VALUES_MAX; i++)
        size += run_part_size(&event->parts[i]);
    if (event->part_count == 0 || output->values.len >= RUN_VALUES_COUNT ||
        output->values_size + size > RUN_VALUES_MAX) {
        output->dropped_values++;
        return;
    }
    output->values_size += size;
    for (size_t i = 0; i < event->part_count; i++) {
        struct interpreter_part part = event->parts[i];
        if (run_part_is_shown(event->parts, i))
            *vec_push(&output->parts) = (struct interpreter_part){
                arena_dup(&output->arena, part.mime), arena_dup(&output->arena, part.bytes)};
    }
    if (output->parts.len == first) { /* nothing that can be shown */
        output->dropped_values++;
        return;
    }
    *vec_push(&output->values) =
        (struct run_value){.first = first, .count = output->parts.len - first, .main = event->main};
}

static void set(struct buf *buf, struct str text)
{
    buf_clear(buf);
    buf_put(buf, str_slice(text, 0, RUN_ERROR_MAX));
}

void run_output_take(struct run_output *output, const struct interpreter_event *event)
{
    switch (event->type) {
    case INTERPRETER_STDOUT:
        excerpt_put(&output->out, event->text, RUN_OUTPUT_MAX);
        break;
    case INTERPRETER_STDERR:
        excerpt_put(&output->err, event->text, RUN_OUTPUT_MAX);
        break;
    case INTERPRETER_DISPLAY:
        keep_value(output, event);
        break;
    case INTERPRETER_ERROR:
        output->status = RUN_FAILED;
        set(&output->error_name, event->name);
        set(&output->error_message, event->message);
        set(&output->traceback, event->text);
        set(&output->module, event->module);
        break;
    case INTERPRETER_DONE:
        output->count = event->count;
        output->is_lost |= event->lost;
        if (!event->ok && output->status == RUN_OK)
            run_output_end(output, RUN_FAILED, "Error", "the code failed without an error message");
        break;
    case INTERPRETER_READY:
    case INTERPRETER_COPIED:
    case INTERPRETER_QUIESCED:
    case INTERPRETER_GONE:
        break;
    }
}

void run_output_add_file(struct run_output *output, enum run_change change, struct str path,
                         uint64_t size)
{
    if (output->files.len >= RUN_FILES_MAX || output->files_size + path.len > RUN_FILES_BYTES) {
        output->has_more_files = true;
        return;
    }
    output->files_size += path.len;
    *vec_push(&output->files) =
        (struct run_file){.change = change, .path = arena_dup(&output->arena, path), .size = size};
}

void run_output_end(struct run_output *output, enum run_status status, const char *name,
                    const char *message)
{
    output->status = status;
    set(&output->error_name, str_of(name));
    set(&output->error_message, str_of(message));
    /* After what an interrupt has left: a reader that shows only the traceback sees the reason,
     * too. */
    if (output->traceback.len > 0 && output->traceback.ptr[output->traceback.len - 1] != '\n')
        buf_put_char(&output->traceback, '\n');
    buf_printf(&output->traceback, "%s: %s\n", name, message);
}

void run_output_retry(struct run_output *output)
{
    output->status = RUN_OK;
    buf_clear(&output->error_name);
    buf_clear(&output->error_message);
    buf_clear(&output->traceback);
    buf_clear(&output->module);
}

enum loss_reason run_output_loss(const struct run_output *output)
{
    return !output->is_lost                      ? LOSS_NONE
           : output->status == RUN_TIMEOUT       ? LOSS_TIMEOUT
           : output->status == RUN_OUT_OF_MEMORY ? LOSS_OUT_OF_MEMORY
                                                 : LOSS_EXITED;
}
