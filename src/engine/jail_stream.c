/* Contents of any size in and out of a jail: through a pipe that its init reads or writes, at the
 * pace of whoever stands at the other end. */

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "engine/jail_place.h"
#include "io/stream.h"

enum { PIECE_BYTES = 256 << 10 };

/* Of an archive that becomes a snapshot: it is unpacked in the memory of the sandbox that takes it
 * (SNAPSHOT_BUILD_BYTES). */
static const struct files_tar_limits snapshot_limits = {
    .packed = SNAPSHOT_ARCHIVE_BYTES, .unpacked = SNAPSHOT_ARCHIVE_BYTES, .entries = 200000};

static int open_pipe(struct place *place, bool is_writer, const struct stream_calls *calls,
                     void *ctx, struct stream **ret_stream, int *ret_childs, struct err *err)
{
    int ends[2];
    /* Up through a socket: there an end that was meant is told from that of a server that died. */
    if ((is_writer ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)
                   : pipe2(ends, O_CLOEXEC)) < 0)
        return err_sys(err, errno, "make a pipe");
    AUTO_CLOSE int ours = is_writer ? ends[1] : ends[0], childs = is_writer ? ends[0] : ends[1];
    /* Larger steps cost less; the default will do where this is not allowed. */
    (void)fcntl(ours, F_SETPIPE_SZ, 1 << 20);
    if (stream_open(place->provider_loop, ours, calls, ctx, ret_stream, err) < 0)
        return -1;
    (void)fd_take(&ours);
    if (is_writer)
        stream_pause(*ret_stream);
    *ret_childs = fd_take(&childs);
    return 0;
}

/* --- Out of the jail --- */

struct reader {
    struct asked_op op;
    struct place *place; /* NULL once it is over */
    struct file_reader_calls calls;
    void *ctx;
    struct stream *stream;
    struct jail_file question;
    struct arena arena;
    bool is_looking; /* at what it is; then it is read */
    bool is_reading; /* the first look asks for its first bytes too */
    bool is_stopped, is_answered, has_ended, is_telling, is_freed;
    struct err err;
};

static void reader_done(struct reader *reader)
{
    if (reader->place != NULL)
        place_remove(reader->place, &reader->op);
    (void)stream_free(reader->stream);
    arena_done(&reader->arena);
    free(reader);
}

void jail_reader_free(void *handle)
{
    struct reader *reader = handle;
    struct err err = {0};
    if (reader->place != NULL && !reader->is_answered)
        (void)!jail_cancel(reader->place->jail, reader->op.id, &err);
    reader->is_freed = true;
    if (!reader->is_telling)
        reader_done(reader);
}

static void end_reader(struct reader *reader, const struct err *why)
{
    if (reader->place != NULL)
        place_remove(reader->place, &reader->op);
    reader->place = NULL;
    reader->is_telling = true;
    reader->calls.on_end(reader->ctx, why);
    reader->is_telling = false;
    if (reader->is_freed)
        reader_done(reader);
}

/* The last byte and the last word come by two ways, in any order. */
static void maybe_end_reader(struct reader *reader)
{
    if (reader->is_answered && reader->has_ended)
        end_reader(reader, reader->err.code == ERR_NONE ? NULL : &reader->err);
}

static void on_data(void *ctx, struct buf *in)
{
    struct reader *reader = ctx;
    reader->is_telling = true;
    reader->calls.on_data(reader->ctx, buf_str(in));
    reader->is_telling = false;
    if (reader->is_freed)
        reader_done(reader);
    else
        buf_consume(in, in->len);
}

static void on_data_end(void *ctx, UNUSED const struct err *why)
{
    struct reader *reader = ctx;
    reader->has_ended = true;
    maybe_end_reader(reader);
}

static const struct stream_calls read_calls = {on_data, on_data_end, NULL, NULL};

