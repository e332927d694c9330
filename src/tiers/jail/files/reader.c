/* A file or a tree out of a jail, of any size: through a pipe that its init writes, at the pace of
 * the reader. Small contents come with the first answer. */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/hold.h"
#include "io/stream.h"
#include "jail/client/files.h"
#include "jail/client/jail.h"
#include "tiers/jail/files/files.h"
#include "tiers/jail/place.h"

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
    bool is_stopped, is_answered, has_ended;
    struct hold hold;
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

void tier_reader_free(void *handle)
{
    struct reader *reader = handle;
    struct err err = {0};
    if (reader->place != NULL && !reader->is_answered)
        (void)!jail_cancel(reader->place->jail, reader->op.id, &err);
    if (hold_end(&reader->hold))
        reader_done(reader);
}

static void end_reader(struct reader *reader, const struct err *why)
{
    if (reader->place != NULL)
        place_remove(reader->place, &reader->op);
    reader->place = NULL;
    hold_take(&reader->hold);
    reader->calls.on_end(reader->ctx, why);
    if (hold_release(&reader->hold))
        reader_done(reader);
}

/* The last byte and the last word come by two ways, in any order. */
static void maybe_end_reader(struct reader *reader)
{
    if (reader->is_answered && reader->has_ended)
        end_reader(reader, reader->err.code == ERR_NONE ? NULL : &reader->err);
}

static void reader_on_data(void *ctx, struct buf *in)
{
    struct reader *reader = ctx;
    hold_take(&reader->hold);
    reader->calls.on_data(reader->ctx, buf_str(in));
    if (hold_release(&reader->hold))
        reader_done(reader);
    else if (!reader->hold.is_freed)
        buf_consume(in, in->len);
}

static void on_data_end(void *ctx, UNUSED const struct err *why)
{
    struct reader *reader = ctx;
    reader->has_ended = true;
    maybe_end_reader(reader);
}

static const struct stream_calls read_calls = {reader_on_data, on_data_end, NULL, NULL};

static int open_pipe(struct reader *reader, int *ret_childs, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(err, errno, "make a pipe");
    AUTO_CLOSE int ours = ends[0], childs = ends[1];
    /* Larger steps cost less; the default will do where this is not allowed. */
    (void)fcntl(ours, F_SETPIPE_SZ, 1 << 20);
    if (stream_open(reader->place->provider_loop, ours, &read_calls, reader, &reader->stream, err) <
        0)
        return -1;
    (void)fd_take(&ours);
    *ret_childs = fd_take(&childs);
    return 0;
}

static int ask_contents(struct reader *reader, struct err *err)
{
    AUTO_CLOSE int childs = -1;
    uint32_t id = 0;
    if (open_pipe(reader, &childs, err) < 0 ||
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
    struct file_info info = tier_file_info(reader->question.path, &answer->stat);
    uint64_t offset = reader->question.offset, size = answer->size;
    /* The calls may ask the jail something, which ends the answer's life. It may have grown since
     * its size was looked at: what the head says is what is sent. */
    uint64_t there = size > offset ? size - offset : 0;
    size_t len = (size_t)MIN((uint64_t)answer->bytes.len, there);
    struct str bytes = arena_dup(&reader->arena, str_slice(answer->bytes, 0, len));
    reader->is_looking = false;
    reader->is_answered = true;
    hold_take(&reader->hold);
    reader->calls.on_head(reader->ctx, &info);
    if (!reader->hold.is_freed && bytes.len > 0)
        reader->calls.on_data(reader->ctx, bytes);
    if (hold_release(&reader->hold))
        reader_done(reader);
    else if (!reader->hold.is_freed)
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
    struct file_info info = tier_file_info(reader->question.path, stat);
    reader->is_looking = false;
    /* Checked before the head is reported: an answer that has begun cannot become an error. */
    if (stat->type != FILES_REGULAR && reader->question.verb == JAIL_FILE_READ_TO) {
        (void)err_set(&err, ERR_NOT_A_FILE, "'%.*s' is not a regular file",
                      STR_ARG(reader->question.path));
        end_reader(reader, &err);
        return;
    }
    hold_take(&reader->hold);
    reader->calls.on_head(reader->ctx, &info);
    if (hold_release(&reader->hold))
        reader_done(reader);
    else if (!reader->hold.is_freed && ask_contents(reader, &err) < 0)
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

/* Past any file there is nothing to read, but a size to be told. */
static struct jail_file first_question(struct reader *reader)
{
    const struct jail_file *all = &reader->question;
    reader->is_reading =
        all->verb == JAIL_FILE_READ_TO && all->offset < INT64_MAX - JAIL_FILE_BYTES_MAX;
    if (!reader->is_reading)
        return (struct jail_file){.verb = JAIL_FILE_STAT, .path = all->path, .follow = true};
    return (struct jail_file){
        .verb = JAIL_FILE_READ, .path = all->path, .offset = all->offset, .limit = all->limit};
}

int tier_file_get(struct place *place, const struct file_get *get,
                  const struct file_reader_calls *calls, void *ctx, void **ret_reader,
                  struct err *err)
{
    struct reader *reader = mem_alloc(sizeof *reader);
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
        .place = get->as_snapshot ? FILES_TAR_SNAPSHOT
                 : get->as_kept   ? FILES_TAR_EXACT
                                  : FILES_TAR_NEW,
        .offset = get->offset,
        .limit = get->limit,
    };
    struct jail_file look = first_question(reader);
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

void tier_reader_flow(void *handle, bool stop)
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
