/* Contents of any size, news of a tree and servers inside: handles that the caller may drop at any
 * time, also while the place is still being brought up. */

#include "base/hold.h"
#include "engine/file/file_work.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox_internal.h"

/* --- What the three kinds of handles share --- */

enum { PENDING_MAX = 1 << 20 };

enum handle_kind { READER, WRITER, WATCHER };

struct handle {
    struct file_work work;
    struct loop_task task;
    enum handle_kind kind;
    struct arena arena;
    struct file_get get;
    struct file_put put;
    struct str path;
    bool recursive;
    struct file_reader_calls reader_calls;
    struct file_writer_calls writer_calls;
    struct file_watch_calls watch_calls;
    void *ctx;
    const struct provider_table *table;
    void *inner;        /* the provider's; NULL before and after */
    struct buf pending; /* written before the place was there */
    struct err err;
    struct hold hold; /* from its start until the provider has been asked */
    bool is_over, is_stopped, is_finished, has_failed, was_full;
};

struct file_reader {
    struct handle handle;
};
struct file_writer {
    struct handle handle;
};
struct file_watcher {
    struct handle handle;
};

static void handle_drop(struct handle *handle)
{
    struct engine *engine = handle->work.engine;
    file_work_end(&handle->work);
    buf_done(&handle->pending);
    arena_done(&handle->arena);
    engine->answers--;
    loop_release(engine->loop);
    free(handle);
}

static void *handle_free(struct handle *handle)
{
    if (handle == NULL)
        return NULL;
    if (handle->inner != NULL && handle->kind == READER)
        handle->table->reader_free(handle->inner);
    else if (handle->inner != NULL && handle->kind == WRITER)
        handle->table->writer_free(handle->inner);
    else if (handle->inner != NULL)
        handle->table->watcher_free(handle->inner);
    handle->inner = NULL;
    if (hold_end(&handle->hold))
        handle_drop(handle);
    return NULL;
}

static void tell_end(struct handle *handle, const struct file_answer *answer, const struct err *why)
{
    if (handle->is_over || handle->hold.is_freed)
        return;
    handle->is_over = true;
    file_work_end(&handle->work);
    if (handle->kind == READER)
        handle->reader_calls.on_end(handle->ctx, why);
    else if (handle->kind == WRITER)
        handle->writer_calls.on_done(handle->ctx, answer, why);
    else
        handle->watch_calls.on_end(handle->ctx, why);
}

/* --- From the provider --- */

static void file_stream_on_head(void *ctx, const struct file_info *info)
{
    struct handle *handle = ctx;
    if (handle->reader_calls.on_head != NULL)
        handle->reader_calls.on_head(handle->ctx, info);
}

static void file_stream_on_data(void *ctx, struct str bytes)
{
    struct handle *handle = ctx;
    handle->reader_calls.on_data(handle->ctx, bytes);
}

static void file_stream_on_end(void *ctx, const struct err *why)
{
    tell_end(ctx, NULL, why);
}

static void file_stream_on_drain(void *ctx)
{
    struct handle *handle = ctx;
    if (handle->writer_calls.on_drain != NULL)
        handle->writer_calls.on_drain(handle->ctx);
}

static void file_stream_on_done(void *ctx, const struct file_answer *answer, const struct err *why)
{
    tell_end(ctx, answer, why);
}

static void file_stream_on_event(void *ctx, const struct file_event *event)
{
    struct handle *handle = ctx;
    handle->watch_calls.on_event(handle->ctx, event);
}

static const struct file_reader_calls inner_reader = {file_stream_on_head, file_stream_on_data,
                                                      file_stream_on_end};
static const struct file_writer_calls inner_writer = {file_stream_on_drain, file_stream_on_done};
static const struct file_watch_calls inner_watcher = {file_stream_on_event, file_stream_on_end};

/* --- Starting --- */

static int open_inner(struct handle *handle, struct err *err)
{
    struct sandbox *sandbox = handle->work.sandbox;
    const struct provider_table *table = handle->table;
    if (sandbox->info.state != SANDBOX_RUNNING)
        return err_set(err, ERR_GONE, "sandbox '%.*s' is %s", STR_ARG(sandbox->info.id),
                       sandbox_state_name(sandbox->info.state));
    if (handle->kind == READER)
        return table->file_get == NULL
                   ? engine_unsupported(sandbox->info.tier, "stream files", err)
                   : table->file_get(sandbox->place, &handle->get, &inner_reader, handle,
                                     &handle->inner, err);
    if (handle->kind == WRITER)
        return table->file_put == NULL
                   ? engine_unsupported(sandbox->info.tier, "stream files", err)
                   : table->file_put(sandbox->place, &handle->put, &inner_writer, handle,
                                     &handle->inner, err);
    return table->watch == NULL ? engine_unsupported(sandbox->info.tier, "watch files", err)
                                : table->watch(sandbox->place, handle->path, handle->recursive,
                                               &inner_watcher, handle, &handle->inner, err);
}

/* Passes on what the caller asked for before the inner handle was open. */
static void catch_up(struct handle *handle)
{
    if (handle->kind == READER && handle->is_stopped)
        handle->table->reader_flow(handle->inner, true);
    if (handle->kind != WRITER)
        return;
    bool has_room = handle->pending.len == 0 ||
                    handle->table->writer_write(handle->inner, buf_str(&handle->pending));
    buf_done(&handle->pending);
    if (handle->is_finished)
        handle->table->writer_finish(handle->inner);
    else if (handle->was_full && has_room)
        file_stream_on_drain(handle);
}

