#include "egress/gateway/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "egress/net/meter.h"
#include "io/loop.h"

enum {
    PIECE = 64 << 10,
    PIPE_SIZE = 1 << 20,
    LONG = 512 << 10, /* bytes after which a direction gets a pipe */
    TURNS = 16,       /* pieces moved before others get their turn */
};

/* Bytes on their way from one socket to the other. OPEN, then ENDED when the sender is done
 * (read_some), then SHUT when the receiver was told (finish). */
struct way {
    int from, to;
    bool ended, shut;
    struct buf kept;
    int pipe[2]; /* -1: not yet */
    size_t in_pipe;
    int64_t moved;
};

struct relay {
    struct loop *loop;
    struct relay_options options;
    struct watch *inner, *outer;
    struct way up, down; /* to the host, to the sandbox */
    struct timer *soon;
    int64_t moved_ms;
    bool is_over;
    struct err why;
};

static bool has_bytes(const struct way *way)
{
    return way->kept.len > 0 || way->in_pipe > 0;
}

static void set_watches(struct relay *relay)
{
    bool dry = meter_is_dry(relay->options.meter);
    const struct way *up = &relay->up, *down = &relay->down;
    int inner = 0, outer = 0;
    if (!up->ended && !has_bytes(up) && !dry)
        inner |= WATCH_READ;
    if (has_bytes(up))
        outer |= WATCH_WRITE;
    if (!down->ended && !has_bytes(down) && !dry)
        outer |= WATCH_READ;
    if (has_bytes(down))
        inner |= WATCH_WRITE;
    watch_set(relay->inner, inner);
    watch_set(relay->outer, outer);
}

void relay_cut(const struct relay *relay)
{
    struct linger now = {.l_onoff = 1};
    (void)setsockopt(relay->options.inner, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

static void relay_end(struct relay *relay, int code, const char *what)
{
    if (relay->is_over)
        return;
    relay->is_over = true;
    if (code != 0) {
        (void)err_sys(&relay->why, code, "%s", what);
        relay_cut(relay);
    }
    watch_set(relay->inner, 0);
    watch_set(relay->outer, 0);
    timer_set(relay->soon, 0, 0);
}

static void relay_count(struct relay *relay, struct way *way, size_t bytes)
{
    way->moved += (int64_t)bytes;
    meter_count(relay->options.meter, bytes, way == &relay->up);
    if (meter_is_used_up(relay->options.meter))
        relay_end(relay, EDQUOT, "the sandbox has used up its bytes");
}

static void want_pipe(struct way *way)
{
    if (way->pipe[0] >= 0 || way->moved < LONG)
        return;
    way->moved = INT64_MIN / 2; /* asked once, whatever comes of it */
    if (SYS(pipe2(way->pipe, O_CLOEXEC | O_NONBLOCK)) < 0) {
        way->pipe[0] = way->pipe[1] = -1;
        return;
    }
    (void)fcntl(way->pipe[1], F_SETPIPE_SZ, PIPE_SIZE);
}

/* Each gives false when the way has to wait or is over. */

static bool write_kept(struct relay *relay, struct way *way)
{
    ssize_t sent = SYS(send(way->to, way->kept.ptr, way->kept.len, MSG_NOSIGNAL));
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        relay_end(relay, errno, "send");
    if (sent <= 0)
        return false;
    buf_consume(&way->kept, (size_t)sent);
    if (way->kept.len == 0)
        buf_done(&way->kept);
    return way->kept.len == 0;
}

static bool empty_pipe(struct relay *relay, struct way *way)
{
    ssize_t sent = SYS(
        splice(way->pipe[0], NULL, way->to, NULL, way->in_pipe, SPLICE_F_MOVE | SPLICE_F_NONBLOCK));
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        relay_end(relay, errno, "send");
    if (sent <= 0)
        return false;
    way->in_pipe -= (size_t)sent;
    return way->in_pipe == 0;
}

static void relay_finish(struct relay *relay, struct way *way)
{
    way->ended = way->shut = true;
    (void)shutdown(way->to, SHUT_WR);
    if (relay->up.shut && relay->down.shut)
        relay_end(relay, 0, NULL);
}

/* What reading gave: bytes, the end, nothing now, or an error. */
static bool took(struct relay *relay, struct way *way, ssize_t got)
{
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got < 0)
        relay_end(relay, errno, "receive");
    else if (got == 0)
        relay_finish(relay, way);
    else
        relay_count(relay, way, (size_t)got);
    return got > 0 && !relay->is_over;
}

static bool read_copy(struct relay *relay, struct way *way)
{
    static char piece[PIECE]; /* one thread; empty between two calls */
    size_t most = meter_most(relay->options.meter, sizeof piece);
    ssize_t got = SYS(recv(way->from, piece, most, 0));
    if (!took(relay, way, got))
        return false;
    ssize_t sent = SYS(send(way->to, piece, (size_t)got, MSG_NOSIGNAL));
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        relay_end(relay, errno, "send");
        return false;
    }
    size_t done = sent < 0 ? 0 : (size_t)sent;
    buf_put(&way->kept, str_n(piece + done, (size_t)got - done));
    want_pipe(way);
    /* A short read means that nothing more is there: the next one would only say so. */
    return way->kept.len == 0 && (size_t)got == most;
}

