#include "api/http/ws.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <wslay/wslay.h>

#include "api/http/http.h"
#include "api/http/request.h"
#include "base/crypto/hash.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/format/base64.h"
#include "io/stream.h"

enum { GOODBYE_MS = 5000, KEY_LEN = 24, REASON_MAX = 123 };

struct ws {
    struct request *request;
    const struct ws_calls *calls;
    void *ctx;
    wslay_event_context_ptr wslay;
    struct stream *stream; /* NULL until the client is there */
    struct buf *in;        /* while bytes are being read */
    struct buf out;        /* while they are being written */
    struct timer *ping, *goodbye;
    int silent; /* pings since the last byte */
    bool is_paused, is_full, is_closing, is_finished, is_dead, is_busy, is_flushing;
};

/* ---- the end ------------------------------------------------------------------------------- */

/* Not from within wslay or the stream: they are freed here. */
static void ws_end(struct ws *ws)
{
    struct request *request = ws->request;
    ws->calls->on_closed(ws->ctx);
    ws->ping = timer_free(ws->ping);
    ws->goodbye = timer_free(ws->goodbye);
    ws->stream = stream_free(ws->stream);
    wslay_event_context_free(ws->wslay);
    buf_done(&ws->out);
    free(ws);
    request->on_stop = NULL;
    if (request->upgrade_handle != NULL)
        http_upgrade_done(request);
}

static void die(struct ws *ws)
{
    ws->is_dead = true;
    if (!ws->is_busy)
        ws_end(ws);
}

/* ---- wslay's side -------------------------------------------------------------------------- */

