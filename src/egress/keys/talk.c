#include "egress/keys/talk.h"

#include <sys/socket.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "egress/keys/rewrite.h"
#include "egress/keys/tls_end.h"
#include "egress/net/meter.h"
#include "io/loop.h"
#include "io/stream.h"

enum { PIECE = 16 << 10, LINGER_MS = 1000 };

/* A socket and its TLS, if it has one. */
struct side {
    struct stream *stream;
    struct tls_end *tls;
    struct buf plain; /* from the client: read, not yet taken by the rewrite */
    bool ended, paused;
};

/* Talking until the rewrite is over (settle), then LEAVING: what waits is sent; then OVER, with
 * `done` in a turn of its own. */
struct talk {
    struct loop *loop;
    struct talk_options options;
    struct side inner, outer;
    struct rewrite *rewrite;
    struct err failure; /* of the host's side, while no request is there to be answered with it */
    bool is_leaving, is_over, is_dry;
    struct timer *soon;
    int64_t moved_ms;
};

static void pause(struct side *side, bool paused)
{
    if (side->paused == paused)
        return;
    side->paused = paused;
    if (paused)
        stream_pause(side->stream);
    else
        stream_resume(side->stream);
}

static void talk_end(struct talk *talk)
{
    if (talk->is_over)
        return;
    talk->is_over = true;
    pause(&talk->inner, true);
    pause(&talk->outer, true);
    timer_set(talk->soon, 0, 0);
}

static void on_soon(void *ctx)
{
    struct talk *talk = ctx;
    const char *why = rewrite_why(talk->rewrite);
    talk->options.done(talk->options.ctx, rewrite_reason(talk->rewrite),
                       why[0] == '\0' ? NULL : why);
}

static void talk_count(struct talk *talk, size_t bytes, bool is_sent)
{
    struct meter *meter = talk->options.meter;
    talk->moved_ms = clock_now_ms();
    meter_count(meter, bytes, is_sent);
    if (meter_is_used_up(meter)) {
        rewrite_fail(talk->rewrite, 429, "limit_reached", "the sandbox has used up its bytes");
    } else if (meter_is_dry(meter)) {
        talk->is_dry = true;
        pause(&talk->inner, true);
        pause(&talk->outer, true);
    }
}

/* Sends what the rewrite has for a side. False when the socket takes no more. */

static bool talk_drain(struct side *side)
{
    struct buf bytes = {.wipes = true};
    struct err err;
    bool sent = true;
    while (sent && tls_end_drain(side->tls, &bytes, PIECE) > 0) {
        sent = stream_write(side->stream, buf_str(&bytes), &err) == 0;
        buf_clear(&bytes);
    }
    buf_done(&bytes);
    return sent;
}

static bool flush(struct side *side, struct buf *from)
{
    struct err err;
    if (side->tls == NULL) {
        bool sent = from->len == 0 || stream_write(side->stream, buf_str(from), &err) == 0;
        buf_consume(from, from->len);
        return sent;
    }
    while (from->len > 0 && tls_end_is_ready(side->tls)) {
        struct str piece = str_slice(buf_str(from), 0, PIECE);
        if (tls_end_write(side->tls, piece, &err) < 0)
            return false;
        buf_consume(from, piece.len);
        if (!talk_drain(side))
            return false;
    }
    return talk_drain(side);
}

