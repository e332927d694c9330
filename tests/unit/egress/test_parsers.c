/* The gateway's parsers: TLS hellos, SOCKS, DNS, HTTP heads and bodies. */

#include "test.h"

#include "egress/dns.h"
#include "egress/hello.h"
#include "egress/http_head.h"
#include "egress/names.h"
#include "egress/socks.h"
#include "hello_make.h"

TEST(a_hello_names_its_server)
{
    static const size_t pieces[] = {1, 7, 40, 16384};
    for (size_t i = 0; i < countof(pieces); i++) {
        AUTO_BUF struct buf bytes = {0};
        struct hello hello = {0};
        hello_make("ok.test", pieces[i], &bytes);
        for (size_t len = 0; len < bytes.len; len++)
            CHECK_INT(hello_read(str_n(bytes.ptr, len), &hello), HELLO_MORE);
        CHECK_INT(hello_read(buf_str(&bytes), &hello), HELLO_DONE);
        CHECK(hello.has_name);
        CHECK_STR(hello.name, "ok.test");
        buf_put_cstr(&bytes, "\x14\x03\x03 and early data");
        CHECK_INT(hello_read(buf_str(&bytes), &hello), HELLO_DONE);
    }
}

TEST(a_hello_may_name_nobody)
{
    AUTO_BUF struct buf bytes = {0};
    struct hello hello = {0};
    hello_make(NULL, 16384, &bytes);
    CHECK_INT(hello_read(buf_str(&bytes), &hello), HELLO_DONE);
    CHECK(!hello.has_name);
}

TEST(what_is_no_hello_is_told_at_once)
{
    struct hello hello = {0};
    CHECK_INT(hello_read(STR("G"), &hello), HELLO_BAD);
    CHECK_INT(hello_read(STR("\x16\x02"), &hello), HELLO_BAD);
    CHECK_INT(hello_read(STR("\x16\x03\x01\x00\x00"), &hello), HELLO_BAD);
    CHECK_INT(hello_read(STR("\x16\x03\x01\x00\x01\x02"), &hello), HELLO_BAD);
    CHECK_INT(hello_read(STR(""), &hello), HELLO_MORE);
}

TEST(socks_greetings_and_requests)
{
    unsigned char method = 9;
    struct host host = {0};
    uint16_t port = 0;
    enum socks_reply reply = SOCKS_OK;
    struct err err = {0};
    CHECK_INT(socks_read_greeting(STR("\x05\x02\x02"), &method), 0);
    CHECK_INT(socks_read_greeting(STR("\x05\x02\x02\x00rest"), &method), 4);
    CHECK_INT(method, 0);
    CHECK_INT(socks_read_greeting(STR("\x05\x01\x02"), &method), 3);
    CHECK_INT(method, 0xff);
    CHECK_INT(socks_read_greeting(STR("\x04\x01"), &method), 2);
    CHECK_INT(method, 0xff);

    struct str name = STR("\x05\x01\x00\x03\x07OK.test\x01\xbb");
    for (size_t len = 0; len < name.len; len++)
        CHECK_INT(socks_read_request(str_n(name.ptr, len), &host, &port, &reply, &err), 0);
    CHECK_INT(socks_read_request(name, &host, &port, &reply, &err), name.len);
    CHECK_INT(reply, SOCKS_OK);
    CHECK_CSTR(host.text, "ok.test");
    CHECK_INT(port, 443);
    CHECK_INT(socks_read_request(STR("\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50"), &host, &port,
                                 &reply, &err),
              10);
    CHECK_CSTR(host.text, "127.0.0.1");
    CHECK(host_is_ip(&host));
    (void)socks_read_request(STR("\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x50"),
                             &host, &port, &reply, &err);
    CHECK_CSTR(host.text, "[::1]");
    (void)socks_read_request(STR("\x05\x01\x00\x03\x0aok.test\0.x\x01\xbb"), &host, &port, &reply,
                             &err);
    CHECK_INT(reply, SOCKS_NOT_ALLOWED);
    (void)socks_read_request(STR("\x05\x03\x00\x01\x7f\x00\x00\x01\x00\x50"), &host, &port, &reply,
                             &err);
    CHECK_INT(reply, SOCKS_NO_COMMAND);
    (void)socks_read_request(STR("\x05\x01\x00\x09\x7f\x00"), &host, &port, &reply, &err);
    CHECK_INT(reply, SOCKS_NO_ADDRESS_TYPE);
}

static const char question[] = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
                               "\x02Ok\x04test\x00\x00\x01\x00\x01";

TEST(dns_questions_and_answers)
{
    struct dns_query query = {0};
    AUTO_BUF struct buf out = {0};
    CHECK(dns_read(str_n(question, sizeof question - 1), &query));
    CHECK_INT(query.code, DNS_OK);
    CHECK(query.is_host);
    CHECK_CSTR(query.host.text, "ok.test");
    CHECK_INT(query.type, DNS_A);
    struct ip address = {.version = 4, .bytes = {198, 18, 0, 1}};
    dns_put_answer(&query, DNS_OK, &address, NULL, &out);
    CHECK(str_eq(buf_str(&out),
                 STR("\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00\x02Ok\x04test\x00\x00\x01"
                     "\x00\x01\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x1e\x00\x04\xc6\x12\x00\x01")));
    buf_clear(&out);
    dns_put_answer(&query, DNS_NO_NAME, NULL, "no", &out);
    CHECK_INT(out.ptr[3] & 0xf, DNS_NO_NAME);
}