static int ask_contents(struct reader *reader, struct err *err)
{
    AUTO_CLOSE int childs = -1;
    uint32_t id = 0;
    if (open_pipe(reader->place, false, &read_calls, reader, &reader->stream, &childs, err) < 0 ||
        jail_ask_file(reader->place->jail, &reader->question, childs, &id, err) < 0)
        return -1;
    if (reader->is_stopped)
        stream_pause(reader->stream);
    place_remove(reader->place, &reader->op);
    place_add(reader->place, &reader->op, id);
    place_watch(reader->place);
    return 0;
}

/* Its first question brought all of it: what is small needs no pipe and no process inside. */
static void tell_all(struct reader *reader, const struct jail_file_answer *answer)
{
    struct file_info info = jail_file_info(reader->question.path, &answer->stat);
    uint64_t offset = reader->question.offset, size = answer->size;
    /* The calls may ask the jail something, which ends the answer's life. It may have grown since
     * its size was looked at: what the head says is what is sent. */
    uint64_t there = size > offset ? size - offset : 0;
    size_t len = (size_t)MIN((uint64_t)answer->bytes.len, there);
    struct str bytes = arena_dup(&reader->arena, str_slice(answer->bytes, 0, len));
    reader->is_looking = false;
    reader->is_answered = true;
    reader->is_telling = true;
    reader->calls.on_head(reader->ctx, &info);
    if (!reader->is_freed && bytes.len > 0)
        reader->calls.on_data(reader->ctx, bytes);
    reader->is_telling = false;
    if (reader->is_freed)
        reader_done(reader);
    else
        end_reader(reader, NULL);
}

static bool is_all(const struct reader *reader, const struct jail_file_answer *answer)
{
    return reader->is_reading &&
           (!answer->truncated || answer->bytes.len == reader->question.limit);
}

static void tell_head(struct reader *reader, const struct files_stat *stat)
{
    struct err err = {0};
    struct file_info info = jail_file_info(reader->question.path, stat);
    reader->is_looking = false;
    /* Before the head is told: an answer that has begun cannot become an error any more. */
    if (stat->type != FILES_REGULAR && reader->question.verb == JAIL_FILE_READ_TO) {
        (void)err_set(&err, ERR_NOT_A_FILE, "'%.*s' is not a regular file",
                      STR_ARG(reader->question.path));
        end_reader(reader, &err);
        return;
    }
    reader->is_telling = true;
    reader->calls.on_head(reader->ctx, &info);
    reader->is_telling = false;
    if (reader->is_freed)
        reader_done(reader);
    else if (ask_contents(reader, &err) < 0)
        end_reader(reader, &err);
}

static void on_reader_event(struct asked_op *op, const struct jail_event *event,
                            const struct err *why)
{
    struct reader *reader = (struct reader *)op;
    if (event == NULL) {
        reader->place = NULL;
        end_reader(reader, why);
    } else if (event->type == JAIL_EVENT_FILE && reader->is_looking) {
        if (is_all(reader, event->file))
            tell_all(reader, event->file);
        else
            tell_head(reader, &event->file->stat);
    } else if (event->type == JAIL_EVENT_FAILED && reader->is_looking) {
        end_reader(reader, &event->err);
    } else {
        if (event->type == JAIL_EVENT_FAILED)
            reader->err = event->err;
        reader->is_answered = true;
        place_remove(reader->place, &reader->op);
        reader->place = NULL; /* what is still to be read lies in the pipe, and may outlive it */
        maybe_end_reader(reader);
    }
}