/* The client learns that an answer is not whole by a reset. */
void talk_cut(const struct talk *talk)
{
    struct linger now = {.l_onoff = 1};
    (void)setsockopt(talk->options.inner, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

static void talk_leave(struct talk *talk)
{
    talk->is_leaving = true;
    pause(&talk->outer, true);
    if (rewrite_is_cut(talk->rewrite)) {
        talk_cut(talk);
        talk_end(talk);
        return;
    }
    if (talk->inner.tls != NULL) {
        tls_end_close(talk->inner.tls);
        (void)talk_drain(&talk->inner);
    }
    if (talk->outer.tls != NULL) {
        tls_end_close(talk->outer.tls);
        (void)talk_drain(&talk->outer);
    }
    stream_finish(talk->inner.stream);
}

static void take_plain(struct talk *talk)
{
    struct buf *plain = &talk->inner.plain;
    size_t used = rewrite_from_client(talk->rewrite, buf_str(plain));
    buf_consume(plain, used);
    /* A request that cannot be passed on is answered with the reason. */
    if (talk->failure.code != ERR_NONE && !rewrite_is_idle(talk->rewrite))
        rewrite_fail(talk->rewrite, 502, err_wire_name(talk->failure.code), talk->failure.msg);
}

/* After anything happened: sends, waits or ends. */
static void talk_settle(struct talk *talk)
{
    if (talk->is_over || talk->is_leaving)
        return;
    take_plain(talk);
    bool inner_ok = flush(&talk->inner, rewrite_to_client(talk->rewrite));
    bool outer_ok = flush(&talk->outer, rewrite_to_server(talk->rewrite));
    if (!inner_ok) {
        talk_end(talk);
    } else if (rewrite_is_over(talk->rewrite)) {
        talk_leave(talk);
    } else if (!outer_ok && talk->failure.code == ERR_NONE) {
        (void)err_set(&talk->failure, ERR_UNAVAILABLE, "the host stopped reading");
    }
    if (talk->is_over || talk->is_leaving || talk->is_dry)
        return;
    /* A pipelined request waits in `plain` until the answer before it is through. */
    pause(&talk->inner, stream_is_full(talk->outer.stream) || talk->inner.plain.len > 0);
    pause(&talk->outer, stream_is_full(talk->inner.stream));
}

/* The sandbox's side. */

static int read_tls(struct side *side, struct buf *in, struct buf *out, struct err *err)
{
    int fed = tls_end_feed(side->tls, buf_str(in), err);
    buf_consume(in, in->len);
    if (fed < 0)
        return -1;
    size_t before;
    do {
        before = out->len;
        if (tls_end_read(side->tls, out, PIECE, err) < 0)
            return -1;
    } while (out->len > before);
    return 0;
}

static void on_inner_data(void *ctx, struct buf *in)
{
    struct talk *talk = ctx;
    struct err err = {0};
    if (talk->is_over || talk->is_leaving) {
        buf_consume(in, in->len);
        return;
    }
    talk_count(talk, in->len, true);
    if (talk->inner.tls == NULL) {
        buf_put(&talk->inner.plain, buf_str(in));
        buf_consume(in, in->len);
    } else if (read_tls(&talk->inner, in, &talk->inner.plain, &err) < 0) {
        (void)talk_drain(&talk->inner); /* the alert says why */
        talk_end(talk);
        return;
    }
    talk_settle(talk);
}

static void on_inner_end(void *ctx, const struct err *why)
{
    struct talk *talk = ctx;
    talk->inner.ended = true;
    bool has_all = rewrite_is_idle(talk->rewrite) || rewrite_is_passing(talk->rewrite);
    if (why != NULL || has_all || talk->is_leaving)
        talk_end(talk); /* it has hung up, or asks for nothing more */
}

/* The host's side. */

static void host_failed(struct talk *talk, const struct err *why)
{
    if (talk->failure.code == ERR_NONE)
        talk->failure = *why;
    if (!rewrite_is_idle(talk->rewrite))
        rewrite_fail(talk->rewrite, 502, err_wire_name(why->code), why->msg);
    talk_settle(talk);
}

static void on_outer_data(void *ctx, struct buf *in)
{
    struct talk *talk = ctx;
    struct err err = {0};
    if (talk->is_over || talk->is_leaving) {
        buf_consume(in, in->len);
        return;
    }
    talk_count(talk, in->len, false);
    if (talk->outer.tls == NULL) {
        rewrite_from_server(talk->rewrite, buf_str(in));
        buf_consume(in, in->len);
        talk_settle(talk);
        return;
    }
    int done = read_tls(&talk->outer, in, &talk->outer.plain, &err);
    if (talk->outer.plain.len > 0)
        rewrite_from_server(talk->rewrite, buf_str(&talk->outer.plain));
    buf_clear(&talk->outer.plain);
    if (done < 0)
        host_failed(talk, &err);
    else
        talk_settle(talk);
}

static void on_outer_end(void *ctx, const struct err *why)
{
    struct talk *talk = ctx;
    struct err gone = {0};
    bool said_goodbye = talk->outer.tls == NULL || tls_end_is_closed(talk->outer.tls);
    if (talk->is_over || talk->is_leaving)
        return;
    talk->outer.ended = true;
    if (talk->outer.tls != NULL && !tls_end_is_ready(talk->outer.tls)) {
        (void)err_set(&gone, ERR_UNAVAILABLE, "%.100s: no TLS handshake", talk->options.host.text);
        host_failed(talk, &gone);
        return;
    }
    rewrite_server_ended(talk->rewrite, why == NULL && said_goodbye);
    talk_settle(talk);
}

static void talk_on_drain(void *ctx)
{
    talk_settle(ctx);
}

/* All is sent. What the client still says is read for a moment, or the kernel would reset the
 * connection under the answer. */
static void on_inner_closed(void *ctx, const struct err *why)
{
    struct talk *talk = ctx;
    if (why != NULL || talk->inner.ended || talk->is_over) {
        talk_end(talk);
        return;
    }
    pause(&talk->inner, false);
    timer_set(talk->soon, LINGER_MS, 0);
}

static void on_outer_closed(void *ctx, const struct err *why)
{
    struct talk *talk = ctx;
    if (why != NULL && !talk->is_over && talk->failure.code == ERR_NONE)
        talk->failure = *why; /* it may still have answered */
}

/* Life. */

static struct verdict talk_judge(void *ctx, struct str method, struct str path)
{
    struct talk *talk = ctx;
    return talk->options.judge(talk->options.ctx, method, path);
}

static int open_ends(struct talk *talk, const struct talk_options *options, struct err *err)
{
    if (!options->is_https)
        return 0;
    if (tls_server_new(options->tls, options->authority, &options->host, &talk->inner.tls, err) < 0)
        return -1;
    return tls_client_new(options->tls, &options->host, &talk->outer.tls, err);
}

static int open_streams(struct talk *talk, int *inner_fd, int *outer_fd, struct err *err)
{
    static const struct stream_calls inner = {on_inner_data, on_inner_end, talk_on_drain,
                                              on_inner_closed};
    static const struct stream_calls outer = {on_outer_data, on_outer_end, talk_on_drain,
                                              on_outer_closed};
    if (stream_open(talk->loop, *inner_fd, &inner, talk, &talk->inner.stream, err) < 0)
        return -1;
    *inner_fd = -1;
    if (stream_open(talk->loop, *outer_fd, &outer, talk, &talk->outer.stream, err) < 0)
        return -1;
    *outer_fd = -1;
    return 0;
}

static void talk_begin(struct talk *talk, struct str bytes)
{
    AUTO_BUF struct buf first = {0};
    struct err err = {0};
    buf_put(&first, bytes);
    talk_count(talk, bytes.len, true);
    if (talk->inner.tls == NULL)
        buf_put(&talk->inner.plain, bytes);
    else if (read_tls(&talk->inner, &first, &talk->inner.plain, &err) < 0) {
        (void)talk_drain(&talk->inner);
        talk_end(talk);
        return;
    }
    talk_settle(talk);
}

int talk_start(struct loop *loop, const struct talk_options *options, struct talk **ret_talk,
               struct err *err)
{
    AUTO_CLOSE int inner = options->inner;
    AUTO_CLOSE int outer = options->outer;
    AUTO(talk_freep) struct talk *talk = mem_alloc(sizeof *talk);
    talk->loop = loop;
    talk->outer.plain.wipes = true;
    talk->options = *options;
    talk->moved_ms = clock_now_ms();
    struct rewrite_options rules = {.secrets = options->secrets,
                                    .host = options->host,
                                    .port = options->port,
                                    .is_https = options->is_https,
                                    .is_single = options->is_single,
                                    .head_max = options->head_max,
                                    .answer_max = options->answer_max,
                                    .judge = talk_judge,
                                    .ctx = talk};
    talk->rewrite = rewrite_new(&rules);
    talk->soon = timer_new(loop, on_soon, talk);
    if (open_ends(talk, options, err) < 0 || open_streams(talk, &inner, &outer, err) < 0)
        return -1;
    talk_begin(talk, options->from_inner);
    *ret_talk = talk;
    talk = NULL;
    return 0;
}

static void side_done(struct side *side)
{
    (void)stream_free(side->stream);
    (void)tls_end_free(side->tls);
    buf_done(&side->plain);
}

struct talk *talk_free(struct talk *talk)
{
    if (talk == NULL)
        return NULL;
    side_done(&talk->inner);
    side_done(&talk->outer);
    (void)rewrite_free(talk->rewrite);
    (void)timer_free(talk->soon);
    free(talk);
    return NULL;
}

int64_t talk_moved_ms(const struct talk *talk)
{
    return talk->moved_ms;
}

static bool has_input(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

bool talk_has_input(const struct talk *talk)
{
    return talk->inner.plain.len > 0 || has_input(talk->options.inner) ||
           has_input(talk->options.outer);
}

void talk_resume(struct talk *talk)
{
    if (!talk->is_dry || talk->is_over)
        return;
    talk->is_dry = false;
    talk_settle(talk);
}
