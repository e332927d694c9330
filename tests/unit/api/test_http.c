#include "api/http/http.h"

#include "api/http/metrics.h"
#include "base/format/json.h"
#include "talk.h"

static void echo(struct request *request, void *ctx)
{
    struct fixture *fix = ctx;
    fix->handled++;
    struct buf body = {0};
    struct str say = {0};
    if (request_query(request, "say", &say))
        buf_printf(&body, "%.*s:", STR_ARG(say));
    buf_put(&body, buf_str(&request->body));
    reply_body(request, 200, "text/plain", &body);
}

static void hold(struct request *request, void *ctx)
{
    struct fixture *fix = ctx;
    fix->held = request;
    request_hold(request);
}

static void reply_text(struct request *request, int status, const char *text)
{
    struct buf body = {0};
    buf_put_cstr(&body, text);
    reply_body(request, status, "text/plain; charset=utf-8", &body);
}

static void thing(struct request *request, void *ctx)
{
    struct fixture *fix = ctx;
    struct err err;
    struct json_t *json = NULL;
    fix->handled++;
    if (request_json(request, &json, &err) < 0) {
        reply_error(request, &err);
        return;
    }
    json = json_free(json);
    struct str id = request_param(request, "id");
    reply_text(request, 201, arena_printf(&request->arena, "made %.*s", STR_ARG(id)).ptr);
}

static void canary(struct request *request, void *ctx)
{
    struct fixture *fix = ctx;
    fix->handled += 1000;
    reply_text(request, 200, "executed");
}

static const struct route_query echo_query[] = {
    {"say", "{\"type\":\"string\"}", "What to say"},
    {"times", "{\"type\":\"integer\",\"minimum\":1,\"maximum\":3}", "How often"},
    {0},
};

static const struct route routes[] = {
    {"POST", "/echo", echo, "", .scope = SCOPE_OPEN, .body_max = 100, .query = echo_query},
    {"GET", "/echo", echo, "", .scope = SCOPE_OPEN, .query = echo_query},
    {"GET", "/hold", hold, "", .scope = SCOPE_OPEN},
    {"POST", "/things/{id}", thing, ""},
    {"GET", "/canary", canary, "", .scope = SCOPE_OPEN},
    {0},
};

TEST(bodies_queries_and_keep_alive)
{
    struct fixture fix = {0};
    bool closed;
    start(&fix, routes, (struct http_options){0});
    CHECK(says(ASK(&fix, "POST /echo?say=a%20b HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhello"),
               "\r\n\r\na b:hello"));
    CHECK(!closed);
    CHECK(says(ASK(&fix, "POST /echo HTTP/1.1\r\n" H
                         "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"),
               "\r\n\r\nabcde"));
    CHECK(!closed);
    const char *two =
        ASK(&fix, "GET /echo?say=1 HTTP/1.1\r\n" H "\r\nGET /echo?say=2 HTTP/1.1\r\n" H "\r\n");
    CHECK(says(two, "\r\n\r\n1:") && says(two, "\r\n\r\n2:"));
    CHECK(!closed);
    CHECK_INT(http_counts(fix.http).running, 0);
    stop(&fix);
}

