#include "test.h"

#include "api/ports/port_head.h"

static void add(struct request *request, const char *name, const char *value)
{
    request->headers[request->header_count++] =
        (struct request_header){str_of(name), str_of(value)};
}

static struct request *new_request(const char *method, const char *query)
{
    struct request *request = mem_alloc(sizeof *request);
    request->method = str_of(method);
    request->query = str_of(query);
    (void)snprintf(request->id, sizeof request->id, "req");
    add(request, "Host", "api.test");
    return request;
}

static void free_request(struct request *request)
{
    arena_done(&request->arena);
    free(request);
}

static struct port_way way_of(void)
{
    return (struct port_way){.id = STR("abc"),
                             .port = 8000,
                             .prefix = STR("/v1/sandboxes/abc/ports/8000"),
                             .path = STR("/x"),
                             .peer = "10.0.0.1"};
}

#define FORWARDED                                                                                  \
    "X-Forwarded-Host: api.test\r\nX-Forwarded-Proto: http\r\nX-Forwarded-For: 10.0.0.1\r\n"

TEST(by_path_credentials_and_cookies_stay)
{
    AUTO_BUF struct buf out = {0};
    struct request *request = new_request("POST", "a=1&sandglass_token=t&b");
    struct port_way way = way_of();
    add(request, "Authorization", "Bearer secret");
    add(request, "Cookie", "a=b");
    add(request, "Connection", "keep-alive, X-Hop");
    add(request, "X-Hop", "1");
    add(request, "TE", "trailers");
    add(request, "Expect", "100-continue");
    add(request, "Proxy-Authorization", "Basic x");
    add(request, "X-Forwarded-For", "6.6.6.6");
    add(request, "X-Sandglass-Port-Token", "t");
    add(request, "Content-Length", "5");
    add(request, "Accept", "*/*");
    port_put_request(request, &way, &out);
    CHECK_STR(buf_str(&out), "POST /x?a=1&b HTTP/1.1\r\nHost: localhost:8000\r\n" FORWARDED
                             "X-Forwarded-Prefix: /v1/sandboxes/abc/ports/8000\r\n"
                             "X-Request-Id: req\r\nAccept: */*\r\nContent-Length: 5\r\n"
                             "Connection: close\r\n\r\n");
    free_request(request);
}

TEST(by_host_the_applications_own_pass)
{
    AUTO_BUF struct buf out = {0};
    struct request *request = new_request("GET", "");
    struct port_way way = way_of();
    request->by_host = true;
    way.keeps_auth = way.is_upgrade = true;
    add(request, "Authorization", "Basic own");
    add(request, "Cookie", "a=b; sandglass_port=t; c=d");
    add(request, "Cookie", "sandglass_port=t");
    add(request, "Upgrade", "websocket");
    port_put_request(request, &way, &out);
    CHECK_STR(buf_str(&out), "GET /x HTTP/1.1\r\nHost: api.test\r\n" FORWARDED
                             "X-Request-Id: req\r\nAuthorization: Basic own\r\nCookie: a=b; c=d\r\n"
                             "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    struct str token = {0};
    CHECK(port_cookie(request, 0, &token) && str_eq(token, STR("t")));
    CHECK(port_cookie(request, 1, &token) && str_eq(token, STR("t")));
    CHECK(!port_cookie(request, 2, &token));
    free_request(request);
}

TEST(what_an_application_would_take_for_ours_stays)
{
    AUTO_BUF struct buf out = {0};
    struct request *request = new_request("GET", "");
    struct port_way way = way_of();
    request->by_host = true;
    add(request, "X_Forwarded_For", "6.6.6.6");
    add(request, "x-real_ip", "6.6.6.6");
    add(request, "Transfer_Encoding", "chunked");
    add(request, "X_Sandglass_Port_Token", "t");
    add(request, "Referer", "http://8000-abc.test/x?a=1&sandglass_token=t");
    add(request, "X_Own", "1");
    port_put_request(request, &way, &out);
    CHECK_STR(buf_str(&out), "GET /x HTTP/1.1\r\nHost: api.test\r\n" FORWARDED
                             "X-Request-Id: req\r\nX_Own: 1\r\nConnection: close\r\n\r\n");
    free_request(request);
}

static void take(struct upstream *upstream, const char *text)
{
    struct str in = str_of(text), body;
    CHECK(upstream_feed(upstream, &in, &body));
    CHECK(upstream_has_head(upstream));
}

static void put_answer(struct request *request, const struct upstream *upstream, struct buf *out)
{
    struct port_way way = way_of();
    size_t count;
    const struct request_header *headers = port_answer_headers(request, upstream, &way, &count);
    for (size_t i = 0; i < count; i++)
        buf_printf(out, "%s: %s\n", headers[i].name.ptr, headers[i].value.ptr);
}

static const char answer[] =
    "HTTP/1.1 302 Found\r\nLocation: /in\r\nContent-Location: http://localhost:8000/y\r\n"
    "Set-Cookie: a=1; Path=/; domain=.test; Secure\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\n"
    "Keep-Alive: 5\r\nClear-Site-Data: \"*\"\r\nEmpty:\r\nX-Request-Id: forged\r\n"
    "Content-Length: 0\r\nX-Own: 1\r\n\r\n";

TEST(answers_lose_what_is_about_the_connection)
{
    AUTO_BUF struct buf by_path = {0};
    AUTO_BUF struct buf by_host = {0};
    struct upstream upstream = {0};
    struct request *request = new_request("GET", "");
    take(&upstream, answer);
    put_answer(request, &upstream, &by_path);
    CHECK_STR(buf_str(&by_path),
              "Location: /v1/sandboxes/abc/ports/8000/in\n"
              "Content-Location: /v1/sandboxes/abc/ports/8000/y\nX-Own: 1\n"
              "Content-Security-Policy: sandbox allow-downloads allow-forms allow-modals "
              "allow-popups allow-scripts\n");
    request->by_host = true;
    put_answer(request, &upstream, &by_host);
    CHECK_STR(buf_str(&by_host), "Location: /in\nContent-Location: http://localhost:8000/y\n"
                                 "Set-Cookie: a=1; Path=/; Secure\nClear-Site-Data: \"*\"\n"
                                 "X-Own: 1\n");
    upstream_done(&upstream);
    free_request(request);
}
