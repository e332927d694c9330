/* Contents of any size into a jail, a file's or an archive's: through a socket that its init reads,
 * at its pace. */

#include <errno.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/hold.h"
#include "io/stream.h"
#include "jail/client/files.h"
#include "jail/client/jail.h"
#include "tiers/jail/files/files.h"
#include "tiers/jail/place.h"

enum { PIECE_BYTES = 256 << 10 };

/* Of an archive that becomes a snapshot: it is unpacked in the memory of the sandbox that takes it
 * (SNAPSHOT_BUILD_BYTES). */
static const struct files_tar_limits snapshot_limits = {
    .packed = SNAPSHOT_ARCHIVE_BYTES, .unpacked = SNAPSHOT_ARCHIVE_BYTES, .entries = 200000};

/* What was packed here itself: files with holes may be far longer than the archive. */
static const struct files_tar_limits exact_limits = {
    .packed = 1 << 30, .unpacked = 1LL << 50, .entries = 1000000, .ratio = 1LL << 40, .depth = 200};

struct writer {
    struct asked_op op;
    struct hold hold;
    struct place *place;
    struct file_writer_calls calls;
    void *ctx;
    struct stream *stream;
    struct buf queue; /* what the pipe has no room for yet */
    struct arena arena;
    struct str path;
    bool is_looking, is_finished, is_over, is_dying;
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

void tier_writer_free(void *handle)
{
    struct writer *writer = handle;
    struct err err = {0};
    bool is_unheld = hold_end(&writer->hold);
    /* The pipe stays open until the jail knows of the cancellation: otherwise its end would count
     * as complete. */
    if (writer->place != NULL && !writer->is_over &&
        jail_cancel(writer->place->jail, writer->op.id, &err) == 0) {
        writer->is_over = writer->is_dying = true;
        buf_clear(&writer->queue);
        place_watch(writer->place);
        return;
    }
    if (is_unheld)
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
    hold_take(&writer->hold);
    writer->calls.on_done(writer->ctx, why == NULL ? &writer->answer : NULL, why);
    if (hold_release(&writer->hold))
        writer_done(writer);
}

static void on_none(UNUSED void *ctx, struct buf *in)
{
    buf_consume(in, in->len);
}

static void on_none_end(UNUSED void *ctx, UNUSED const struct err *why)
{
}

/* True when there is room for more. A pipe without a reader takes everything: the reason
 * comes from inside. */
static bool writer_push(struct writer *writer)
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

static void writer_on_drain(void *ctx)
{
    struct writer *writer = ctx;
    if (writer_push(writer) && !writer->is_finished && !writer->is_over &&
        writer->calls.on_drain != NULL)
        writer->calls.on_drain(writer->ctx);
}

/* All is sent, and the jail has seen so; our end stays open until its word comes, else it would
 * count as cut off. Or it reads no more: then its word comes as well. */
static void writer_on_closed(void *ctx, const struct err *why)
{
    struct writer *writer = ctx;
    if (why != NULL)
        writer->stream = stream_free(writer->stream);
}

static const struct stream_calls write_calls = {on_none, on_none_end, writer_on_drain,
                                                writer_on_closed};

/* A socket, not a pipe: on a socket the intended end can be distinguished from the death of the
 * server. */
static int open_pair(struct writer *writer, int *ret_childs, struct err *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return err_sys(err, errno, "make a pair of sockets");
    AUTO_CLOSE int ours = ends[1], childs = ends[0];
    if (stream_open(writer->place->provider_loop, ours, &write_calls, writer, &writer->stream,
                    err) < 0)
        return -1;
    (void)fd_take(&ours);
    stream_pause(writer->stream);
    *ret_childs = fd_take(&childs);
    return 0;
}

static void writer_take_word(struct writer *writer, const struct jail_file_answer *file)
{
    struct jail_file look = {.verb = JAIL_FILE_STAT, .path = writer->path, .follow = true};
    struct err err = {0};
    uint32_t id = 0;
    if (writer->is_looking) {
        writer->answer.info = tier_file_info(writer->path, &file->stat);
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
        tier_files_touched(writer->place); /* it is there only now */
        writer_take_word(writer, event->file);
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
        return err_set(err, ERR_NO_MATCH, "'%.*s' was changed; read it again", STR_ARG(put->path));
    return 0;
}

static struct jail_file question_of(const struct file_put *put, struct str path)
{
    static const enum files_tar_place places[] = {
        [FILE_TAR_NEW] = FILES_TAR_NEW,     [FILE_TAR_MERGE] = FILES_TAR_MERGE,
        [FILE_TAR_LAYER] = FILES_TAR_LAYER, [FILE_TAR_SNAPSHOT] = FILES_TAR_SNAPSHOT,
        [FILE_TAR_EXACT] = FILES_TAR_EXACT,
    };
    struct jail_file question = {.verb = put->as_tar ? JAIL_FILE_TAR_IN : JAIL_FILE_WRITE_FROM,
                                 .path = path,
                                 .limit = put->as_tar ? 0 : UINT64_MAX >> 1,
                                 .mode = put->mode,
                                 .parents = put->make_parents,
                                 .must_be_new = put->must_be_new,
                                 .place = places[put->tar]};
    if (put->tar == FILE_TAR_EXACT)
        question.tar = exact_limits;
    else if (put->tar >= FILE_TAR_LAYER)
        question.tar = snapshot_limits;
    return question;
}

int tier_file_put(struct place *place, const struct file_put *put,
                  const struct file_writer_calls *calls, void *ctx, void **ret_writer,
                  struct err *err)
{
    struct writer *writer = mem_alloc(sizeof *writer);
    AUTO_CLOSE int childs = -1;
    uint32_t id = 0;
    tier_files_touched(place);
    writer->op.on_event = on_writer_event;
    writer->place = place;
    writer->calls = *calls;
    writer->ctx = ctx;
    writer->path = arena_dup(&writer->arena, put->path);
    struct jail_file question = question_of(put, writer->path);
    question.sync = !put->as_tar && tier_files_last(place, writer->path);
    if (ask_for_same(put, &question, err) < 0 || open_pair(writer, &childs, err) < 0 ||
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

bool tier_writer_write(void *handle, struct str bytes)
{
    struct writer *writer = handle;
    struct err err = {0};
    if (writer->stream == NULL || buf_append(&writer->queue, bytes, &err) < 0)
        return true;
    return writer_push(writer);
}

void tier_writer_finish(void *handle)
{
    struct writer *writer = handle;
    writer->is_finished = true;
    (void)writer_push(writer);
}