TEST(errors_have_one_shape_and_keep_the_connection)
{
    struct fixture fix = {0};
    bool closed;
    start(&fix, routes, (struct http_options){0});
    const char *answer = ASK(&fix, "GET /nothing HTTP/1.1\r\n" H
                                   "Authorization: Bearer secret\r\nX-Request-Id: my-id\r\n\r\n");
    CHECK(says(answer, "404 Not Found"));
    CHECK(says(answer, "X-Request-Id: my-id\r\n"));
    CHECK(says(answer, "{\"error\":{\"code\":\"not_found\",\"message\":\"no route '/nothing'\","
                       "\"requestId\":\"my-id\"}}"));
    CHECK(!closed);
    answer = ASK(&fix, "GET /things/a HTTP/1.1\r\n" H "Authorization: bearer secret\r\n\r\n");
    CHECK(says(answer, "405 Method Not Allowed") && says(answer, "Allow: POST, OPTIONS\r\n"));
    answer = ASK(&fix, "OPTIONS /things/a HTTP/1.1\r\n" H "Authorization: Bearer secret\r\n\r\n");
    CHECK(says(answer, "204 No Content") && says(answer, "Allow: POST, OPTIONS\r\n"));
    CHECK(strstr(answer, "Access-Control") == NULL);
    answer = ASK(&fix, "HEAD /echo?say=long HTTP/1.1\r\n" H "\r\n");
    CHECK(says(answer, "Content-Length: 5\r\n") && strstr(answer, "long") == NULL);
    CHECK(!closed);
    CHECK(says(ASK(&fix, "GET /echo HTTP/1.1\r\n" H "X-Request-Id: bad\x80id\r\n\r\n"), "200 OK"));
    stop(&fix);
}

TEST(host_origin_and_token_are_checked)
{
    struct fixture fix = {0};
    bool closed;
    start(&fix, routes, (struct http_options){0});
#define TOKEN "Authorization: Bearer secret\r\n"
    CHECK(says(ASK(&fix, "GET /things/a HTTP/1.1\r\nHost: evil.test\r\n" TOKEN "\r\n"), "421 "));
    CHECK(says(ASK(&fix, "GET /things/a HTTP/1.1\r\nHost: evil.test\r\n\r\n"), "\"misdirected\""));
    CHECK(says(ASK(&fix, "GET /nothing HTTP/1.1\r\nHost: x:1\r\n\r\n"), "421 "));
    CHECK(
        says(ASK(&fix, "GET /canary HTTP/1.1\r\n" H "Origin: http://x.evil.test\r\n\r\n"), "403 "));
    CHECK(says(ASK(&fix, "GET /canary HTTP/1.1\r\n" H "Origin: null\r\n\r\n"), "403 "));
    CHECK(
        says(ASK(&fix, "GET /canary HTTP/1.1\r\n" H "Origin: http://x\r\nOrigin: http://x\r\n\r\n"),
             "403 "));
    const char *wrong[] = {"", "Authorization: Bearer wrong\r\n", "Authorization: Bearer \r\n",
                           "Authorization: Basic secret\r\n", "Authorization: Bearer secret2\r\n"};
    for (size_t i = 0; i < countof(wrong); i++) {
        char text[256];
        (void)snprintf(text, sizeof text, "POST /things/a HTTP/1.1\r\n" H "%s\r\n", wrong[i]);
        CHECK(says(talk(&fix, str_of(text), &closed), "401 "));
    }
    CHECK(says(ASK(&fix, "POST /things/a HTTP/1.1\r\n" H TOKEN TOKEN "\r\n"), "400 "));
    CHECK_INT(fix.handled, 0);
    CHECK(says(ASK(&fix, "POST /things/a HTTP/1.1\r\n" H TOKEN "Content-Length: 2\r\n\r\n{}"),
               "415 "));
    CHECK(says(ASK(&fix, "POST /things/a HTTP/1.1\r\n" H TOKEN
                         "Content-Type: application/json; charset=utf-8\r\n"
                         "Origin: http://x\r\nContent-Length: 2\r\n\r\n{}"),
               "made a"));
    stop(&fix);
}

