/* Requests to servers in sandboxes: their heads are checked and rewritten, their bodies are
 * forwarded as they arrive, in both directions, at the speed of the slower side.
 *
 * A response is sent through the HTTP library, which frames it; see api/ports/upstream.h for the
 * reason. The library cannot start a response before the request's body is complete: earlier bytes
 * are buffered until then, up to EARLY_MAX. A WebSocket, once both sides have agreed, is a tunnel.
 *
 * A proxy lives as long as its request. */

#include "api/ports/proxy.h"

#include <fcntl.h>

#include "api/http/api.h"
#include "api/http/flow.h"
#include "api/http/http.h"
#include "api/ports/port_head.h"
#include "api/ports/tunnel.h"
#include "base/clock.h"
#include "base/fd.h"
#include "engine/port.h"
#include "io/stream.h"

enum { STUCK_MS = 75000, TOUCH_MS = 1000, EARLY_MAX = 1 << 20 };

struct proxy {
    struct api *api;
    struct request *request;
    const struct port_way *way;
    char id[ID_SIZE];
    struct upstream upstream;
    struct stream *inside; /* to the server; NULL before and after */
    int inside_fd;         /* the stream's */
    struct flow *flow;     /* the answer */
    struct tunnel *tunnel;
    int tunnel_fd;   /* between the agreement and the tunnel: the server's side */
    struct buf kept; /* what came early, or behind the server's agreement to switch */
    struct timer *stuck;
    int64_t touched_ms;
    bool is_working; /* the sandbox counts it as work */
    bool is_whole;   /* the request's body has come */
    bool has_begun;  /* its answer has */
    bool has_ended;  /* the server has closed its side before that */
    bool is_gone;    /* the client disconnected */
};

/* ---- ends ---------------------------------------------------------------------------------- */

static void close_inside(struct proxy *proxy)
{
    proxy->inside = stream_free(proxy->inside);
    if (proxy->is_working)
        engine_port_end(proxy->api->engine, str_of(proxy->id));
    proxy->is_working = false;
    if (proxy->request->is_paused)
        request_resume_body(proxy->request); /* what still comes is let go */
}

static void proxy_free(void *ctx)
{
    struct proxy *proxy = ctx;
    proxy->request->is_paused = false;
    close_inside(proxy);
    proxy->tunnel = tunnel_free(proxy->tunnel);
    proxy->stuck = timer_free(proxy->stuck);
    fd_close(&proxy->tunnel_fd);
    buf_done(&proxy->kept);
    upstream_done(&proxy->upstream);
    free(proxy);
}

static void proxy_fail(struct proxy *proxy, const struct err *why)
{
    struct request *request = proxy->request;
    close_inside(proxy);
    if (proxy->flow != NULL)
        flow_break(proxy->flow);
    else if (!request->has_reply)
        reply_error(request, why);
}

static void fail_answer(struct proxy *proxy, const char *what)
{
    struct err err;
    (void)err_set(&err, ERR_BAD_ANSWER, "request to port %u in the sandbox failed: %s",
                  proxy->way->port, what);
    proxy_fail(proxy, &err);
}

static void on_stuck(void *ctx)
{
    fail_answer(ctx, "it responded without reading the request");
}

static void proxy_on_gone(void *ctx)
{
    struct proxy *proxy = ctx;
    struct err err;
    proxy->is_gone = true;
    if (proxy->inside == NULL)
        return; /* still connecting: on_connected reports the end */
    (void)err_set(&err, ERR_CANCELED, "the client disconnected");
    proxy_fail(proxy, &err);
}

/* ---- the answer ---------------------------------------------------------------------------- */

static void flow_drained(void *ctx)
{
    struct proxy *proxy = ctx;
    if (proxy->inside != NULL)
        stream_resume(proxy->inside);
}

static void flow_closed(void *ctx)
{
    struct proxy *proxy = ctx;
    proxy->flow = NULL;
    close_inside(proxy);
}

static void flow_stopped(void *ctx, UNUSED bool is_last)
{
    struct proxy *proxy = ctx;
    flow_break(proxy->flow);
}

static const struct flow_calls flow_calls = {flow_drained, flow_closed, flow_stopped};

static void put_chunk(struct buf *out, struct str bytes)
{
    buf_printf(out, "%zx\r\n", bytes.len);
    buf_put(out, bytes);
    buf_put_cstr(out, "\r\n");
}

