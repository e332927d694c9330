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
    buf_done(&output->out);
    buf_done(&output->err);
    vec_done(&output->parts);
    vec_done(&output->values);
    vec_done(&output->files);
    buf_done(&output->error_name);
    buf_done(&output->error_message);
    buf_done(&output->traceback);
    buf_done(&output->module);
    arena_done(&output->arena);
}

static void keep(struct buf *kept, uint64_t *dropped, struct str text)
{
    size_t room = RUN_OUTPUT_MAX - MIN(kept->len, (size_t)RUN_OUTPUT_MAX);
    buf_put(kept, str_slice(text, 0, room));
    *dropped += text.len - MIN(text.len, room);
}

bool run_part_is_shown(const struct kernel_part *parts, size_t at)
{
    struct str mime = parts[at].mime;
    for (size_t i = 0; i < at; i++)
        if (str_eq(parts[i].mime, mime))
            return false;
    return mime.len > 0 && mime.len <= MIME_MAX && str_is_utf8(mime);
}

static void keep_value(struct run_output *output, const struct kernel_event *event)
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
        struct kernel_part part = event->parts[i];
        if (run_part_is_shown(event->parts, i))
            *vec_push(&output->parts) = (struct kernel_part){arena_dup(&output->arena, part.mime),
                                                             arena_dup(&output->arena, part.bytes)};
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

void run_output_take(struct run_output *output, const struct kernel_event *event)
{
    switch (event->type) {
    case KERNEL_STDOUT:
        keep(&output->out, &output->dropped_out, event->text);
        break;
    case KERNEL_STDERR:
        keep(&output->err, &output->dropped_err, event->text);
        break;
    case KERNEL_DISPLAY:
        keep_value(output, event);
        break;
    case KERNEL_ERROR:
        output->status = RUN_FAILED;
        set(&output->error_name, event->name);
        set(&output->error_message, event->message);
        set(&output->traceback, event->text);
        set(&output->module, event->module);
        break;
    case KERNEL_DONE:
        output->count = event->count;
        output->is_lost |= event->lost;
        if (!event->ok && output->status == RUN_OK)
            run_output_end(output, RUN_FAILED, "Error", "the code failed without a word");
        break;
    case KERNEL_READY:
    case KERNEL_COPIED:
    case KERNEL_GONE:
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
    /* Behind what an interrupt has left: readers of a traceback alone hear of it, too. */
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
