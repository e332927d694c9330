#include "gate_test.h"

#include <unistd.h>

static void put_target(struct str head, char out[2048])
{
    size_t from = str_find_char(head, ' ') + 1;
    struct str rest = str_slice(head, from, head.len);
    (void)snprintf(out, 2048, "%.*s", STR_ARG(str_slice(rest, 0, str_find_char(rest, ' '))));
}

static void repeat(int fd, struct str bytes, int64_t times)
{
    for (int64_t i = 0; i < times && net_put(fd, bytes); i++)
        ;
}

static void slowly(int fd)
{
    if (!net_put_cstr(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"))
        return;
    while (net_put(fd, STR("x")))
        (void)usleep(100000);
}

/* Answers whose bytes are written as they stand. */
static const struct {
    const char *path, *bytes;
} canned[] = {
    {"/big-length", "HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\nx"},
    {"/gzip", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n\x1f\x8bxyz"},
    {"/te-gzip",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"},
    {"/chunk-63", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8000000000000000\r\nabc"},
    {"/chunk-80",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\nabc"},
    {"/chunk-neg", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nabc"},
    {"/two-lengths", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde"},
    {"/length-list", "HTTP/1.1 200 OK\r\nContent-Length: 3, 5\r\n\r\nabcde"},
    {"/both",
     "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"
     "\r\n"},
    {"/short", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"},
    {"/folded", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n"},
    {"/garbage", "\x16\x03\x01 this is no HTTP at all\r\n\r\n"},
    {"/to-backslash", "HTTP/1.1 302 X\r\nLocation: http://ok.test\\@evil.test/\r\n"
                      "Content-Length: 0\r\n\r\n"},
    {"/http09", "hello"},
    {"/nothing", ""},
    {"/trailers",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-After: 1\r\n\r\n"},
    {"/continue", "HTTP/1.1 100 Continue\r\nX-Early: 1\r\n\r\nHTTP/1.1 200 Fine\r\nX: 1\r\n"
                  "Content-Length: 2\r\n\r\nhi"},
};

static bool serve_hostile(int fd, const char *target)
{
    if (strcmp(target, "/endless-headers") == 0) {
        if (net_put_cstr(fd, "HTTP/1.1 200 OK\r\n"))
            repeat(fd, STR("X-Filler: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n"),
                   INT64_MAX);
    } else if (strcmp(target, "/endless-line") == 0) {
        if (net_put_cstr(fd, "HTTP/1.1 200 OK\r\nX: "))
            repeat(fd, STR("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), INT64_MAX);
    } else if (strcmp(target, "/many-headers") == 0) {
        if (net_put_cstr(fd, "HTTP/1.1 200 OK\r\n"))
            repeat(fd, STR("A: b\r\n"), 10000);
        (void)net_put_cstr(fd, "Content-Length: 0\r\n\r\n");
    } else if (strcmp(target, "/endless-body") == 0) {
        if (net_put_cstr(fd, "HTTP/1.1 200 OK\r\n\r\n"))
            repeat(fd, STR("0123456789abcdef0123456789abcdef"), INT64_MAX);
    } else if (strcmp(target, "/endless-1xx") == 0) {
        repeat(fd, STR("HTTP/1.1 100 Continue\r\nX: y\r\n\r\n"), INT64_MAX);
    } else if (strcmp(target, "/slow") == 0) {
        slowly(fd);
    } else if (strcmp(target, "/nul") == 0) {
        (void)net_put(fd, STR("HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n"));
    } else {
        return false;
    }
    return true;
}

static void serve(int fd, struct str head, UNUSED struct str body, UNUSED void *ctx)
{
    char target[2048];
    put_target(head, target);
    if (serve_hostile(fd, target))
        return;
    for (size_t i = 0; i < countof(canned); i++) {
        if (strcmp(target, canned[i].path) == 0) {
            (void)net_put_cstr(fd, canned[i].bytes);
            return;
        }
    }
    if (strncmp(target, "/redirect/", 10) == 0) { /* /redirect/CODE/LOCATION */
        AUTO_BUF struct buf status = {0}, headers = {0};
        buf_printf(&status, "%.3s Elsewhere", target + 10);
        buf_printf(&headers, "Location: %s\r\n", target + 14);
        net_answer(fd, buf_cstr(&status), buf_cstr(&headers), STR("gone"));
    } else if (strcmp(target, "/loop") == 0) {
        net_answer(fd, "302 Again", "Location: /loop\r\n", STR(""));
    } else {
        net_answer(fd, "200 OK", "X-Served: yes\r\nX-Twice: 1\r\nx-twice: 2\r\n", head);
    }
}

static void on_verdict(void *ctx, const struct verdict *verdict, UNUSED const struct host *host,
                       UNUSED uint16_t port)
{
    struct stage *stage = ctx;
    stage->refusals += !verdict_is_allowed(verdict);
}

/* On one port, which tests beside this one may have on one of the addresses. */
static void start_servers(struct stage *stage)
{
    for (int i = 0; i < 100 && stage->private == NULL; i++) {
        stage->ok = net_server_free(stage->ok);
        stage->evil = net_server_free(stage->evil);
        stage->ok = net_server_start("127.0.0.2", 0, serve, stage);
        stage->port = net_server_port(stage->ok);
        stage->evil = net_server_try("127.0.0.3", stage->port, serve, stage);
        if (stage->evil != NULL)
            stage->private = net_server_try("127.0.0.1", stage->port, serve, stage);
    }
    CHECK(stage->private != NULL);
}

void stage_open(struct stage *stage)
{
    struct err err = {0};
#ifdef SG_FAULTS
    ip_test_public("127.0.0.2/32 127.0.0.3/32");
#else
    SKIP("loopback counts as public only in -Dfaults=true builds");
#endif
    CHECK_OK(loop_open(&stage->loop, &err));
    stage->dns = net_dns_start();
    start_servers(stage);
    net_dns_set(stage->dns, "ok.test", "127.0.0.2");
    net_dns_set(stage->dns, "ok2.test", "127.0.0.2");
    net_dns_set(stage->dns, "evil.test", "127.0.0.3");
    stage->options = (struct gate_options){
        .dns_servers = net_dns_address(stage->dns), .on_verdict = on_verdict, .ctx = stage};
    CHECK_OK(gate_open(stage->loop, &stage->options, &stage->gate, &err));
    stage_set_policy(stage, "allow ok.test:PORT, ok2.test:PORT");
}

void stage_close(struct stage *stage)
{
    stage->policy = policy_free(stage->policy);
    stage->gate = gate_free(stage->gate);
    stage->loop = loop_free(stage->loop);
    stage->ok = net_server_free(stage->ok);
    stage->evil = net_server_free(stage->evil);
    stage->private = net_server_free(stage->private);
    stage->dns = net_dns_free(stage->dns);
}

static void put_with_port(const struct stage *stage, const char *text, struct buf *out)
{
    struct str rest = str_of(text);
    for (size_t at; (at = str_find(rest, STR("PORT"))) < rest.len;) {
        buf_printf(out, "%.*s%d", (int)at, rest.ptr, stage->port);
        rest = str_slice(rest, at + 4, rest.len);
    }
    buf_put(out, rest);
}

void stage_set_policy(struct stage *stage, const char *text)
{
    struct err err = {0};
    AUTO_BUF struct buf full = {0};
    stage->policy = policy_free(stage->policy);
    put_with_port(stage, text, &full);
    CHECK_OK(policy_parse(buf_str(&full), POLICY_BY_OPERATOR, &stage->policy, &err));
}

static void on_done(void *ctx, const struct gate_answer *answer, const struct verdict *refusal,
                    const struct err *why)
{
    struct outcome *outcome = ctx;
    assert(!outcome->is_done);
    outcome->is_done = true;
    if (why != NULL)
        outcome->why = *why;
    if (refusal != NULL)
        outcome->reason = refusal->reason;
    if (answer == NULL)
        return;
    outcome->has_answer = true;
    outcome->status = answer->http.status;
    outcome->is_redirected = answer->is_redirected;
    buf_put(&outcome->body, answer->http.body);
    buf_put(&outcome->status_text, answer->http.status_text);
    buf_put(&outcome->url, answer->url);
    for (size_t i = 0; i < answer->http.header_count; i++)
        buf_printf(&outcome->headers, "%.*s=%.*s\n", STR_ARG(answer->http.headers[i].name),
                   STR_ARG(answer->http.headers[i].value));
}

void stage_fetch(struct stage *stage, const char *url, struct gate_request request,
                 struct outcome *ret_outcome)
{
    AUTO_BUF struct buf full = {0};
    outcome_done(ret_outcome);
    put_with_port(stage, url, &full);
    request.policy = stage->policy;
    if (request.url.ptr == NULL)
        request.url = buf_str(&full);
    if (request.method.ptr == NULL)
        request.method = STR("GET");
    struct gate_call *call = gate_fetch(stage->gate, &request, on_done, ret_outcome);
    buf_done(&full); /* the request was copied */
    while (!ret_outcome->is_done && loop_step(stage->loop))
        (void)usleep(200);
    CHECK(ret_outcome->is_done);
    (void)gate_call_free(call);
}

void outcome_done(struct outcome *outcome)
{
    buf_done(&outcome->body);
    buf_done(&outcome->headers);
    buf_done(&outcome->status_text);
    buf_done(&outcome->url);
    *outcome = (struct outcome){0};
}
