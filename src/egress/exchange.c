#include "egress/exchange.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "egress/meter.h"
#include "io/loop.h"
#include "io/stream.h"

/* Asking: the request goes out, no answer is complete. Answering: the answer's head went in, its
 * body follows (on_head). Ending: everything is written, the sandbox's side drains (finish). */
enum state { ASKING, ANSWERING, ENDING, OVER };

struct exchange {
    struct loop *loop;
    struct exchange_options options;
    enum state state;
    struct stream *inner, *outer;
    struct http_body request, answer;
    char method[32];
    int early;
    bool is_dry;
    struct timer *soon;
    int64_t moved_ms;
    struct err why;
};

static void end(struct exchange *exchange, const struct err *why)
{
    if (exchange->state == OVER)
        return;
    exchange->state = OVER;
    if (why != NULL)
        exchange->why = *why;
    stream_pause(exchange->inner);
    stream_pause(exchange->outer);
    timer_set(exchange->soon, 0, 0);
}

static void fail(struct exchange *exchange, enum err_code code, const char *what)
{
    struct err why;
    (void)err_set(&why, code, "%s", what);
    end(exchange, &why);
}

static void finish(struct exchange *exchange)
{
    exchange->state = ENDING;
    stream_pause(exchange->outer);
    stream_finish(exchange->inner);
}

/* The host gave no answer that could be passed on. */
static void answer_for_host(struct exchange *exchange, const char *what)
{
    AUTO_BUF struct buf text = {0};
    struct err err;
    if (exchange->state != ASKING) {
        fail(exchange, ERR_UNAVAILABLE, what);
        return;
    }
    exchange_put_text(502, "bad_gateway", what, &text);
    if (stream_write(exchange->inner, buf_str(&text), &err) < 0)
        end(exchange, &err);
    else
        finish(exchange);
}

static void count(struct exchange *exchange, size_t bytes, bool is_sent)
{
    struct meter *meter = exchange->options.meter;
    meter_count(meter, bytes, is_sent);
    exchange->moved_ms = clock_now_ms();
    if (meter_is_used_up(meter)) {
        fail(exchange, ERR_LIMIT, "the sandbox has used up its bytes");
    } else if (meter_is_dry(meter)) {
        exchange->is_dry = true;
        stream_pause(exchange->inner);
        stream_pause(exchange->outer);
    }
}

/* Writes what belongs to the body; the reader waits while the writer is full. */
static int pass(struct exchange *exchange, struct http_body *body, struct buf *in,
                struct stream *from, struct stream *to, struct err *err)
{
    size_t used = 0;
    if (http_body_take(body, buf_str(in), &used, err) < 0 ||
        stream_write(to, str_slice(buf_str(in), 0, used), err) < 0)
        return -1;
    buf_consume(in, used);
    if (stream_is_full(to))
        stream_pause(from);
    count(exchange, used, body == &exchange->request);
    return 0;
}

static void on_inner_data(void *ctx, struct buf *in)
{
    struct exchange *exchange = ctx;
    struct err err = {0};
    if (exchange->state == OVER)
        return;
    if (exchange->request.is_done || exchange->state == ENDING) {
        buf_consume(in, in->len); /* behind the one request */
        return;
    }
    if (pass(exchange, &exchange->request, in, exchange->inner, exchange->outer, &err) < 0)
        end(exchange, &err);
}

static void put_answer(const struct http_head *head, bool is_upgrade, struct buf *out)
{
    buf_printf(out, "HTTP/1.1 %d %.*s\r\n", head->status, STR_ARG(head->reason));
    for (size_t i = 0; i < head->field_count; i++) {
        struct str name = head->fields[i].name;
        bool is_kept = is_upgrade && str_eq_nocase(name, STR("upgrade"));
        if (is_kept || !http_is_hop_field(head, name))
            buf_printf(out, "%.*s: %.*s\r\n", STR_ARG(name), STR_ARG(head->fields[i].value));
    }
    if (is_upgrade)
        buf_put_cstr(out, "Connection: Upgrade\r\n");
    else if (head->status >= 200)
        buf_put_cstr(out, "Connection: close\r\n");
    buf_put_cstr(out, "\r\n");
}