static void ask_provider(struct handle *handle)
{
    if (!handle->has_failed) {
        handle->table = engine_table(handle->work.engine, handle->work.sandbox->info.tier);
        handle->has_failed = open_inner(handle, &handle->err) < 0;
    }
    if (handle->has_failed)
        tell_end(handle, NULL, &handle->err);
    else
        catch_up(handle);
}

static void file_stream_begin(struct loop_task *task)
{
    struct handle *handle = CONTAINER_OF(task, struct handle, task);
    if (!handle->hold.is_freed)
        ask_provider(handle);
    if (hold_release(&handle->hold))
        handle_drop(handle);
}

static void file_stream_on_place(struct file_work *work, const struct err *why)
{
    struct handle *handle = (struct handle *)work;
    handle->has_failed = why != NULL;
    if (why != NULL)
        handle->err = *why;
    handle->task.run = file_stream_begin;
    loop_post(work->engine->loop, &handle->task);
}

static struct handle *handle_new(struct engine *engine, enum handle_kind kind, void *ctx)
{
    struct handle *handle = mem_alloc(sizeof *handle);
    handle->work.engine = engine;
    handle->work.call = file_stream_on_place;
    handle->kind = kind;
    handle->ctx = ctx;
    handle->pending.limit = FILE_WRITE_MAX * 4;
    engine->answers++;
    loop_hold(engine->loop);
    return handle;
}

static int file_stream_start(struct handle *handle, const struct engine_caller *caller,
                             const struct file_place *place, struct str path, struct err *err)
{
    handle->path = arena_dup(&handle->arena, path);
    handle->get.path = handle->put.path = handle->path;
    hold_take(&handle->hold);
    if (file_check_path(path, err) < 0 ||
        file_work_start(handle->work.engine, caller, place, &handle->work, err) < 0) {
        handle_drop(handle);
        return -1;
    }
    return 0;
}

/* --- Verbs --- */

int engine_file_get(struct engine *engine, const struct engine_caller *caller,
                    const struct file_place *place, const struct file_get *get,
                    const struct file_reader_calls *calls, void *ctx,
                    struct file_reader **ret_reader, struct err *err)
{
    loop_assert(engine->loop);
    struct handle *handle = handle_new(engine, READER, ctx);
    handle->get = *get;
    handle->get.name = arena_dup(&handle->arena, get->name);
    handle->reader_calls = *calls;
    if (file_stream_start(handle, caller, place, get->path, err) < 0)
        return -1;
    *ret_reader = (struct file_reader *)handle;
    return 0;
}

struct file_reader *file_reader_free(struct file_reader *reader)
{
    return handle_free((struct handle *)reader);
}

static void flow(struct handle *handle, bool stop)
{
    handle->is_stopped = stop;
    if (handle->inner != NULL && !handle->is_over)
        handle->table->reader_flow(handle->inner, stop);
}

void file_reader_pause(struct file_reader *reader)
{
    flow(&reader->handle, true);
}

void file_reader_resume(struct file_reader *reader)
{
    flow(&reader->handle, false);
}

int engine_file_put(struct engine *engine, const struct engine_caller *caller,
                    const struct file_place *place, const struct file_put *put,
                    const struct file_writer_calls *calls, void *ctx,
                    struct file_writer **ret_writer, struct err *err)
{
    loop_assert(engine->loop);
    struct handle *handle = handle_new(engine, WRITER, ctx);
    handle->put = *put;
    handle->put.if_match = arena_dup(&handle->arena, put->if_match);
    handle->writer_calls = *calls;
    handle->work.changes = put->as_tar ? "unpack" : "write";
    if (file_stream_start(handle, caller, place, put->path, err) < 0)
        return -1;
    *ret_writer = (struct file_writer *)handle;
    return 0;
}

bool file_writer_write(struct file_writer *writer, struct str bytes)
{
    struct handle *handle = &writer->handle;
    struct err err = {0};
    if (handle->is_over)
        return true;
    if (handle->inner != NULL)
        return handle->table->writer_write(handle->inner, bytes);
    if (buf_append(&handle->pending, bytes, &err) < 0) {
        handle->has_failed = true; /* told when the place is there */
        handle->err = err;
        return true;
    }
    handle->was_full = handle->pending.len >= PENDING_MAX;
    return !handle->was_full;
}

void file_writer_finish(struct file_writer *writer)
{
    struct handle *handle = &writer->handle;
    handle->is_finished = true;
    if (handle->inner != NULL && !handle->is_over)
        handle->table->writer_finish(handle->inner);
}

struct file_writer *file_writer_free(struct file_writer *writer)
{
    return handle_free((struct handle *)writer);
}

int engine_file_watch(struct engine *engine, const struct engine_caller *caller,
                      const struct file_place *place, struct str path, bool recursive,
                      const struct file_watch_calls *calls, void *ctx,
                      struct file_watcher **ret_watcher, struct err *err)
{
    loop_assert(engine->loop);
    struct handle *handle = handle_new(engine, WATCHER, ctx);
    handle->watch_calls = *calls;
    handle->recursive = recursive;
    if (file_stream_start(handle, caller, place, path, err) < 0)
        return -1;
    *ret_watcher = (struct file_watcher *)handle;
    return 0;
}

struct file_watcher *file_watcher_free(struct file_watcher *watcher)
{
    return handle_free((struct handle *)watcher);
}