static void send_on(struct proxy *proxy, struct str bytes)
{
    struct err err;
    if (bytes.len == 0 || proxy->flow == NULL)
        return;
    if (flow_write(proxy->flow, bytes, &err) < 0)
        proxy_fail(proxy, &err);
    else if (flow_is_full(proxy->flow))
        stream_pause(proxy->inside);
}

static void finish_answer(struct proxy *proxy)
{
    close_inside(proxy);
    if (proxy->flow != NULL)
        flow_finish(proxy->flow);
}

static void begin_flow(struct proxy *proxy)
{
    struct request *request = proxy->request;
    const struct upstream *upstream = &proxy->upstream;
    bool has_no_body = request->status == 204 || request->status == 304;
    if (has_no_body) {
        close_inside(proxy);
        reply_empty(request, request->status);
        return;
    }
    proxy->flow = reply_flow(request, request->status, NULL,
                             upstream->has_length ? upstream->length : -1, &flow_calls, proxy);
}

static void take_head(struct proxy *proxy)
{
    struct request *request = proxy->request;
    proxy->has_begun = true;
    request->is_foreign = true;
    request->status = proxy->upstream.status;
    request->foreign_headers =
        port_answer_headers(request, &proxy->upstream, proxy->way, &request->foreign_count);
}

static void begin_answer(struct proxy *proxy)
{
    take_head(proxy);
    begin_flow(proxy);
}

/* ---- WebSockets ---------------------------------------------------------------------------- */

static void tunnel_moved(void *ctx)
{
    struct proxy *proxy = ctx;
    int64_t now = clock_now_ms();
    if (now - proxy->touched_ms < TOUCH_MS)
        return;
    proxy->touched_ms = now;
    engine_port_touch(proxy->api->engine, str_of(proxy->id));
}

static void tunnel_over(void *ctx)
{
    struct proxy *proxy = ctx;
    proxy->tunnel = tunnel_free(proxy->tunnel);
    proxy->request->on_stop = NULL;
    http_upgrade_done(proxy->request);
}

static const struct tunnel_calls tunnel_calls = {tunnel_moved, tunnel_over};

static void on_switched(void *ctx, struct request *request, int fd, struct str extra)
{
    struct proxy *proxy = ctx;
    struct err err;
    if (fd < 0)
        return; /* the client has gone before */
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0 ||
        tunnel_open(proxy->api->loop, own, fd_take(&proxy->tunnel_fd), buf_str(&proxy->kept), extra,
                    &tunnel_calls, proxy, &proxy->tunnel, &err) < 0) {
        http_upgrade_done(request);
        return;
    }
    buf_done(&proxy->kept);
    request->on_stop = tunnel_over;
}

/* From here on the sandbox is busy only while bytes go through: a page that is left open must not
 * keep it awake. */
static void switch_protocols(struct proxy *proxy, struct str rest)
{
    buf_put(&proxy->kept, rest);
    proxy->tunnel_fd = fcntl(proxy->inside_fd, F_DUPFD_CLOEXEC, 0);
    if (proxy->tunnel_fd < 0) {
        fail_answer(proxy, "too many open descriptors on this server");
        return;
    }
    close_inside(proxy);
    take_head(proxy);
    reply_upgrade(proxy->request, "websocket", on_switched, proxy);
}

/* ---- reading ------------------------------------------------------------------------------- */

/* All of `bytes` is dealt with. */
static void read_answer(struct proxy *proxy, struct str bytes)
{
    struct upstream *upstream = &proxy->upstream;
    struct str body;
    while (proxy->inside != NULL && upstream->state != UPSTREAM_SWITCHED && bytes.len > 0) {
        if (!upstream_feed(upstream, &bytes, &body)) {
            fail_answer(proxy, upstream->why);
            return;
        }
        if (!upstream_has_head(upstream))
            return;
        if (upstream->state == UPSTREAM_SWITCHED)
            break;
        if (!proxy->has_begun)
            begin_answer(proxy);
        send_on(proxy, body);
        if (upstream->state == UPSTREAM_DONE && proxy->inside != NULL)
            finish_answer(proxy);
    }
    if (upstream->state == UPSTREAM_SWITCHED && proxy->inside != NULL)
        switch_protocols(proxy, bytes);
}

static void keep_early(struct proxy *proxy, struct str bytes)
{
    if (proxy->kept.len + bytes.len > EARLY_MAX)
        fail_answer(proxy, "it sent more than 1 MiB of response before it had the whole request");
    else
        buf_put(&proxy->kept, bytes);
}