TEST(too_large_bodies_are_refused_before_they_are_read)
{
    struct fixture fix = {0};
    bool closed;
    start(&fix, routes, (struct http_options){0});
    CHECK(says(ASK(&fix, "POST /echo HTTP/1.1\r\n" H "Content-Length: 101\r\n\r\n"), "413 "));
    CHECK(closed);
    (void)close(fix.client);
    connect_client(&fix);
    CHECK(
        says(ASK(&fix, "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nfffffff\r\n"),
             "413 "));
    CHECK(closed);
    (void)close(fix.client);
    connect_client(&fix);
    AUTO_BUF struct buf chunked = {0};
    buf_put_cstr(&chunked, "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 20; i++)
        buf_put_cstr(&chunked, "a\r\n0123456789\r\n");
    buf_put_cstr(&chunked, "0\r\n\r\n");
    CHECK(says(talk(&fix, buf_str(&chunked), &closed), "413 "));
    CHECK_INT(fix.handled, 0);
    stop(&fix);
}

/* One malformed request of each kind over the whole stack; strict's own test has them all. */
TEST(nothing_behind_a_malformed_request_is_executed)
{
#define CANARY "GET /canary HTTP/1.1\r\n" H "\r\n"
    static const char *const bad[] = {
        "POST /echo HTTP/1.1\r\n" H "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
        "0\r\n\r\n" CANARY,
        "POST /echo HTTP/1.1\r\n" H "Content-Length: 0\r\nContent-Length: 9\r\n\r\n" CANARY,
        "POST /echo HTTP/1.1\r\n" H "Content-Length: +0\r\n\r\n" CANARY,
        "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n" CANARY,
        "GET /echo HTTP/1.1\n" H "\n" CANARY,
        "GET /echo HTTP/1.1\r\n" H "A: b\r\n c\r\n\r\n" CANARY,
        "GET /echo HTTP/1.1\r\n" H "A : b\r\n\r\n" CANARY,
        "GET /echo\r\n" CANARY,
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" CANARY,
        "POST /echo HTTP/1.1\r\n" H
        "Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n" CANARY,
        "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n" CANARY,
        "\r\n" CANARY,
    };
    for (size_t i = 0; i < countof(bad); i++) {
        struct fixture fix = {0};
        bool closed;
        start(&fix, routes, (struct http_options){0});
        const char *answer = talk(&fix, str_of(bad[i]), &closed);
        if (!closed || fix.handled != 0 ||
            (strstr(answer, "HTTP/1.1 400 ") != answer &&
             strstr(answer, "HTTP/1.1 505 ") != answer))
            fail_msg("case %zu: handled %d, closed %d: %s", i, fix.handled, closed, answer);
        CHECK_INT(http_counts(fix.http).refused, 1);
        stop(&fix);
    }
}

TEST(a_sound_request_before_a_malformed_one_is_answered)
{
    struct fixture fix = {0};
    bool closed;
    start(&fix, routes, (struct http_options){0});
    const char *answer =
        ASK(&fix, "GET /echo?say=hi HTTP/1.1\r\n" H "\r\nGET  / HTTP/1.1\r\n" CANARY);
    CHECK(says(answer, "\r\n\r\nhi:"));
    CHECK(closed);
    CHECK_INT(fix.handled, 1);
    stop(&fix);
}

static void on_drained(void *ctx)
{
    struct fixture *fix = ctx;
    fix->drained++;
}

TEST(a_held_request_is_answered_later_and_drain_waits_for_it)
{
    struct fixture fix = {0};
    bool closed;
    start(&fix, routes, (struct http_options){0});
    CHECK_CSTR(ASK(&fix, "GET /hold HTTP/1.1\r\n" H "\r\n"), "");
    CHECK(fix.held != NULL);
    CHECK_INT(http_counts(fix.http).running, 1);
    http_drain(fix.http, on_drained, &fix);
    step(&fix, 10);
    CHECK_INT(fix.drained, 0);
    reply_text(fix.held, 200, "at last");
    const char *answer = ASK(&fix, "");
    CHECK(says(answer, "at last") && says(answer, "Connection: close"));
    CHECK(closed);
    /* What the client may still send is waited for too. */
    (void)close(fix.client);
    while (fix.drained == 0)
        step(&fix, 1);
    fix.client = -1;
    stop(&fix);
}

TEST(slow_heads_and_bodies_are_cut)
{
    static const char *const slow[] = {"GET /canary HT",
                                       "POST /echo HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhe"};
    for (size_t i = 0; i < countof(slow); i++) {
        struct fixture fix = {0};
        bool closed = false;
        start(&fix, routes, (struct http_options){.head_ms = 1, .body_idle_ms = 1});
        CHECK_CSTR(talk(&fix, str_of(slow[i]), &closed), "");
        const char *answer = "";
        while (answer[0] == '\0')
            answer = ASK(&fix, "");
        CHECK(says(answer, "408 Request Timeout"));
        CHECK_INT(fix.handled, 0);
        stop(&fix);
    }
}

TEST(idle_connections_end)
{
    struct fixture fix = {0};
    bool closed = false;
    start(&fix, routes, (struct http_options){.keep_alive_ms = 1});
    while (!closed)
        CHECK_CSTR(ASK(&fix, ""), "");
    CHECK_INT(http_counts(fix.http).connections, 0);
    stop(&fix);
}

TEST(idle_connections_make_room_for_new_ones)
{
    struct fixture fix = {0};
    bool closed;
    int idle[20];
    start(&fix, routes, (struct http_options){.connections_max = 4});
    for (size_t i = 0; i < countof(idle); i++) {
        idle[i] = fix.client;
        step(&fix, 3);
        connect_client(&fix);
    }
    CHECK(says(ASK(&fix, "GET /echo?say=hi HTTP/1.1\r\n" H "\r\n"), "hi:"));
    CHECK(http_counts(fix.http).connections <= 4);
    for (size_t i = 0; i < countof(idle); i++)
        (void)close(idle[i]);
    stop(&fix);
}

TEST(vanished_clients_leave_nothing)
{
    static const char *const partial[] = {"",
                                          "GE",
                                          "GET /echo HTTP/1.1\r\n",
                                          "GET /echo HTTP/1.1\r\n" H,
                                          "POST /echo HTTP/1.1\r\n" H "Content-Length: 9\r\n\r\nab",
                                          "GET /echo HTTP/1.1\r\n" H "\r\n"};
    struct fixture fix = {0};
    bool closed;
    start(&fix, routes, (struct http_options){0});
    (void)close(fix.client);
    step(&fix, 5);
    int before = test_open_fds();
    for (size_t i = 0; i < countof(partial); i++) {
        connect_client(&fix);
        (void)talk(&fix, str_of(partial[i]), &closed);
        (void)close(fix.client);
        step(&fix, 10);
        CHECK_INT(http_counts(fix.http).connections, 0);
        CHECK_INT(http_counts(fix.http).running, 0);
    }
    CHECK_INT(test_open_fds(), before);
    fix.client = -1;
    stop(&fix);
}

TEST(metrics_count_by_route_and_status)
{
    struct metrics *metrics = metrics_new(routes);
    metrics_count(metrics, 0, 200, 150000);
    metrics_count(metrics, 0, 200, 20000000000);
    metrics_count(metrics, 0, 400, 1);
    metrics_count(metrics, METRICS_NO_ROUTE, 404, 1);
    AUTO_BUF struct buf out = {0};
    metrics_write(metrics, &out);
    const char *text = buf_cstr(&out);
    CHECK(says(text, "requests_total{method=\"POST\",route=\"/echo\",status=\"200\"} 2\n"));
    CHECK(says(text, "requests_total{method=\"\",route=\"none\",status=\"404\"} 1\n"));
    CHECK(says(text, "bucket{method=\"POST\",route=\"/echo\",le=\"0.0001\"} 1\n"));
    CHECK(says(text, "bucket{method=\"POST\",route=\"/echo\",le=\"0.00025\"} 2\n"));
    CHECK(says(text, "bucket{method=\"POST\",route=\"/echo\",le=\"10\"} 2\n"));
    CHECK(says(text, "bucket{method=\"POST\",route=\"/echo\",le=\"+Inf\"} 3\n"));
    CHECK(says(text, "process_open_fds "));
    metrics = metrics_free(metrics);
}
