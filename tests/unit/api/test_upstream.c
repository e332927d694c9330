#include "test.h"

#include "api/ports/upstream.h"

/* Feeds all of `text` in pieces of `step` bytes; the body goes to `body`. */
static bool feed(struct upstream *upstream, const char *text, size_t step, struct buf *body)
{
    struct str rest = str_of(text);
    while (rest.len > 0) {
        struct str in = str_slice(rest, 0, step), piece;
        rest = str_slice(rest, step, rest.len);
        while (in.len > 0 && upstream->state != UPSTREAM_DONE &&
               upstream->state != UPSTREAM_SWITCHED) {
            if (!upstream_feed(upstream, &in, &piece))
                return false;
            buf_put(body, piece);
        }
    }
    return true;
}

/* Empty when absent. */
static struct str header_of(const struct upstream *upstream, const char *name)
{
    for (size_t i = 0; i < upstream->header_count; i++)
        if (str_eq_nocase(upstream->headers[i].name, str_of(name)))
            return upstream->headers[i].value;
    return (struct str){0};
}

static void check_answer(const char *text, int status, const char *want)
{
    for (size_t step = 1; step < strlen(text) + 2; step += 7) {
        AUTO_BUF struct buf body = {0};
        struct upstream upstream = {0};
        CHECK(feed(&upstream, text, step, &body));
        CHECK(upstream_end(&upstream));
        CHECK_INT(upstream.status, status);
        CHECK_STR(buf_str(&body), want);
        upstream_done(&upstream);
    }
}

TEST(upstream_reads_every_frame)
{
    check_answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello");
    check_answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n\r\nevil",
                 200, "hello");
    check_answer("HTTP/1.1 500\r\ncontent-length:0\r\n\r\n", 500, "");
    check_answer("HTTP/1.0 200 OK\r\n\r\nto the end", 200, "to the end");
    check_answer(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\nA\r\n0123456789\r\n"
        "0\r\nTrailer: x\r\n\r\n",
        200, "ab0123456789");
    check_answer("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 204 No\r\n\r\n", 204, "");
    check_answer("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, "");
}

TEST(upstream_keeps_headers)
{
    AUTO_BUF struct buf body = {0};
    struct upstream upstream = {.is_head_request = true};
    CHECK(feed(&upstream, "HTTP/1.1 200 OK\r\nA: \t b\tc  \r\nContent-Length: 7\r\nE:\r\n\r\n", 100,
               &body));
    CHECK_INT(upstream.state, UPSTREAM_DONE); /* nothing follows the head of a HEAD */
    CHECK_INT(upstream.header_count, 3);
    CHECK(str_eq(header_of(&upstream, "a"), STR("b c")));
    CHECK_INT(upstream.length, 7);
    CHECK_INT(header_of(&upstream, "e").len, 0);
    upstream_done(&upstream);
}

TEST(upstream_switches_only_when_asked)
{
    AUTO_BUF struct buf body = {0};
    struct upstream asked = {.may_switch = true}, unasked = {0};
    const char *text = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nrest";
    CHECK(feed(&asked, text, 100, &body));
    CHECK_INT(asked.state, UPSTREAM_SWITCHED);
    CHECK(!feed(&unasked, text, 100, &body));
    CHECK_INT(body.len, 0);
    upstream_done(&asked);
    upstream_done(&unasked);
}

TEST(upstream_refuses_what_can_be_read_in_two_ways)
{
    static const char *const bad[] = {
        "HTTP/1.1 200 OK\n\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 600 OK\r\n\r\n",
        "HTTP/1.2 200 OK\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\x01\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\na\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1111111111111111\r\n",
    };
    for (size_t i = 0; i < countof(bad); i++) {
        AUTO_BUF struct buf body = {0};
        struct upstream upstream = {0};
        CHECK(!feed(&upstream, bad[i], 5, &body));
        CHECK_INT(upstream.state, UPSTREAM_BAD);
        CHECK(upstream.why != NULL);
        upstream_done(&upstream);
    }
}

TEST(upstream_has_limits)
{
    AUTO_BUF struct buf text = {0};
    AUTO_BUF struct buf body = {0};
    struct upstream lines = {0}, line = {0}, interims = {0};
    buf_put_cstr(&text, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < UPSTREAM_HEADERS_MAX + 1; i++)
        buf_put_cstr(&text, "A: b\r\n");
    CHECK(!feed(&lines, buf_cstr(&text), 1000, &body));
    buf_clear(&text);
    buf_put_cstr(&text, "HTTP/1.1 200 OK\r\nA: ");
    for (int i = 0; i < UPSTREAM_LINE_MAX; i++)
        buf_put_char(&text, 'a');
    CHECK(!feed(&line, buf_cstr(&text), 1000, &body));
    buf_clear(&text);
    for (int i = 0; i < UPSTREAM_INTERIM_MAX + 1; i++)
        buf_put_cstr(&text, "HTTP/1.1 100 Continue\r\n\r\n");
    CHECK(!feed(&interims, buf_cstr(&text), 1000, &body));
    upstream_done(&lines);
    upstream_done(&line);
    upstream_done(&interims);
}

TEST(upstream_tells_a_cut_answer)
{
    static const char *const cut[] = {
        "", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"};
    for (size_t i = 0; i < countof(cut); i++) {
        AUTO_BUF struct buf body = {0};
        struct upstream upstream = {0};
        CHECK(feed(&upstream, cut[i], 4, &body));
        CHECK(!upstream_end(&upstream));
        upstream_done(&upstream);
    }
}
