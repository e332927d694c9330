#include "api/http/exchange.h"

#include "api/http/metrics.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"

static size_t body_limit(const struct route *route)
{
    if (route->body_max > 0)
        return route->body_max;
    return route_streams(route) ? SIZE_MAX : ROUTE_BODY_MAX;
}

/* The row is known, and with it how long a body may become. */
static void limit_body(struct conn *conn, struct request *request)
{
    struct err err;
    if (request->has_reply || request->match.route == NULL)
        return;
    size_t max = body_limit(request->match.route);
    if (conn->served != conn->strict.requests)
        return; /* the judge is further on, with the next request */
    conn->strict.body_max = max == SIZE_MAX ? 0 : max;
    if (conn->strict.body_seen <= max)
        return;
    (void)err_set(&err, ERR_TOO_LARGE,
                  "the request's body is too large; at most %zu bytes are accepted", max);
    reply_error(request, &err);
}

/* What was decrypted comes over a pair of sockets, with the address of its client. */
static bool came_by_tls(const struct conn *conn, const struct sockaddr *peer)
{
    int domain = 0;
    socklen_t size = sizeof domain;
    return peer != NULL && peer->sa_family != AF_UNIX &&
           getsockopt(conn->fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

void exchange_begin(struct conn *conn, struct request *request)
{
    struct http *http = conn->http;
    request->is_http10 = conn->strict.is_http10;
    request->is_tls = came_by_tls(conn, request->peer);
    http->counts.running++;
    /* Each request must have passed the judge: one that did not came by another way in. */
    if (++conn->served <= conn->strict.requests) {
        request_begin(request, &http->options.rules);
    } else {
        struct err err;
        (void)err_set(&err, ERR_INTERNAL, "internal error: the request was not validated");
        reply_error(request, &err);
    }
    limit_body(conn, request);
    if (!request->has_reply && route_streams(request->match.route))
        request_dispatch(request, &http->options.rules);
}

void exchange_dispatch(struct request *request)
{
    request_log(request);
    if (request->sink != NULL)
        request->sink->on_end(request->sink_ctx);
    else
        request_dispatch(request, &request->http->options.rules);
    request_log(NULL);
}

void exchange_take_body(struct request *request, struct str bytes)
{
    struct err err;
    int taken = request->sink == NULL ? buf_append(&request->body, bytes, &err)
                                      : request->sink->on_bytes(request->sink_ctx, bytes, &err);
    if (taken == 0)
        return;
    if (request->sink == NULL)
        (void)err_wrap(&err, "the request's body");
    if (!request->has_reply)
        reply_error(request, &err);
}

static void log_request(struct request *request, int64_t spent_ns)
{
    const struct route *route = request->match.route;
    const struct request_rules *rules = request->rules;
    if (!log_is_on(LOG_DEBUG))
        return;
    if (request->sandbox.len == 0 && rules != NULL && rules->find_sandbox != NULL)
        request->sandbox = rules->find_sandbox(rules->ctx, request);
    log_debug("http.request", LOG_STR("request", request->id), LOG_ID("sandbox", request->sandbox),
              LOG_VIEW("method", request->method),
              LOG_STR("route", route == NULL ? "none" : route->pattern),
              LOG_INT("status", request->status), LOG_INT("us", spent_ns / 1000));
}

void exchange_note(struct http *http, struct request *request)
{
    int64_t spent_ns = clock_now_ns() - request->start_ns;
    const struct route *route = request->match.route;
    log_request(request, spent_ns);
    if (http->options.metrics != NULL)
        metrics_count(http->options.metrics,
                      route == NULL ? METRICS_NO_ROUTE : (int64_t)request->match.index,
                      request->status, spent_ns);
}

void exchange_answer_early(struct conn *conn, struct request *request)
{
    if (conn->is_cut)
        return;
    exchange_note(conn->http, request);
    conn_answer(conn, request->status, buf_str(&request->reply), request->id);
}

static bool has_reply_header(const struct request *request, struct str name)
{
    for (size_t i = 0; i < request->reply_header_count; i++)
        if (str_eq_nocase(request->reply_headers[i].name, name))
            return true;
    return false;
}

void exchange_headers(const struct request *request,
                      void (*put)(void *ctx, const char *name, const char *value), void *ctx)
{
    if (request->content_type != NULL)
        put(ctx, "Content-Type", request->content_type);
    put(ctx, "X-Request-Id", request->id);
    if (!request->is_foreign) {
        put(ctx, "X-Content-Type-Options", "nosniff");
        if (!has_reply_header(request, STR("Cache-Control")))
            put(ctx, "Cache-Control", "no-store");
    }
    if (request->must_close)
        put(ctx, "Connection", "close");
    for (size_t i = 0; i < request->reply_header_count; i++)
        put(ctx, request->reply_headers[i].name.ptr, request->reply_headers[i].value.ptr);
    for (size_t i = 0; i < request->foreign_count; i++)
        put(ctx, request->foreign_headers[i].name.ptr, request->foreign_headers[i].value.ptr);
}
