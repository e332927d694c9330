#include "api/http/strict.h"

#include "test.h"

#define H "Host: x\r\n"
#define CANARY "GET /canary HTTP/1.1\r\n" H "\r\n"

static const struct {
    const char *bytes;
    size_t len; /* 0: a C string */
    int status;
} bad[] = {
    /* Two readings of where the body ends. */
    {"POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 0, 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 0, 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 0, 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: +1\r\n\r\n", 0, 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: -1\r\n\r\n", 0, 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 0x10\r\n\r\n", 0, 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length:  1\r\n\r\n", 0, 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 1 \r\n\r\n", 0, 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length:\t1\r\n\r\n", 0, 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 1,1\r\n\r\n", 0, 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 1 1\r\n\r\n", 0, 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length:\r\n\r\n", 0, 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 18446744073709551616\r\n\r\n", 0, 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 18446744073709551615\r\n\r\n", 0, 400},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, identity\r\n\r\n", 0, 400},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n", 0, 400},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n", 0, 400},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n", 0, 400},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: \"chunked\"\r\n\r\n", 0, 400},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 0,
     400},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding : chunked\r\n\r\n", 0, 400},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding:\r\n chunked\r\n\r\n", 0, 400},
    {"POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n", 0, 400},
    /* Lines. */
    {"GET / HTTP/1.1\n" H "\r\n", 0, 400},
    {"GET / HTTP/1.1\r\nHost: x\n\r\n", 0, 400},
    {"GET / HTTP/1.1\r\n" H "\n", 0, 400},
    {"GET / HTTP/1.1\r\nA: b\rContent-Length: 3\r\n" H "\r\n", 0, 400},
    {"GET / HTTP/1.1\r\nA: b\r\r\n" H "\r\n", 0, 400},
    {"GET / HTTP/1.1\r\nA: b\0c\r\n" H "\r\n", 36, 400},
    {"GET /\0 HTTP/1.1\r\n" H "\r\n", 28, 400},
    {"GET / HTTP/1.1\r\nA\0: b\r\n" H "\r\n", 34, 400},
    {"GET / HTTP/1.1\r\nA: b\x7f\r\n" H "\r\n", 0, 400},
    {"GET / HTTP/1.1\r\n" H "A : b\r\n\r\n", 0, 400},
    {"GET / HTTP/1.1\r\n" H "A\t: b\r\n\r\n", 0, 400},
    {"GET / HTTP/1.1\r\n" H "A b: c\r\n\r\n", 0, 400},
    {"GET / HTTP/1.1\r\n" H ": b\r\n\r\n", 0, 400},
    {"GET / HTTP/1.1\r\n" H "nonsense\r\n\r\n", 0, 400},
    {"GET / HTTP/1.1\r\n" H "A: b\r\n folded\r\n\r\n", 0, 400},
    {"GET / HTTP/1.1\r\n" H "A: b\r\n\tfolded\r\n\r\n", 0, 400},
    {"GET / HTTP/1.1\r\n A: b\r\n" H "\r\n", 0, 400},
    {"\r\nGET / HTTP/1.1\r\n" H "\r\n", 0, 400},
    /* The request line. */
    {"GET /\r\n", 0, 400},
    {"GET\r\n\r\n", 0, 400},
    {"GET  / HTTP/1.1\r\n" H "\r\n", 0, 400},
    {"GET /  HTTP/1.1\r\n" H "\r\n", 0, 400},
    {"GET / HTTP/1.1 \r\n" H "\r\n", 0, 400},
    {" GET / HTTP/1.1\r\n" H "\r\n", 0, 400},
    {"GET\t/\tHTTP/1.1\r\n" H "\r\n", 0, 400},
    {"GET /a b HTTP/1.1\r\n" H "\r\n", 0, 400},
    {"G(T / HTTP/1.1\r\n" H "\r\n", 0, 400},
    {"GET /\xc3\xa4 HTTP/1.1\r\n" H "\r\n", 0, 400},
    {"GET http://evil.test/ HTTP/1.1\r\n" H "\r\n", 0, 400},
    {"GET * HTTP/1.1\r\n" H "\r\n", 0, 400},
    {"CONNECT evil.test:443 HTTP/1.1\r\n" H "\r\n", 0, 400},
    {"GET / http/1.1\r\n" H "\r\n", 0, 400},
    {"GET / HTTP/1.2\r\n" H "\r\n", 0, 505},
    {"GET / HTTP/0.9\r\n" H "\r\n", 0, 505},
    {"GET / HTTP/2.0\r\n" H "\r\n", 0, 505},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0, 505},
    {"GET / HTTP/11.1\r\n" H "\r\n", 0, 400},
    {"\x16\x03\x01\x02\x01\x01", 0, 400}, /* TLS */
    /* Who is asked. */
    {"GET / HTTP/1.1\r\n\r\n", 0, 400},
    {"GET / HTTP/1.0\r\n\r\n", 0, 400},
    {"GET / HTTP/1.1\r\n" H H "\r\n", 0, 400},