int jail_file_get(struct place *place, const struct file_get *get,
                  const struct file_reader_calls *calls, void *ctx, void **ret_reader,
                  struct err *err)
{
    struct reader *reader = mem_alloc(sizeof *reader);
    struct jail_file look = {.verb = JAIL_FILE_STAT, .follow = true};
    uint32_t id = 0;
    reader->op.on_event = on_reader_event;
    reader->place = place;
    reader->calls = *calls;
    reader->ctx = ctx;
    reader->is_looking = true;
    reader->question = (struct jail_file){
        .verb = get->as_tar || get->as_snapshot ? JAIL_FILE_TAR_OUT : JAIL_FILE_READ_TO,
        .path = arena_dup(&reader->arena, get->path),
        .to = arena_dup(&reader->arena, get->name),
        .place = get->as_snapshot ? FILES_TAR_SNAPSHOT : FILES_TAR_NEW,
        .offset = get->offset,
        .limit = get->limit,
    };
    look.path = reader->question.path;
    /* Past any file there is nothing to read, but a size to be told. */
    reader->is_reading =
        reader->question.verb == JAIL_FILE_READ_TO && get->offset < INT64_MAX - JAIL_FILE_BYTES_MAX;
    if (reader->is_reading)
        look = (struct jail_file){.verb = JAIL_FILE_READ,
                                  .path = reader->question.path,
                                  .offset = get->offset,
                                  .limit = get->limit};
    if (jail_ask_file(place->jail, &look, -1, &id, err) < 0) {
        reader->place = NULL;
        reader_done(reader);
        return -1;
    }
    place_add(place, &reader->op, id);
    place_watch(place);
    *ret_reader = reader;
    return 0;
}

void jail_reader_flow(void *handle, bool stop)
{
    struct reader *reader = handle;
    reader->is_stopped = stop;
    if (reader->stream == NULL)
        return;
    if (stop)
        stream_pause(reader->stream);
    else
        stream_resume(reader->stream);
}

/* --- Into the jail --- */

struct writer {
    struct asked_op op;
    struct place *place;
    struct file_writer_calls calls;
    void *ctx;
    struct stream *stream;
    struct buf queue; /* what the pipe has no room for yet */
    struct arena arena;
    struct str path;
    bool is_tar, is_looking, is_finished, is_over, is_telling, is_freed, is_dying;
    struct file_answer answer;
};

static void writer_done(struct writer *writer)
{
    if (writer->place != NULL)
        place_remove(writer->place, &writer->op);
    (void)stream_free(writer->stream);
    buf_done(&writer->queue);
    arena_done(&writer->arena);
    free(writer);
}

void jail_writer_free(void *handle)
{
    struct writer *writer = handle;
    struct err err = {0};
    writer->is_freed = true;
    /* The pipe stays open until the jail has heard of it: its end would count as all. */
    if (writer->place != NULL && !writer->is_over &&
        jail_cancel(writer->place->jail, writer->op.id, &err) == 0) {
        writer->is_over = writer->is_dying = true;
        buf_clear(&writer->queue);
        place_watch(writer->place);
        return;
    }
    if (!writer->is_telling)
        writer_done(writer);
}

static void end_writer(struct writer *writer, const struct err *why)
{
    if (writer->is_over)
        return;
    writer->is_over = true;
    if (writer->place != NULL)
        place_remove(writer->place, &writer->op);
    writer->place = NULL;
    writer->is_telling = true;
    writer->calls.on_done(writer->ctx, why == NULL ? &writer->answer : NULL, why);
    writer->is_telling = false;
    if (writer->is_freed)
        writer_done(writer);
}

static void on_none(UNUSED void *ctx, struct buf *in)
{
    buf_consume(in, in->len);
}

static void on_none_end(UNUSED void *ctx, UNUSED const struct err *why)
{
}

/* True when there is room for more. A pipe that nobody reads any more takes everything: the reason
 * comes from inside. */
static bool push(struct writer *writer)
{
    struct err err = {0};
    while (writer->stream != NULL && writer->queue.len > 0) {
        if (stream_is_full(writer->stream))
            return false;
        struct str piece = str_slice(buf_str(&writer->queue), 0, PIECE_BYTES);
        if (stream_write(writer->stream, piece, &err) < 0)
            break;
        buf_consume(&writer->queue, piece.len);
    }
    buf_clear(&writer->queue);
    if (writer->stream != NULL && writer->is_finished)
        stream_finish(writer->stream);
    return writer->stream == NULL || !stream_is_full(writer->stream);
}

