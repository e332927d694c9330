#pragma once

/* Bytes in and out of a non-blocking descriptor (socket, pipe, terminal), with back-pressure both
 * ways: a reader that does not take its bytes stops the sender, and a writer is told when to wait.
 *
 * Belongs to the loop's thread. Call-backs may call any function here, stream_free included, which
 * is why none of them is called from within stream_write. */

#include "base/buf.h"
#include "io/loop.h"

struct stream;

enum {
    STREAM_HIGH_WATER = 256 << 10, /* unsent bytes from which the writer should wait */
    STREAM_LOW_WATER = 64 << 10,   /* on_drain comes when unsent bytes fall to this */
    STREAM_OUT_MAX = 4 << 20,      /* unsent bytes at which stream_write refuses */
    STREAM_IN_MAX = 256 << 10,     /* untaken bytes at which reading stops by itself */
};

struct stream_calls {
    /* Bytes are there: take some with buf_consume. What is left is offered again with the next
     * bytes, or after stream_resume. */
    void (*on_data)(void *ctx, struct buf *in);
    /* Nothing more will come. `why` is NULL at an orderly end. Writing may go on. */
    void (*on_end)(void *ctx, const struct err *why);
    /* May be NULL. Room again after stream_is_full said so. */
    void (*on_drain)(void *ctx);
    /* May be NULL. The other side takes no more, or all was sent after stream_finish (NULL). The
     * stream stays the caller's to free. */
    void (*on_closed)(void *ctx, const struct err *why);
};

/* Takes `fd` (on success). Reading starts at once. */
int stream_open(struct loop *loop, int fd, const struct stream_calls *calls, void *ctx,
                struct stream **ret_stream, struct err *err) MUST_USE;
/* Closes at once; unsent bytes are lost. No call-back comes after it. */
struct stream *stream_free(struct stream *stream);
DEFINE_FREEP(stream)

/* Sends or queues all of it. TOO_LARGE when the queue would pass STREAM_OUT_MAX (nothing of it is
 * queued), UNAVAILABLE after the other side has gone or after stream_finish. */
int stream_write(struct stream *stream, struct str bytes, struct err *err) MUST_USE;
size_t stream_unsent(const struct stream *stream);
bool stream_is_full(const struct stream *stream);
/* No more writes: once all is sent a socket is shut down, so that the other side sees the end, and
 * on_closed comes. A pipe has no such half: its reader sees the end when the stream is freed.
 * Reading goes on. */
void stream_finish(struct stream *stream);

void stream_pause(struct stream *stream);
void stream_resume(struct stream *stream);
