#include "api/ports/tunnel.h"

#include "base/err.h"
#include "base/fd.h"
#include "io/stream.h"

struct side {
    struct tunnel *tunnel;
    struct side *other;
    struct stream *stream;
    struct timer *stuck; /* rings when it has taken nothing for too long */
    bool has_ended;      /* nothing more comes from it */
    bool is_full;        /* it is behind: the other side waits */
};

struct tunnel {
    struct side sides[2];
    const struct tunnel_calls *calls;
    void *ctx;
    struct timer *over; /* reports the end when no caller is inside a stream */
};

static void end_soon(struct tunnel *tunnel)
{
    timer_set(tunnel->over, 0, 0);
}

static void on_over(void *ctx)
{
    struct tunnel *tunnel = ctx;
    tunnel->calls->on_closed(tunnel->ctx);
}

static void on_stuck(void *ctx)
{
    const struct side *side = ctx;
    end_soon(side->tunnel);
}

/* Everything is taken, so that an end never comes before bytes. */
static void tunnel_on_data(void *ctx, struct buf *in)
{
    struct side *from = ctx, *to = from->other;
    struct err err;
    if (stream_write(to->stream, buf_str(in), &err) < 0)
        end_soon(from->tunnel);
    buf_consume(in, in->len);
    if (stream_is_full(to->stream)) {
        to->is_full = true;
        timer_set(to->stuck, TUNNEL_STUCK_MS, 0);
        stream_pause(from->stream);
    }
    from->tunnel->calls->on_bytes(from->tunnel->ctx);
}

static void tunnel_on_end(void *ctx, const struct err *why)
{
    struct side *from = ctx;
    from->has_ended = true;
    if (why != NULL || (from->other->has_ended && stream_unsent(from->other->stream) == 0))
        end_soon(from->tunnel);
    stream_finish(from->other->stream);
    if (!timer_is_set(from->stuck))
        timer_set(from->stuck, TUNNEL_HALF_MS, 0);
}

static void tunnel_on_drain(void *ctx)
{
    struct side *to = ctx;
    to->is_full = false;
    if (!to->has_ended)
        timer_clear(to->stuck);
    stream_resume(to->other->stream);
}

/* All was sent after the other side's end, or this one takes no more. */
static void on_shut(void *ctx, const struct err *why)
{
    struct side *to = ctx;
    if (why != NULL || to->has_ended)
        end_soon(to->tunnel);
}

static const struct stream_calls stream_calls = {tunnel_on_data, tunnel_on_end, tunnel_on_drain,
                                                 on_shut};

static int open_side(struct tunnel *tunnel, struct loop *loop, size_t index, int fd,
                     struct err *err)
{
    struct side *side = &tunnel->sides[index];
    AUTO_CLOSE int own = fd;
    side->tunnel = tunnel;
    side->other = &tunnel->sides[1 - index];
    side->stuck = timer_new(loop, on_stuck, side);
    if (stream_open(loop, own, &stream_calls, side, &side->stream, err) < 0)
        return -1;
    (void)fd_take(&own);
    return 0;
}

int tunnel_open(struct loop *loop, int fd_a, int fd_b, struct str for_a, struct str for_b,
                const struct tunnel_calls *calls, void *ctx, struct tunnel **ret_tunnel,
                struct err *err)
{
    struct tunnel *tunnel = mem_alloc(sizeof *tunnel);
    tunnel->calls = calls;
    tunnel->ctx = ctx;
    tunnel->over = timer_new(loop, on_over, tunnel);
    int first = open_side(tunnel, loop, 0, fd_a, err);
    int second = open_side(tunnel, loop, 1, fd_b, err);
    if (first < 0 || second < 0) {
        (void)tunnel_free(tunnel);
        return -1;
    }
    if (stream_write(tunnel->sides[0].stream, for_a, err) < 0 ||
        stream_write(tunnel->sides[1].stream, for_b, err) < 0)
        end_soon(tunnel);
    *ret_tunnel = tunnel;
    return 0;
}

struct tunnel *tunnel_free(struct tunnel *tunnel)
{
    if (tunnel == NULL)
        return NULL;
    for (size_t i = 0; i < countof(tunnel->sides); i++) {
        tunnel->sides[i].stream = stream_free(tunnel->sides[i].stream);
        tunnel->sides[i].stuck = timer_free(tunnel->sides[i].stuck);
    }
    tunnel->over = timer_free(tunnel->over);
    free(tunnel);
    return NULL;
}
