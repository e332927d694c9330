#include "io/stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/hold.h"
#include "base/sys.h"

/* What a stream still does. Reading: OPEN -> ENDED by read_some. Writing: OPEN -> FINISHING by
 * stream_finish -> SHUT by send_some when the queue is empty, or any -> SHUT by write_failed. */
enum side { SIDE_OPEN, SIDE_FINISHING, SIDE_SHUT };

struct stream {
    struct loop *loop;
    int fd;
    struct watch *watch;
    struct timer *soon; /* call-backs that must not come from within the caller's own call */
    struct stream_calls calls;
    void *ctx;
    struct buf in, out;
    bool ended, paused, was_full;
    enum side writing;
    bool told_closed;
    struct err why;   /* why writing ended; code NONE for an orderly end */
    struct hold hold; /* by callbacks that run now, one inside the other */
};

enum { READ_SIZE = 64 << 10 };

static void update_watch(struct stream *stream)
{
    int events = 0;
    if (!stream->ended && !stream->paused && stream->in.len < STREAM_IN_MAX)
        events |= WATCH_READ;
    if (stream->writing != SIDE_SHUT && stream->out.len > 0)
        events |= WATCH_WRITE;
    watch_set(stream->watch, events);
}

static void write_failed(struct stream *stream, int code)
{
    (void)err_sys(&stream->why, code, "write");
    stream->writing = SIDE_SHUT;
    buf_done(&stream->out);
}

/* Sends what the kernel takes now. */
static void send_some(struct stream *stream)
{
    size_t sent = 0;
    while (sent < stream->out.len && stream->writing != SIDE_SHUT) {
        ssize_t count = SYS(write(stream->fd, stream->out.ptr + sent, stream->out.len - sent));
        if (count >= 0)
            sent += (size_t)count;
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR) {
            write_failed(stream, errno);
            return;
        }
    }
    buf_consume(&stream->out, sent);
    if (stream->out.len == 0 && stream->writing == SIDE_FINISHING) {
        stream->writing = SIDE_SHUT;
        (void)shutdown(stream->fd, SHUT_WR); /* a pipe says ENOTSOCK; its end is the close */
    }
}

/* Behind each call-back. False when the stream was freed by it. */
static bool still_there(struct stream *stream)
{
    bool freed = stream->hold.is_freed;
    if (hold_release(&stream->hold))
        free(stream);
    return !freed;
}

#define CALL_OUT(stream, call) (hold_take(&(stream)->hold), (call), still_there(stream))

/* Tells the writer of room, or of the end, after bytes were sent. */
static bool report_sent(struct stream *stream)
{
    if (stream->writing == SIDE_SHUT && !stream->told_closed) {
        stream->told_closed = true;
        const struct err *why = stream->why.code == ERR_NONE ? NULL : &stream->why;
        if (stream->calls.on_closed != NULL)
            return CALL_OUT(stream, stream->calls.on_closed(stream->ctx, why));
    } else if (stream->was_full && stream->out.len <= STREAM_LOW_WATER) {
        stream->was_full = false;
        if (stream->calls.on_drain != NULL)
            return CALL_OUT(stream, stream->calls.on_drain(stream->ctx));
    }
    return true;
}

static bool end_reading(struct stream *stream, const struct err *why)
{
    stream->ended = true;
    return CALL_OUT(stream, stream->calls.on_end(stream->ctx, why));
}

static bool read_some(struct stream *stream)
{
    char *space;
    struct err err = {0};
    size_t room = MIN((size_t)READ_SIZE, STREAM_IN_MAX - stream->in.len);
    int reserved = buf_reserve(&stream->in, room, &space, &err);
    assert(reserved == 0); /* the buffer's limit is above STREAM_IN_MAX */
    ssize_t count = SYS(read(stream->fd, space, room));
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    /* A terminal whose last user has gone says EIO: that is its way to end. */
    if (count == 0 || (count < 0 && errno == EIO && isatty(stream->fd)))
        return end_reading(stream, NULL);
    if (count < 0) {
        (void)err_sys(&err, errno, "read");
        return end_reading(stream, &err);
    }
    buf_commit(&stream->in, (size_t)count);
    if (!CALL_OUT(stream, stream->calls.on_data(stream->ctx, &stream->in)))
        return false;
    if (stream->in.len == 0)
        buf_done(&stream->in); /* thousands of quiet streams must not each keep a page pile */
    return true;
}