static ssize_t read_bytes(wslay_event_context_ptr ctx, uint8_t *out, size_t len, UNUSED int flags,
                          void *user)
{
    struct ws *ws = user;
    size_t count = ws->in == NULL || ws->is_paused ? 0 : MIN(ws->in->len, len);
    if (count == 0) {
        wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    memcpy(out, ws->in->ptr, count);
    buf_consume(ws->in, count);
    return (ssize_t)count;
}

/* Many small frames become one write. */
static ssize_t write_bytes(UNUSED wslay_event_context_ptr ctx, const uint8_t *bytes, size_t len,
                           UNUSED int flags, void *user)
{
    struct ws *ws = user;
    buf_put(&ws->out, str_n((const char *)bytes, len));
    return (ssize_t)len;
}

/* on_stream_closed comes when all has left. */
static void ws_finish(struct ws *ws)
{
    if (ws->is_finished)
        return;
    ws->is_finished = true;
    timer_set(ws->goodbye, GOODBYE_MS, 0);
    stream_finish(ws->stream);
}

/* Frames that are no frames: wslay would say goodbye without a reason. */
static void break_off(struct ws *ws)
{
    struct err err;
    static const char protocol_error[] = "\x88\x02\x03\xea"; /* 1002 */
    if (!ws->is_closing)
        (void)!stream_write(ws->stream, str_n(protocol_error, 4), &err);
    ws->is_closing = true;
    ws_finish(ws);
}

static void ws_on_message(UNUSED wslay_event_context_ptr ctx,
                          const struct wslay_event_on_msg_recv_arg *arg, void *user)
{
    struct ws *ws = user;
    ws->silent = 0;
    if (arg->opcode == WSLAY_CONNECTION_CLOSE && arg->msg_length == 1)
        break_off(ws); /* half a code is not valid */
    if (ws->is_closing || wslay_is_ctrl_frame(arg->opcode))
        return;
    ws->calls->on_message(ws->ctx, arg->opcode == WSLAY_TEXT_FRAME,
                          str_n((const char *)arg->msg, arg->msg_length));
}

/* Sends what wslay has to say. False when the socket is of no use any more. */
static bool flush(struct ws *ws)
{
    struct err err;
    while (ws->stream != NULL && wslay_event_want_write(ws->wslay)) {
        if (stream_unsent(ws->stream) + ws->out.len > WS_UNSENT_MAX / 2 && !ws->is_closing)
            ws_close(ws, WS_TRY_LATER, "the peer does not read");
        if (wslay_event_send(ws->wslay) != 0)
            return false;
    }
    if (ws->out.len == 0)
        return true;
    bool good = stream_write(ws->stream, buf_str(&ws->out), &err) == 0;
    buf_done(&ws->out);
    return good;
}

/* What has to be said, and what follows from it. A socket that is of no use any more is only
 * marked: a caller inside wslay or with the socket in use must return first. */
static void ws_settle(struct ws *ws)
{
    if (ws->is_finished)
        return;
    ws->is_flushing = true;
    bool good = flush(ws);
    ws->is_flushing = false;
    bool said_all = ws->stream != NULL && wslay_event_get_close_sent(ws->wslay) != 0;
    ws->is_closing = ws->is_closing || said_all;
    if (!good)
        ws->is_dead = true;
    else if (said_all && (wslay_event_get_close_received(ws->wslay) != 0 ||
                          wslay_event_get_read_enabled(ws->wslay) == 0))
        ws_finish(ws);
    else if (said_all && !timer_is_set(ws->goodbye))
        timer_set(ws->goodbye, GOODBYE_MS, 0);
}

/* ---- the stream's side --------------------------------------------------------------------- */

static void ws_on_data(void *ctx, struct buf *in)
{
    struct ws *ws = ctx;
    ws->silent = 0;
    ws->in = in;
    ws->is_busy = true;
    /* Do not read from a client that does not read our pongs. */
    while (!ws->is_dead && !ws->is_paused && in->len > 0 && !stream_is_full(ws->stream)) {
        size_t before = in->len;
        bool wants = wslay_event_want_read(ws->wslay) != 0;
        if (wants && wslay_event_recv(ws->wslay) != 0)
            break_off(ws);
        if (!wants || ws->is_finished)
            buf_consume(in, in->len);
        ws_settle(ws);
        if (in->len == before)
            break;
    }
    ws->in = NULL;
    ws->is_busy = false;
    if (ws->is_dead)
        ws_end(ws);
}

static void ws_on_end(void *ctx, UNUSED const struct err *why)
{
    struct ws *ws = ctx;
    /* The peer closed the connection without a close frame, or after it. */
    if (wslay_event_get_close_received(ws->wslay) == 0 || stream_unsent(ws->stream) == 0)
        die(ws);
}

static void ws_on_drain(void *ctx)
{
    struct ws *ws = ctx;
    ws->is_busy = true;
    ws_settle(ws);
    if (!ws->is_dead && ws->is_full && !ws->is_closing) {
        ws->is_full = false;
        if (ws->calls->on_drain != NULL)
            ws->calls->on_drain(ws->ctx);
    }
    ws->is_busy = false;
    if (ws->is_dead)
        ws_end(ws);
    else if (!ws->is_paused)
        stream_resume(ws->stream);
}

static void on_stream_closed(void *ctx, UNUSED const struct err *why)
{
    die(ctx);
}

static const struct stream_calls stream_calls = {ws_on_data, ws_on_end, ws_on_drain,
                                                 on_stream_closed};

static void on_ping(void *ctx)
{
    struct ws *ws = ctx;
    if (++ws->silent > 2) {
        die(ws);
        return;
    }
    struct wslay_event_msg ping = {.opcode = WSLAY_PING};
    ws->is_busy = true;
    if (!ws->is_closing)
        (void)wslay_event_queue_msg(ws->wslay, &ping);
    ws_settle(ws);
    ws->is_busy = false;
    if (ws->is_dead)
        ws_end(ws);
}

static void on_goodbye(void *ctx)
{
    die(ctx);
}

static void on_stop(void *ctx)
{
    ws_close(ctx, WS_GOING_AWAY, "the server is stopping");
}

/* ---- opening ------------------------------------------------------------------------------- */

static void on_open(void *ctx, struct request *request, int fd, struct str extra)
{
    struct ws *ws = ctx;
    struct err err;
    AUTO_CLOSE int own = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0 ||
        stream_open(http_loop(request->http), own, &stream_calls, ws, &ws->stream, &err) < 0) {
        die(ws);
        return;
    }
    (void)fd_take(&own);
    request->on_stop = on_stop;
    timer_set(ws->ping, WS_PING_MS, WS_PING_MS);
    AUTO_BUF struct buf first = {0};
    buf_put(&first, extra);
    if (first.len > 0) {
        ws_on_data(ws, &first);
        return;
    }
    ws_settle(ws);
    if (ws->is_dead)
        ws_end(ws);
}