/* Chunks. */
#define CHUNKED "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
    {CHUNKED "0x5\r\nhello\r\n0\r\n\r\n", 0, 400},
    {CHUNKED " 5\r\nhello\r\n0\r\n\r\n", 0, 400},
    {CHUNKED "5 \r\nhello\r\n0\r\n\r\n", 0, 400},
    {CHUNKED "+5\r\nhello\r\n0\r\n\r\n", 0, 400},
    {CHUNKED "-5\r\nhello\r\n0\r\n\r\n", 0, 400},
    {CHUNKED "\r\nhello\r\n0\r\n\r\n", 0, 400},
    {CHUNKED "00000000000000005\r\nhello\r\n0\r\n\r\n", 0, 400},
    {CHUNKED "ffffffffffffffff1\r\nhello\r\n0\r\n\r\n", 0, 400},
    {CHUNKED "5;a=b\r\nhello\r\n0\r\n\r\n", 0, 400},
    {CHUNKED "5;a\nb\r\nhello\r\n0\r\n\r\n", 0, 400},
    {CHUNKED "5\nhello\r\n0\r\n\r\n", 0, 400},
    {CHUNKED "5\r\nhelloX\r\n0\r\n\r\n", 0, 400},
    {CHUNKED "5\r\nhello0\r\n\r\n", 0, 400},
    {CHUNKED "5\r\nhello\n0\r\n\r\n", 0, 400},
    {CHUNKED "5\r\nhello\r\n0\r\nTrailer: x\r\n\r\n", 0, 400},
    {CHUNKED "5\r\nhello\r\n" CANARY, 0, 400}, /* no last chunk */
    {CHUNKED "5\r\nhello\r\n0\r\n" CANARY, 0, 400},
    {CHUNKED "ffffff\r\n", 0, 413},
};

static struct str bytes_of(size_t i)
{
    return bad[i].len > 0 ? str_n(bad[i].bytes, bad[i].len) : str_of(bad[i].bytes);
}

TEST(every_other_spelling_is_refused)
{
    for (size_t i = 0; i < countof(bad); i++) {
        struct strict strict = {.body_max = 1 << 20};
        size_t good;
        if (strict_feed(&strict, bytes_of(i), &good) || strict.status != bad[i].status)
            fail_msg("case %zu: got %d %s: %s", i, strict.status, strict.why, bad[i].bytes);
        CHECK_INT(good, 0);
        /* What follows stays unread for good. */
        CHECK(!strict_feed(&strict, STR(CANARY), &good));
        CHECK_INT(good, 0);
        strict_done(&strict);
    }
}

TEST(the_verdict_does_not_depend_on_how_bytes_arrive)
{
    for (size_t i = 0; i < countof(bad); i++) {
        struct strict strict = {.body_max = 1 << 20};
        struct str bytes = bytes_of(i);
        size_t good, at = 0;
        while (at < bytes.len && strict_feed(&strict, str_slice(bytes, at, at + 1), &good))
            at++;
        CHECK_INT(strict.status, bad[i].status);
        strict_done(&strict);
    }
}

TEST(plain_requests_pass_one_after_the_other)
{
    static const char *const sound[] = {
        "GET / HTTP/1.1\r\n" H "\r\n",
        "GET /a?b=c%20d HTTP/1.0\r\nhost:x\r\nA:\tb\t\r\nEmpty:\r\nHigh: \xc3\xa4\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\n" H "\r\n",
        "POST / HTTP/1.1\r\n" H "content-length: 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n",
        CHUNKED "5\r\nhello\r\n00a\r\n0123456789\r\n0\r\n\r\n",
        CHUNKED "0\r\n\r\n",
    };
    struct strict strict = {.body_max = 1 << 20};
    AUTO_BUF struct buf all = {0};
    size_t good;
    for (size_t i = 0; i < countof(sound); i++) {
        CHECK(strict_feed(&strict, str_of(sound[i]), &good));
        CHECK_INT(strict.state, STRICT_BETWEEN);
        buf_put_cstr(&all, sound[i]);
    }
    CHECK_INT(strict.requests, countof(sound));
    strict_done(&strict);

    struct strict byte_wise = {.body_max = 1 << 20};
    for (size_t i = 0; i < all.len; i++)
        CHECK(strict_feed(&byte_wise, str_n(all.ptr + i, 1), &good));
    CHECK_INT(byte_wise.requests, countof(sound));
    strict_done(&byte_wise);
}

TEST(sound_requests_before_a_bad_one_go_on)
{
    struct strict strict = {0};
    size_t good;
    CHECK(!strict_feed(&strict, STR(CANARY "GET  / HTTP/1.1\r\n"), &good));
    CHECK_INT(good, strlen(CANARY));
    strict_done(&strict);
}

static int status_of(const char *line, size_t repeat, const char *end)
{
    struct strict strict = {0};
    size_t good;
    bool passed = strict_feed(&strict, STR("GET / HTTP/1.1\r\n" H), &good);
    for (size_t i = 0; i < repeat && passed; i++)
        passed = strict_feed(&strict, str_of(line), &good);
    passed = passed && strict_feed(&strict, str_of(end), &good);
    strict_done(&strict);
    return passed ? 200 : strict.status;
}

TEST(sizes_are_bounded)
{
    CHECK_INT(status_of("A: b\r\n", STRICT_HEADERS_MAX - 1, "\r\n"), 200);
    CHECK_INT(status_of("A: b\r\n", STRICT_HEADERS_MAX, "\r\n"), 431);
    CHECK_INT(status_of("aaaaaaaa", STRICT_HEAD_MAX / 8, ""), 431);

    struct strict strict = {0};
    size_t good;
    CHECK(strict_feed(&strict, STR("GET /"), &good));
    for (size_t i = 0; i < STRICT_LINE_MAX && strict.status == 0; i++)
        if (!strict_feed(&strict, STR("a"), &good))
            break;
    CHECK_INT(strict.status, 414);
    strict_done(&strict);
}