static void inside_data(void *ctx, struct buf *in)
{
    struct proxy *proxy = ctx;
    AUTO_BUF struct buf bytes = *in; /* the stream may go meanwhile, and its buffer with it */
    *in = buf_with_limit(bytes.limit);
    if (proxy->is_whole)
        read_answer(proxy, buf_str(&bytes));
    else
        keep_early(proxy, buf_str(&bytes));
}

static void inside_end(void *ctx, UNUSED const struct err *why)
{
    struct proxy *proxy = ctx;
    if (!proxy->is_whole)
        proxy->has_ended = true;
    else if (upstream_end(&proxy->upstream))
        finish_answer(proxy);
    else
        fail_answer(proxy, proxy->has_begun ? "it closed the connection during its response"
                                            : "it closed the connection without a response");
}

static void inside_drained(void *ctx)
{
    struct proxy *proxy = ctx;
    timer_clear(proxy->stuck);
    if (proxy->request->is_paused)
        request_resume_body(proxy->request);
}

/* It reads no more; its answer may still come. */
static void inside_shut(void *ctx, UNUSED const struct err *why)
{
    inside_drained(ctx);
}

static const struct stream_calls inside_calls = {inside_data, inside_end, inside_drained,
                                                 inside_shut};

/* ---- the request --------------------------------------------------------------------------- */

static int body_bytes(void *ctx, struct str bytes, UNUSED struct err *err)
{
    struct proxy *proxy = ctx;
    struct err ignored;
    AUTO_BUF struct buf chunk = {0};
    if (proxy->inside == NULL || bytes.len == 0)
        return 0;
    if (proxy->way->is_chunked)
        put_chunk(&chunk, bytes);
    (void)!stream_write(proxy->inside, proxy->way->is_chunked ? buf_str(&chunk) : bytes, &ignored);
    if (stream_is_full(proxy->inside)) {
        request_pause_body(proxy->request);
        timer_set(proxy->stuck, STUCK_MS, 0);
    }
    return 0;
}

static void body_whole(void *ctx)
{
    struct proxy *proxy = ctx;
    struct err ignored;
    AUTO_BUF struct buf kept = proxy->kept;
    proxy->kept = (struct buf){0};
    proxy->is_whole = true;
    request_hold(proxy->request);
    if (proxy->inside != NULL && proxy->way->is_chunked && !proxy->has_ended)
        (void)!stream_write(proxy->inside, STR("0\r\n\r\n"), &ignored);
    read_answer(proxy, buf_str(&kept));
    if (proxy->has_ended && proxy->inside != NULL)
        inside_end(proxy, NULL);
}

static void body_aborted(void *ctx)
{
    struct proxy *proxy = ctx;
    proxy->is_gone = true;
    proxy->request->is_paused = false;
    close_inside(proxy);
}

static const struct body_sink sink = {body_bytes, body_whole, body_aborted};

static void on_connected(void *ctx, int fd, const struct err *why)
{
    struct proxy *proxy = ctx;
    struct request *request = proxy->request;
    struct err err;
    AUTO_CLOSE int own = fd;
    AUTO_BUF struct buf head = {0};
    if (why == NULL && proxy->is_gone)
        (void)err_set(&err, ERR_CANCELED, "the client disconnected"), why = &err;
    if (why == NULL &&
        stream_open(proxy->api->loop, own, &inside_calls, proxy, &proxy->inside, &err) < 0)
        why = &err;
    if (why != NULL) {
        reply_error(request, why);
        return;
    }
    proxy->inside_fd = fd_take(&own);
    engine_port_begin(proxy->api->engine, str_of(proxy->id));
    proxy->is_working = true;
    port_put_request(request, proxy->way, &head);
    if (stream_write(proxy->inside, buf_str(&head), &err) < 0) {
        proxy_fail(proxy, &err);
        return;
    }
    request_take_body(request, &sink, proxy);
}

void proxy_request(struct request *request, struct api *api)
{
    struct proxy *proxy = mem_alloc(sizeof *proxy);
    struct engine_caller caller = request_caller(request);
    *proxy = (struct proxy){.api = api, .request = request, .way = request->way, .tunnel_fd = -1};
    (void)snprintf(proxy->id, sizeof proxy->id, "%.*s", STR_ARG(request->way->id));
    proxy->upstream.is_head_request = str_eq(request->method, STR("HEAD"));
    proxy->upstream.may_switch = request->way->is_upgrade;
    proxy->stuck = timer_new(api->loop, on_stuck, proxy);
    request_on_done(request, proxy_free, proxy);
    request_hold(request);
    request_on_gone(request, proxy_on_gone, proxy);
    engine_port_connect(api->engine, &caller, request->way->id, request->way->port, on_connected,
                        proxy);
}
