/* The gateway's parsers: TLS hellos, SOCKS, DNS. */

#include "test.h"

#include "egress/gateway/dns.h"
#include "egress/gateway/hello.h"
#include "egress/gateway/names.h"
#include "egress/gateway/socks.h"
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

TEST(what_is_no_hello_is_refused_at_once)
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