static void stream_on_ready(void *ctx, int events)
{
    struct stream *stream = ctx;
    if ((events & WATCH_WRITE) != 0) {
        send_some(stream);
        if (!report_sent(stream))
            return;
    }
    bool reading = !stream->ended && !stream->paused && stream->in.len < STREAM_IN_MAX;
    if ((events & WATCH_READ) != 0 && reading && !read_some(stream))
        return;
    update_watch(stream);
}

static void on_soon(void *ctx)
{
    struct stream *stream = ctx;
    if (!report_sent(stream))
        return;
    if (stream->in.len > 0 && !stream->paused && !stream->ended &&
        !CALL_OUT(stream, stream->calls.on_data(stream->ctx, &stream->in)))
        return;
    update_watch(stream);
}

int stream_open(struct loop *loop, int fd, const struct stream_calls *calls, void *ctx,
                struct stream **ret_stream, struct err *err)
{
    struct stream *stream = mem_alloc(sizeof *stream);
    if (watch_new(loop, fd, WATCH_READ, stream_on_ready, stream, &stream->watch, err) < 0) {
        free(stream);
        return -1;
    }
    stream->loop = loop;
    stream->fd = fd;
    stream->calls = *calls;
    stream->ctx = ctx;
    stream->in = buf_with_limit(STREAM_IN_MAX + READ_SIZE);
    stream->out = buf_with_limit(STREAM_OUT_MAX);
    stream->soon = timer_new(loop, on_soon, stream);
    *ret_stream = stream;
    return 0;
}

struct stream *stream_free(struct stream *stream)
{
    if (stream == NULL)
        return NULL;
    loop_assert(stream->loop);
    (void)watch_free(stream->watch);
    (void)timer_free(stream->soon);
    fd_close(&stream->fd);
    buf_done(&stream->in);
    buf_done(&stream->out);
    if (hold_end(&stream->hold))
        free(stream);
    return NULL;
}

int stream_write(struct stream *stream, struct str bytes, struct err *err)
{
    loop_assert(stream->loop);
    if (stream->writing != SIDE_OPEN)
        return err_set(err, ERR_UNAVAILABLE, "the other side stopped reading");
    bool was_empty = stream->out.len == 0;
    if (buf_append(&stream->out, bytes, err) < 0)
        return err_wrap(err, "the other side stopped reading");
    if (was_empty)
        send_some(stream);
    if (stream->writing == SIDE_SHUT)
        timer_set(stream->soon, 0, 0);
    stream->was_full = stream->was_full || stream_is_full(stream);
    update_watch(stream);
    return 0;
}

size_t stream_unsent(const struct stream *stream)
{
    return stream->out.len;
}

bool stream_is_full(const struct stream *stream)
{
    return stream->out.len >= STREAM_HIGH_WATER;
}

void stream_finish(struct stream *stream)
{
    loop_assert(stream->loop);
    if (stream->writing != SIDE_OPEN)
        return;
    stream->writing = SIDE_FINISHING;
    send_some(stream);
    if (stream->writing == SIDE_SHUT)
        timer_set(stream->soon, 0, 0);
    update_watch(stream);
}

void stream_pause(struct stream *stream)
{
    loop_assert(stream->loop);
    stream->paused = true;
    update_watch(stream);
}

void stream_resume(struct stream *stream)
{
    loop_assert(stream->loop);
    stream->paused = false;
    timer_set(stream->soon, 0, 0);
    update_watch(stream);
}