static void on_drain(void *ctx)
{
    struct writer *writer = ctx;
    if (push(writer) && !writer->is_finished && !writer->is_over && writer->calls.on_drain != NULL)
        writer->calls.on_drain(writer->ctx);
}

/* All is sent, and the jail has seen so; our end stays open until its word comes, else it would
 * count as cut off. Or it reads no more: then its word comes as well. */
static void on_closed(void *ctx, const struct err *why)
{
    struct writer *writer = ctx;
    if (why != NULL)
        writer->stream = stream_free(writer->stream);
}

static const struct stream_calls write_calls = {on_none, on_none_end, on_drain, on_closed};

static void take_word(struct writer *writer, const struct jail_file_answer *file)
{
    struct jail_file look = {.verb = JAIL_FILE_STAT, .path = writer->path, .follow = true};
    struct err err = {0};
    uint32_t id = 0;
    if (writer->is_looking) {
        writer->answer.info = jail_file_info(writer->path, &file->stat);
        end_writer(writer, NULL);
        return;
    }
    writer->answer.created = file->created;
    writer->answer.count = file->count;
    writer->is_looking = true;
    if (jail_ask_file(writer->place->jail, &look, -1, &id, &err) < 0) {
        end_writer(writer, &err);
        return;
    }
    place_remove(writer->place, &writer->op);
    place_add(writer->place, &writer->op, id);
    place_watch(writer->place);
}

static void on_writer_event(struct asked_op *op, const struct jail_event *event,
                            const struct err *why)
{
    struct writer *writer = (struct writer *)op;
    if (writer->is_dying) {
        writer->place = event == NULL ? NULL : writer->place;
        writer_done(writer);
    } else if (event == NULL) {
        writer->place = NULL;
        end_writer(writer, why);
    } else if (event->type == JAIL_EVENT_FILE) {
        jail_files_touched(writer->place); /* it is there only now */
        take_word(writer, event->file);
    } else {
        end_writer(writer, &event->err);
    }
}

/* The comparison is made inside, where the file is replaced. */
static int ask_for_same(const struct file_put *put, struct jail_file *question, struct err *err)
{
    question->if_same = put->if_match.len > 0;
    if (question->if_same &&
        !file_etag_parse(put->if_match, &question->same_mtime_ns, &question->same_size))
        return err_set(err, ERR_NO_MATCH, "'%.*s' has another version", STR_ARG(put->path));
    return 0;
}

int jail_file_put(struct place *place, const struct file_put *put,
                  const struct file_writer_calls *calls, void *ctx, void **ret_writer,
                  struct err *err)
{
    struct writer *writer = mem_alloc(sizeof *writer);
    AUTO_CLOSE int childs = -1;
    uint32_t id = 0;
    jail_files_touched(place);
    writer->op.on_event = on_writer_event;
    writer->place = place;
    writer->calls = *calls;
    writer->ctx = ctx;
    writer->is_tar = put->as_tar;
    writer->path = arena_dup(&writer->arena, put->path);
    static const enum files_tar_place places[] = {
        [FILE_TAR_NEW] = FILES_TAR_NEW,
        [FILE_TAR_MERGE] = FILES_TAR_MERGE,
        [FILE_TAR_LAYER] = FILES_TAR_LAYER,
        [FILE_TAR_SNAPSHOT] = FILES_TAR_SNAPSHOT,
    };
    struct jail_file question = {.verb = put->as_tar ? JAIL_FILE_TAR_IN : JAIL_FILE_WRITE_FROM,
                                 .path = writer->path,
                                 .limit = put->as_tar ? 0 : UINT64_MAX >> 1,
                                 .mode = put->mode,
                                 .parents = put->make_parents,
                                 .must_be_new = put->must_be_new,
                                 .place = places[put->tar]};
    if (put->tar >= FILE_TAR_LAYER)
        question.tar = snapshot_limits;
    if (ask_for_same(put, &question, err) < 0 ||
        open_pipe(place, true, &write_calls, writer, &writer->stream, &childs, err) < 0 ||
        jail_ask_file(place->jail, &question, childs, &id, err) < 0) {
        writer->place = NULL;
        writer_done(writer);
        return -1;
    }
    place_add(place, &writer->op, id);
    place_watch(place);
    *ret_writer = writer;
    return 0;
}