/* From now on both sides say what they like. */
static void become_tunnel(struct exchange *exchange)
{
    const struct http_head endless = {.framing = HTTP_UNTIL_END};
    http_body_begin(&exchange->request, &endless);
    http_body_begin(&exchange->answer, &endless);
    exchange->state = ANSWERING;
}

static void on_head(struct exchange *exchange, const struct http_head *head)
{
    AUTO_BUF struct buf text = {0};
    struct err err = {0};
    bool is_upgrade = head->status == 101;
    if (is_upgrade && !exchange->options.wants_upgrade) {
        answer_for_host(exchange, "the host changed the protocol unasked");
        return;
    }
    if (head->status < 200 && !is_upgrade && ++exchange->early > EXCHANGE_EARLY_MAX) {
        answer_for_host(exchange, "the host never comes to its answer");
        return;
    }
    put_answer(head, is_upgrade, &text);
    if (stream_write(exchange->inner, buf_str(&text), &err) < 0) {
        end(exchange, &err);
    } else if (is_upgrade) {
        become_tunnel(exchange);
    } else if (head->status >= 200) {
        http_body_begin(&exchange->answer, head);
        exchange->state = ANSWERING;
    }
}

/* Heads that are there; true when something was read. */
static bool read_head(struct exchange *exchange, struct buf *in)
{
    struct http_head *head = mem_alloc(sizeof *head);
    struct err err = {0};
    struct str bytes = buf_str(in);
    size_t end_at = http_head_end(str_slice(bytes, 0, HTTP_HEAD_MAX));
    if (end_at == 0 && bytes.len >= HTTP_HEAD_MAX)
        answer_for_host(exchange, "the head of the host's answer is too long");
    else if (end_at > 0 && http_read_answer(str_slice(bytes, 0, end_at), str_of(exchange->method),
                                            head, &err) < 0)
        answer_for_host(exchange, err.msg);
    else if (end_at > 0)
        on_head(exchange, head);
    free(head);
    count(exchange, end_at, false);
    buf_consume(in, end_at);
    return end_at > 0;
}

static void on_outer_data(void *ctx, struct buf *in)
{
    struct exchange *exchange = ctx;
    struct err err = {0};
    while (exchange->state == ASKING && read_head(exchange, in))
        ;
    if (exchange->state != ANSWERING)
        return;
    if (pass(exchange, &exchange->answer, in, exchange->outer, exchange->inner, &err) < 0)
        end(exchange, &err);
    else if (exchange->answer.is_done && exchange->state == ANSWERING)
        finish(exchange);
}

static void on_inner_end(void *ctx, const struct err *why)
{
    struct exchange *exchange = ctx;
    bool is_tunnel = exchange->request.framing == HTTP_UNTIL_END;
    if (why != NULL || (!exchange->request.is_done && !is_tunnel))
        fail(exchange, ERR_CANCELED, "the sandbox hung up");
    else if (is_tunnel)
        stream_finish(exchange->outer);
}

static void on_outer_end(void *ctx, const struct err *why)
{
    struct exchange *exchange = ctx;
    if (exchange->state == ASKING)
        answer_for_host(exchange, "the host closed the connection without an answer");
    else if (exchange->state == ANSWERING && exchange->answer.framing == HTTP_UNTIL_END &&
             why == NULL)
        finish(exchange);
    else if (exchange->state == ANSWERING)
        fail(exchange, ERR_UNAVAILABLE, "the host broke off");
}

static void on_inner_drain(void *ctx)
{
    struct exchange *exchange = ctx;
    if (exchange->state != OVER && !exchange->is_dry)
        stream_resume(exchange->outer);
}

static void on_outer_drain(void *ctx)
{
    struct exchange *exchange = ctx;
    if (exchange->state != OVER && !exchange->is_dry)
        stream_resume(exchange->inner);
}

static void on_inner_closed(void *ctx, const struct err *why)
{
    end(ctx, why);
}

/* A host that takes no more may still have answered. */
static void on_outer_closed(void *ctx, const struct err *why)
{
    struct exchange *exchange = ctx;
    if (why != NULL)
        exchange->request.is_done = true;
}

static void on_soon(void *ctx)
{
    struct exchange *exchange = ctx;
    exchange->options.done(exchange->options.ctx,
                           exchange->why.code == ERR_NONE ? NULL : &exchange->why);
}