TEST(dns_packets_that_are_no_questions)
{
    struct dns_query query = {0};
    char bytes[sizeof question];
    memcpy(bytes, question, sizeof bytes);
    CHECK(!dns_read(str_n(bytes, 11), &query));
    bytes[2] = (char)0x81; /* an answer */
    CHECK(!dns_read(str_n(bytes, sizeof bytes - 1), &query));
    bytes[2] = 0x11; /* another operation */
    CHECK(dns_read(str_n(bytes, sizeof bytes - 1), &query));
    CHECK_INT(query.code, DNS_NOT_IMPLEMENTED);
    memcpy(bytes, question, sizeof bytes);
    CHECK(dns_read(str_n(bytes, sizeof bytes - 4), &query));
    CHECK_INT(query.code, DNS_BAD_FORMAT);
    bytes[13] = '.'; /* a dot inside a label */
    CHECK(dns_read(str_n(bytes, sizeof bytes - 1), &query));
    CHECK(!query.is_host);
    bytes[12] = (char)0xc0; /* a pointer */
    CHECK(dns_read(str_n(bytes, sizeof bytes - 1), &query));
    CHECK_INT(query.code, DNS_BAD_FORMAT);
}

TEST(names_have_addresses)
{
    struct names names = {0};
    struct host host;
    struct ip first, second, again;
    bool is_new;
    struct err err = {0};
    CHECK_OK(host_parse(STR("a.test"), &host, &err));
    CHECK(names_address(&names, &host, &first, &is_new) && is_new);
    CHECK_OK(host_parse(STR("b.test"), &host, &err));
    CHECK(names_address(&names, &host, &second, &is_new) && is_new);
    CHECK(names_address(&names, &host, &again, &is_new) && !is_new);
    CHECK(ip_eq(&second, &again) && !ip_eq(&first, &second));
    CHECK_CSTR(names_find(&names, &first)->host.text, "a.test");
    first.bytes[3] = 9;
    CHECK(names_find(&names, &first) == NULL);
    CHECK(!ip_is_public(&second));
    names_done(&names);
}

static int request(const char *text, struct http_head *head, struct err *err)
{
    return http_read_request(str_of(text), head, err);
}

TEST(http_requests_are_read_strictly)
{
    struct http_head head;
    struct err err = {0};
    CHECK_OK(
        request("POST http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n", &head, &err));
    CHECK_STR(head.method, "POST");
    CHECK_STR(head.target, "http://a/");
    CHECK_INT(head.framing, HTTP_LENGTH);
    static const char *const bad[] = {
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/2.0\r\n\r\n",
        "GET  / HTTP/1.1\r\n\r\n",
        "GET / x HTTP/1.1\r\n\r\n",
        "G(T / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\nX: a\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nX: a\x01\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: +3\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 3, 3\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: -0\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
    };
    for (size_t i = 0; i < countof(bad); i++) {
        if (request(bad[i], &head, &err) == 0)
            print_error("taken: number %zu\n", i);
        CHECK_ERR(request(bad[i], &head, &err), ERR_INVALID);
    }
}

TEST(hop_fields_are_known)
{
    struct http_head head;
    struct err err = {0};
    CHECK_OK(request("GET / HTTP/1.1\r\nConnection: close, X-Mine\r\nX-Mine: 1\r\nX: 2\r\n\r\n",
                     &head, &err));
    CHECK(http_is_hop_field(&head, STR("x-mine")));
    CHECK(http_is_hop_field(&head, STR("Proxy-Authorization")));
    CHECK(!http_is_hop_field(&head, STR("X")));
    CHECK_OK(request("GET / HTTP/1.1\r\nConnection: Host, Content-Length\r\n\r\n", &head, &err));
    CHECK(!http_is_hop_field(&head, STR("content-length")));
}

/* What http_body_take makes of the text in pieces of `piece` bytes: the bytes used, -1 when bad. */
static int64_t body_len(const char *text, size_t piece, const struct http_head *head, bool *done)
{
    struct http_body body;
    struct err err = {0};
    struct str rest = str_of(text);
    int64_t total = 0;
    http_body_begin(&body, head);
    while (rest.len > 0 && !body.is_done) {
        size_t used = 0;
        if (http_body_take(&body, str_slice(rest, 0, piece), &used, &err) < 0)
            return -1;
        total += (int64_t)used;
        rest = str_slice(rest, used, rest.len);
    }
    *done = body.is_done;
    return total;
}

TEST(bodies_end_where_their_framing_says)
{
    const struct http_head chunked = {.framing = HTTP_CHUNKED};
    const struct http_head length = {.framing = HTTP_LENGTH, .length = 5};
    const struct http_head open = {.framing = HTTP_UNTIL_END};
    static const char chunks[] = "3;x=y\r\nabc\r\n0A\r\n0123456789\r\n0\r\nT: 1\r\n\r\nGET / ";
    bool done = false;
    for (size_t piece = 1; piece < 20; piece++) {
        CHECK_INT(body_len(chunks, piece, &chunked, &done), sizeof chunks - 1 - 6);
        CHECK(done);
        CHECK_INT(body_len("abcdefgh", piece, &length, &done), 5);
        CHECK(done);
        CHECK_INT(body_len("abcdefgh", piece, &open, &done), 8);
        CHECK(!done);
    }
    static const char *const bad[] = {
        "x\r\n",  "3\nabc",          "3\r\nabcd\r\n",          "-1\r\n", "\r\n", ";x\r\n",
        "3 \r\n", "0\r\nX: 1\n\r\n", "ffffffffffffffffff\r\n", "0x3\r\n"};
    for (size_t i = 0; i < countof(bad); i++)
        CHECK_INT(body_len(bad[i], 100, &chunked, &done), -1);
}
