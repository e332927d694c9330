#pragma once

/* Bytes in and out of a non-blocking descriptor (socket, pipe, terminal), with back-pressure both
 * ways: a reader that does not take its bytes stops the sender, and a writer learns when it must
 * wait.
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
    STREAM_IN_MAX = 256 << 10,     /* unconsumed bytes at which reading stops */
};

struct stream_calls {
    /* Bytes have arrived: consume some with buf_consume. The rest is offered again with the next
     * bytes, or after stream_resume. */
    void (*on_data)(void *ctx, struct buf *in);
    /* Nothing more will arrive. `why` is NULL at an orderly end. Writing may continue. */
    void (*on_end)(void *ctx, const struct err *why);
    /* May be NULL. Room again after stream_is_full said so. */
    void (*on_drain)(void *ctx);
    /* May be NULL. The other side stopped reading, or all was sent after stream_finish (NULL). The
     * stream stays the caller's to free. */
    void (*on_closed)(void *ctx, const struct err *why);
};

/* Takes `fd` (on success). Reading starts at once. */
int stream_open(struct loop *loop, int fd, const struct stream_calls *calls, void *ctx,
                struct stream **ret_stream, struct err *err) MUST_USE;
/* Closes at once; unsent bytes are lost. No call-back comes after it. */
struct stream *stream_free(struct stream *stream);
DEFINE_FREEP(stream)

/* Sends or queues all bytes. TOO_LARGE if the queue would exceed STREAM_OUT_MAX (nothing is queued
 * then), UNAVAILABLE after the peer has closed or after stream_finish. */
int stream_write(struct stream *stream, struct str bytes, struct err *err) MUST_USE;
size_t stream_unsent(const struct stream *stream);
bool stream_is_full(const struct stream *stream);
/* No more writes: once all is sent a socket is shut down, so that the other side sees the end, and
 * on_closed is called. A pipe has no such half: its reader sees the end when the stream is freed.
 * Reading continues. */
void stream_finish(struct stream *stream);

void stream_pause(struct stream *stream);
void stream_resume(struct stream *stream);