static bool has_word(const struct request *request, const char *header, const char *word)
{
    return request_accepts(request, header, word);
}

static int check_handshake(struct request *request, struct err *err)
{
    struct str key = request_header(request, "Sec-WebSocket-Key");
    if (!has_word(request, "Connection", "upgrade") || !has_word(request, "Upgrade", "websocket") ||
        !str_eq(request->method, STR("GET")))
        return err_set(err, ERR_INVALID,
                       "this is a WebSocket: send Connection: Upgrade and Upgrade: websocket");
    if (!str_eq(request_header(request, "Sec-WebSocket-Version"), STR("13"))) {
        reply_header(request, "Sec-WebSocket-Version", STR("13"));
        return err_set(err, ERR_INVALID, "only WebSocket version 13 is supported");
    }
    if (key.len != KEY_LEN || !str_ends(key, STR("==")) ||
        request_count_headers(request, "Sec-WebSocket-Key") != 1)
        return err_set(err, ERR_INVALID, "Sec-WebSocket-Key must be 16 bytes in base64");
    return 0;
}

static void put_accept(struct request *request)
{
    unsigned char digest[HASH_SHA1_SIZE];
    AUTO_BUF struct buf text = {0};
    AUTO_BUF struct buf answer = {0};
    buf_put(&text, request_header(request, "Sec-WebSocket-Key"));
    buf_put_cstr(&text, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    hash_sha1(buf_str(&text), digest);
    base64_put(str_n((const char *)digest, sizeof digest), &answer);
    reply_header(request, "Sec-WebSocket-Accept", buf_str(&answer));
}

int ws_accept(struct request *request, const struct ws_calls *calls, void *ctx, struct ws **ret_ws,
              struct err *err)
{
    static const struct wslay_event_callbacks callbacks = {
        .recv_callback = read_bytes,
        .send_callback = write_bytes,
        .on_msg_recv_callback = ws_on_message,
    };
    if (check_handshake(request, err) < 0)
        return -1;
    struct ws *ws = mem_alloc(sizeof *ws);
    ws->request = request;
    ws->calls = calls;
    ws->ctx = ctx;
    if (wslay_event_context_server_init(&ws->wslay, &callbacks, ws) != 0) {
        free(ws);
        return err_set(err, ERR_INTERNAL, "cannot start the WebSocket library");
    }
    wslay_event_config_set_max_recv_msg_length(ws->wslay, WS_MESSAGE_MAX);
    ws->ping = timer_new(http_loop(request->http), on_ping, ws);
    ws->goodbye = timer_new(http_loop(request->http), on_goodbye, ws);
    put_accept(request);
    reply_upgrade(request, "websocket", on_open, ws);
    *ret_ws = ws;
    return 0;
}

void ws_send(struct ws *ws, bool is_text, struct str bytes)
{
    struct wslay_event_msg message = {
        .opcode = is_text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
        .msg = (const uint8_t *)bytes.ptr,
        .msg_length = bytes.len,
    };
    if (ws->is_closing || ws->is_dead)
        return;
    (void)wslay_event_queue_msg(ws->wslay, &message);
    ws_settle(ws);
    /* An end is left to the next turn: the caller still holds the socket. */
    if (ws->is_dead)
        timer_set(ws->goodbye, 0, 0);
}

bool ws_is_full(const struct ws *ws)
{
    bool full = ws->stream != NULL && stream_is_full(ws->stream);
    ((struct ws *)ws)->is_full |= full;
    return full;
}

void ws_pause(struct ws *ws)
{
    ws->is_paused = true;
    if (ws->stream != NULL)
        stream_pause(ws->stream);
}

void ws_resume(struct ws *ws)
{
    ws->is_paused = false;
    if (ws->stream != NULL)
        stream_resume(ws->stream);
}

void ws_close(struct ws *ws, int code, const char *why)
{
    if (ws->is_closing || ws->is_dead)
        return;
    (void)wslay_event_queue_close(ws->wslay, (uint16_t)code, (const uint8_t *)why,
                                  MIN(strlen(why), (size_t)REASON_MAX));
    ws->is_closing = true;
    if (ws->is_flushing)
        return;
    ws_settle(ws);
    if (ws->is_dead)
        timer_set(ws->goodbye, 0, 0);
}