bool jail_writer_write(void *handle, struct str bytes)
{
    struct writer *writer = handle;
    struct err err = {0};
    if (writer->stream == NULL || buf_append(&writer->queue, bytes, &err) < 0)
        return true;
    return push(writer);
}

void jail_writer_finish(void *handle)
{
    struct writer *writer = handle;
    writer->is_finished = true;
    (void)push(writer);
}

/* --- News --- */

struct watcher {
    struct asked_op op;
    struct place *place;
    struct file_watch_calls calls;
    void *ctx;
    bool is_telling, is_freed;
};

void jail_watcher_free(void *handle)
{
    struct watcher *watcher = handle;
    struct err err = {0};
    if (watcher->place != NULL) {
        (void)!jail_cancel(watcher->place->jail, watcher->op.id, &err);
        place_remove(watcher->place, &watcher->op);
    }
    watcher->place = NULL;
    watcher->is_freed = true;
    if (!watcher->is_telling)
        free(watcher);
}

static void tell_news(struct watcher *watcher, struct str part)
{
    static const enum file_change changes[] = {
        [FILES_EVENT_CREATE] = FILE_CREATED,    [FILES_EVENT_WRITE] = FILE_MODIFIED,
        [FILES_EVENT_REMOVE] = FILE_DELETED,    [FILES_EVENT_RENAME_FROM] = FILE_DELETED,
        [FILES_EVENT_RENAME_TO] = FILE_MOVED,   [FILES_EVENT_CHMOD] = FILE_MODIFIED,
        [FILES_EVENT_OVERFLOW] = FILE_OVERFLOW, [FILES_EVENT_GONE] = FILE_DELETED,
    };
    struct files_event event;
    while (!watcher->is_freed && jail_part_event(&part, &event)) {
        struct file_event news = {
            .change = changes[event.type], .path = event.path, .is_directory = event.is_dir};
        watcher->calls.on_event(watcher->ctx, &news);
    }
}

static void on_watcher_event(struct asked_op *op, const struct jail_event *event,
                             const struct err *why)
{
    struct watcher *watcher = (struct watcher *)op;
    watcher->is_telling = true;
    if (event != NULL && event->type == JAIL_EVENT_PART) {
        tell_news(watcher, event->part);
    } else {
        struct err gone = {0};
        (void)err_set(&gone, ERR_GONE, "the directory is gone");
        if (watcher->place != NULL)
            place_remove(watcher->place, &watcher->op);
        watcher->place = NULL;
        watcher->calls.on_end(watcher->ctx, event == NULL                      ? why
                                            : event->type == JAIL_EVENT_FAILED ? &event->err
                                                                               : &gone);
    }
    watcher->is_telling = false;
    if (watcher->is_freed)
        free(watcher);
}

int jail_file_watch(struct place *place, struct str path, bool recursive,
                    const struct file_watch_calls *calls, void *ctx, void **ret_watcher,
                    struct err *err)
{
    struct jail_file question = {.verb = JAIL_FILE_WATCH, .path = path, .recursive = recursive};
    uint32_t id = 0;
    if (jail_ask_file(place->jail, &question, -1, &id, err) < 0)
        return -1;
    struct watcher *watcher = mem_alloc(sizeof *watcher);
    watcher->op.on_event = on_watcher_event;
    watcher->place = place;
    watcher->calls = *calls;
    watcher->ctx = ctx;
    place_add(place, &watcher->op, id);
    place_watch(place);
    *ret_watcher = watcher;
    return 0;
}