static int send_request(struct exchange *exchange, const struct exchange_options *options,
                        struct err *err)
{
    size_t used = 0;
    http_body_begin(&exchange->request, options->request);
    if (http_body_take(&exchange->request, options->rest, &used, err) < 0 ||
        stream_write(exchange->outer, options->head, err) < 0 ||
        stream_write(exchange->outer, str_slice(options->rest, 0, used), err) < 0)
        return -1;
    count(exchange, options->head.len + used, true);
    return 0;
}

int exchange_start(struct loop *loop, const struct exchange_options *options,
                   struct exchange **ret_exchange, struct err *err)
{
    static const struct stream_calls inner = {on_inner_data, on_inner_end, on_inner_drain,
                                              on_inner_closed};
    static const struct stream_calls outer = {on_outer_data, on_outer_end, on_outer_drain,
                                              on_outer_closed};
    struct exchange *exchange = mem_alloc(sizeof *exchange);
    exchange->loop = loop;
    exchange->options = *options;
    exchange->moved_ms = clock_now_ms();
    if (str_to_cstr(options->request->method, exchange->method, sizeof exchange->method, err) < 0 ||
        stream_open(loop, options->inner, &inner, exchange, &exchange->inner, err) < 0) {
        free(exchange);
        return -1;
    }
    exchange->options.inner = -1;
    exchange->soon = timer_new(loop, on_soon, exchange);
    *ret_exchange = exchange;
    if (stream_open(loop, options->outer, &outer, exchange, &exchange->outer, err) < 0) {
        exchange->outer = NULL;
        /* The sandbox's socket is ours already: it ends with the exchange. */
        exchange->state = OVER;
        exchange->why = *err;
        fd_close(&exchange->options.outer);
        timer_set(exchange->soon, 0, 0);
        return 0;
    }
    struct err why = {0};
    if (send_request(exchange, options, &why) < 0)
        end(exchange, &why);
    return 0;
}

struct exchange *exchange_free(struct exchange *exchange)
{
    if (exchange == NULL)
        return NULL;
    (void)stream_free(exchange->inner);
    (void)stream_free(exchange->outer);
    (void)timer_free(exchange->soon);
    free(exchange);
    return NULL;
}

int64_t exchange_moved_ms(const struct exchange *exchange)
{
    return exchange->moved_ms;
}

void exchange_resume(struct exchange *exchange)
{
    if (!exchange->is_dry || exchange->state == OVER)
        return;
    exchange->is_dry = false;
    if (!stream_is_full(exchange->outer))
        stream_resume(exchange->inner);
    if (!stream_is_full(exchange->inner) && exchange->state != ENDING)
        stream_resume(exchange->outer);
}

/* Heads. */

void exchange_put_request(const struct http_head *request, struct str target, struct str host,
                          bool wants_upgrade, struct buf *out)
{
    buf_printf(out, "%.*s %.*s HTTP/1.%d\r\nHost: %.*s\r\n", STR_ARG(request->method),
               STR_ARG(target), request->minor, STR_ARG(host));
    for (size_t i = 0; i < request->field_count; i++) {
        struct str name = request->fields[i].name;
        bool is_kept = wants_upgrade && str_eq_nocase(name, STR("upgrade"));
        if (str_eq_nocase(name, STR("host")) || (!is_kept && http_is_hop_field(request, name)))
            continue;
        buf_printf(out, "%.*s: %.*s\r\n", STR_ARG(name), STR_ARG(request->fields[i].value));
    }
    buf_put_cstr(out, wants_upgrade ? "Connection: Upgrade\r\n\r\n" : "Connection: close\r\n\r\n");
}

void exchange_put_text(int status, const char *reason_name, const char *text, struct buf *out)
{
    const char *words = status == 403   ? "Forbidden"
                        : status == 400 ? "Bad Request"
                        : status == 431 ? "Request Header Fields Too Large"
                        : status == 504 ? "Gateway Timeout"
                                        : "Bad Gateway";
    buf_printf(out,
               "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
               "Content-Length: %zu\r\nX-Sandglass-Reason: %s\r\nConnection: close\r\n\r\n%s\n",
               status, words, strlen(text) + 1, reason_name, text);
}