static bool read_pipe(struct relay *relay, struct way *way)
{
    ssize_t got =
        SYS(splice(way->from, NULL, way->pipe[1], NULL, meter_most(relay->options.meter, PIPE_SIZE),
                   SPLICE_F_MOVE | SPLICE_F_NONBLOCK));
    if (!took(relay, way, got))
        return false;
    way->in_pipe += (size_t)got;
    return empty_pipe(relay, way);
}

static void move(struct relay *relay, struct way *way)
{
    int64_t before = way->moved;
    if (way->kept.len > 0 && !write_kept(relay, way))
        return;
    if (way->in_pipe > 0 && !empty_pipe(relay, way))
        return;
    for (int i = 0; i < TURNS && !way->ended && !relay->is_over; i++) {
        if (meter_is_dry(relay->options.meter))
            break;
        if (!(way->pipe[0] >= 0 ? read_pipe(relay, way) : read_copy(relay, way)))
            break;
    }
    if (way->moved != before)
        relay->moved_ms = clock_now_ms();
}

static void on_inner(void *ctx, int events)
{
    struct relay *relay = ctx;
    if ((events & WATCH_READ) != 0)
        move(relay, &relay->up);
    /* A broken socket reports no room: writing finds out. */
    if ((events & (WATCH_WRITE | WATCH_HANGUP)) != 0 && !relay->is_over)
        move(relay, &relay->down);
    if (!relay->is_over)
        set_watches(relay);
}

static void on_outer(void *ctx, int events)
{
    struct relay *relay = ctx;
    if ((events & WATCH_READ) != 0)
        move(relay, &relay->down);
    if ((events & (WATCH_WRITE | WATCH_HANGUP)) != 0 && !relay->is_over)
        move(relay, &relay->up);
    if (!relay->is_over)
        set_watches(relay);
}

static void on_soon(void *ctx)
{
    struct relay *relay = ctx;
    relay->options.done(relay->options.ctx, relay->why.code == ERR_NONE ? NULL : &relay->why);
}

int relay_start(struct loop *loop, const struct relay_options *options, struct relay **ret_relay,
                struct err *err)
{
    struct relay *relay = mem_alloc(sizeof *relay);
    relay->loop = loop;
    relay->options = *options;
    relay->up = (struct way){.from = options->inner, .to = options->outer, .pipe = {-1, -1}};
    relay->down = (struct way){.from = options->outer, .to = options->inner, .pipe = {-1, -1}};
    if (watch_new(loop, options->inner, 0, on_inner, relay, &relay->inner, err) < 0 ||
        watch_new(loop, options->outer, 0, on_outer, relay, &relay->outer, err) < 0) {
        (void)watch_free(relay->inner);
        free(relay);
        return -1;
    }
    relay->soon = timer_new(loop, on_soon, relay);
    relay->moved_ms = clock_now_ms();
    buf_put(&relay->up.kept, options->to_outer);
    buf_put(&relay->down.kept, options->to_inner);
    meter_count(options->meter, options->to_outer.len, true);
    meter_count(options->meter, options->to_inner.len, false);
    set_watches(relay);
    *ret_relay = relay;
    return 0;
}

static void way_done(struct way *way)
{
    buf_done(&way->kept);
    fd_close(&way->pipe[0]);
    fd_close(&way->pipe[1]);
}

struct relay *relay_free(struct relay *relay)
{
    if (relay == NULL)
        return NULL;
    (void)watch_free(relay->inner);
    (void)watch_free(relay->outer);
    (void)timer_free(relay->soon);
    way_done(&relay->up);
    way_done(&relay->down);
    fd_close(&relay->options.inner);
    fd_close(&relay->options.outer);
    free(relay);
    return NULL;
}

int64_t relay_moved_ms(const struct relay *relay)
{
    return relay->moved_ms;
}

static bool has_input(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

bool relay_has_input(const struct relay *relay)
{
    return has_input(relay->options.inner) || has_input(relay->options.outer);
}

void relay_resume(struct relay *relay)
{
    if (!relay->is_over)
        set_watches(relay);
}
