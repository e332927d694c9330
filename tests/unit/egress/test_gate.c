/* The gate against real servers: NET-05, NET-06, NET-07, NET-10 and NET-11 of the threat model. */

#include "gate_test.h"

#include <stdio.h>
#include <sys/resource.h>

static void check_allowed(struct stage *stage, const char *url, struct gate_request request)
{
    AUTO_OUTCOME struct outcome outcome = {0};
    stage_fetch(stage, url, request, &outcome);
    if (!outcome.has_answer)
        print_error("%s: %s\n", url, outcome.why.msg);
    CHECK(outcome.has_answer && outcome.status == 200);
}

static void check_refused(struct stage *stage, const char *url, struct gate_request request,
                          enum verdict_reason reason)
{
    AUTO_OUTCOME struct outcome outcome = {0};
    stage_fetch(stage, url, request, &outcome);
    if (outcome.has_answer || outcome.reason != reason)
        print_error("%s: %s instead of %s: %s\n", url, verdict_reason_name(outcome.reason),
                    verdict_reason_name(reason), outcome.why.msg);
    CHECK(!outcome.has_answer);
    CHECK_INT(outcome.reason, reason);
    CHECK(outcome.why.code != ERR_NONE && outcome.why.msg[0] != '\0');
}

static void check_failed(struct stage *stage, const char *url, struct gate_request request,
                         enum err_code code, const char *part)
{
    AUTO_OUTCOME struct outcome outcome = {0};
    stage_fetch(stage, url, request, &outcome);
    if (outcome.has_answer || outcome.why.code != code || strstr(outcome.why.msg, part) == NULL)
        print_error("%s: %s: %s\n", url, err_wire_name(outcome.why.code), outcome.why.msg);
    CHECK(!outcome.has_answer);
    CHECK_INT(outcome.why.code, code);
    CHECK(strstr(outcome.why.msg, part) != NULL);
}

static const struct gate_request plain = {0};

TEST(an_allowed_host_answers)
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage);
    AUTO_OUTCOME struct outcome outcome = {0};
    const struct fetch_header headers[] = {{STR("X-Mine"), STR("a b")}, {STR("X-Empty"), STR("")}};
    stage_fetch(&stage, "http://OK.test.:PORT/x/../y?q=1#f",
                (struct gate_request){.headers = headers, .header_count = 2}, &outcome);
    CHECK_INT(outcome.status, 200);
    CHECK_CSTR(buf_cstr(&outcome.status_text), "OK");
    const char *body = buf_cstr(&outcome.body);
    CHECK(str_starts(str_of(body), STR("GET /x/../y?q=1 HTTP/1.1\r\nHost: ok.test:")));
    CHECK(strstr(body, "\r\nX-Mine: a b\r\n") != NULL);
    CHECK(strstr(body, "\r\nX-Empty:\r\n") != NULL);
    CHECK(strstr(body, "\r\nAccept-Encoding: identity\r\n") != NULL);
    CHECK(strstr(body, "\r\nUser-Agent: sandglass/") != NULL);
    CHECK(strstr(buf_cstr(&outcome.headers), "x-served=yes\nx-twice=1\nx-twice=2\n") != NULL);
    CHECK(!outcome.is_redirected);
    CHECK_INT(net_server_hits(stage.ok), 1);
    CHECK_INT(stage.refusals, 0);
}

TEST(methods_and_bodies_arrive)
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage);
    static const char *const methods[] = {"POST", "PUT", "PATCH", "DELETE", "PROPFIND"};
    for (size_t i = 0; i < countof(methods); i++) {
        AUTO_BUF struct buf log = {0};
        check_allowed(&stage, "http://ok.test:PORT/",
                      (struct gate_request){.method = str_of(methods[i]), .body = STR("a\0b")});
        net_server_log(stage.ok, &log);
        CHECK(str_find(buf_str(&log), str_of(methods[i])) < log.len);
        CHECK(str_ends(buf_str(&log), STR("Content-Length: 3\r\n\r\na\0b")));
        CHECK(str_find(buf_str(&log), STR("Content-Type")) == log.len);
        CHECK(str_find(buf_str(&log), STR("Expect")) == log.len);
    }
    AUTO_OUTCOME struct outcome outcome = {0};
    stage_fetch(&stage, "http://ok.test:PORT/", (struct gate_request){.method = STR("HEAD")},
                &outcome);
    CHECK(outcome.status == 200 && outcome.body.len == 0);
    check_failed(&stage, "http://ok.test:PORT/", (struct gate_request){.body = STR("x")},
                 ERR_INVALID, "a GET request has no body");
}

TEST(another_host_is_refused_without_a_packet)
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage);
    check_refused(&stage, "http://evil.test:PORT/", plain, VERDICT_HOST);
    check_refused(&stage, "http://127.0.0.3:PORT/", plain, VERDICT_HOST);
    check_refused(&stage, "http://ok.test:1/", plain, VERDICT_PORT);
    check_refused(&stage, "http://ok.test:PORT@evil.test:PORT/", plain, VERDICT_URL_INVALID);
    CHECK_INT(net_dns_queries(stage.dns, "evil.test"), 0);
    CHECK_INT(net_server_hits(stage.evil) + net_server_hits(stage.ok), 0);
    CHECK_INT(stage.refusals, 3); /* of the last URL nothing can be told */
}

TEST(names_that_lead_to_private_addresses_are_refused) /* NET-05, NET-12 */
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage);
    static const char *const answers[] = {
        "169.254.169.254", "fd00:ec2::254", "10.0.0.1",  "172.16.0.1",
        "192.168.1.1",     "100.64.0.1",    "127.0.0.1", "0.0.0.0",
        "198.18.0.1",      "224.0.0.1",     "240.0.0.1", "fe80::1",
        "fc00::1",         "ff02::1",       "::1",       "::ffff:127.0.0.1"};
    for (size_t i = 0; i < countof(answers); i++) {
        net_dns_set(stage.dns, "ok.test", answers[i]);
        check_refused(&stage, "http://ok.test:PORT/", plain, VERDICT_ADDRESS);
    }
    CHECK_INT(net_server_hits(stage.private), 0);
    stage_set_policy(&stage, "allow ok.test:PORT; private ok.test=127.0.0.1:PORT");
    int asked = net_dns_queries(stage.dns, "ok.test");
    /* The operator's entry says where the name leads: no name server is asked. */
    check_allowed(&stage, "http://ok.test:PORT/", plain);
    CHECK_INT(net_dns_queries(stage.dns, "ok.test"), asked);
    CHECK_INT(net_server_hits(stage.private), 1);
    stage_set_policy(&stage, "allow localhost:PORT");
    check_refused(&stage, "http://localhost:PORT/", plain, VERDICT_ADDRESS);
    stage_set_policy(&stage, "allow localhost:PORT; private localhost=127.0.0.1:PORT");
    check_allowed(&stage, "http://localhost:PORT/", plain);
    CHECK_INT(net_server_hits(stage.private), 2);
}

TEST(rebinding_finds_no_second_answer) /* NET-06 */
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage);
    stage.options.resolve_ms = 3000;
    net_dns_set(stage.dns, "ok.test", "127.0.0.2|127.0.0.1");
    check_allowed(&stage, "http://ok.test:PORT/", plain);
    CHECK_INT(net_dns_queries(stage.dns, "ok.test"), 2); /* one A, one AAAA: resolved once */
    check_refused(&stage, "http://ok.test:PORT/", plain, VERDICT_ADDRESS);
    static const char *const mixed[] = {"127.0.0.2 127.0.0.1", "127.0.0.1 127.0.0.2",
                                        "127.0.0.2 ::1", "127.0.0.2 fd00::1"};
    for (size_t i = 0; i < countof(mixed); i++) {
        net_dns_set(stage.dns, "ok.test", mixed[i]);
        check_refused(&stage, "http://ok.test:PORT/", plain, VERDICT_ADDRESS);
    }
    net_dns_set(stage.dns, "priv.test", "127.0.0.1");
    net_dns_set(stage.dns, "ok.test", "cname:priv.test");
    check_refused(&stage, "http://ok.test:PORT/", plain, VERDICT_ADDRESS);
    net_dns_set(stage.dns, "ok.test", "silent");
    check_refused(&stage, "http://ok.test:PORT/", plain, VERDICT_NOT_RESOLVED);
    net_dns_set(stage.dns, "ok.test", "");
    check_refused(&stage, "http://ok.test:PORT/", plain, VERDICT_NOT_RESOLVED);
    stage_set_policy(&stage, "allow nowhere.test:PORT");
    check_refused(&stage, "http://nowhere.test:PORT/", plain, VERDICT_NOT_RESOLVED);
    CHECK_INT(net_server_hits(stage.private), 0);
    CHECK_INT(net_server_hits(stage.ok), 1);
}

TEST(the_next_address_is_tried_when_one_does_not_answer)
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage);
    ip_test_public("127.0.0.2/32 127.0.0.9/32");
    net_dns_set(stage.dns, "ok.test", "127.0.0.9 127.0.0.2");
    check_allowed(&stage, "http://ok.test:PORT/", plain);
    net_dns_set(stage.dns, "ok.test", "127.0.0.2 127.0.0.9");
    check_allowed(&stage, "http://ok.test:PORT/", plain);
    net_dns_set(stage.dns, "ok.test", "127.0.0.9");
    check_failed(&stage, "http://ok.test:PORT/", plain, ERR_UNAVAILABLE, "ok.test: ");
}

TEST(redirects_are_judged_again) /* NET-07 */
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage);
    const struct gate_request follow = {.redirect = GATE_REDIRECT_FOLLOW};
    static const char *const codes[] = {"301", "302", "303", "307", "308"};
    static const struct {
        const char *to;
        enum verdict_reason reason;
    } rows[] = {
        {"http://evil.test:PORT/", VERDICT_HOST},
        {"http://127.0.0.3:PORT/", VERDICT_HOST},
        {"http://169.254.169.254/", VERDICT_HOST},
        {"//evil.test:PORT/", VERDICT_HOST},
        {"file:///etc/passwd", VERDICT_SCHEME},
        {"gopher://ok.test/", VERDICT_SCHEME},
        {"http://ok.test@evil.test:PORT/", VERDICT_URL_INVALID},
        {"http://2130706433:PORT/", VERDICT_URL_INVALID},
    };
    for (size_t c = 0; c < countof(codes); c++) {
        for (size_t i = 0; i < countof(rows); i++) {
            AUTO_BUF struct buf url = {0};
            buf_printf(&url, "http://ok.test:PORT/redirect/%s/%s", codes[c], rows[i].to);
            check_refused(&stage, buf_cstr(&url), follow, rows[i].reason);
        }
    }
    check_refused(&stage, "http://ok.test:PORT/loop", follow, VERDICT_REDIRECT_LOOP);
    check_refused(&stage, "http://ok.test:PORT/to-backslash", follow, VERDICT_URL_INVALID);
    CHECK_INT(net_server_hits(stage.ok), 5 * 8 + 6 + 1);
    CHECK_INT(net_server_hits(stage.evil) + net_server_hits(stage.private), 0);
    CHECK_INT(net_dns_queries(stage.dns, "evil.test"), 0);
}

TEST(redirects_are_off_unless_asked_for)
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage);
    AUTO_OUTCOME struct outcome outcome = {0};
    stage_fetch(&stage, "http://ok.test:PORT/redirect/302//x", plain, &outcome);
    CHECK(outcome.status == 302 && !outcome.is_redirected);
    CHECK(strstr(buf_cstr(&outcome.headers), "location=/x\n") != NULL);
    check_refused(&stage, "http://ok.test:PORT/redirect/302//x",
                  (struct gate_request){.redirect = GATE_REDIRECT_ERROR}, VERDICT_REDIRECT);
    stage_fetch(&stage, "http://ok.test:PORT/redirect/302//x?y",
                (struct gate_request){.redirect = GATE_REDIRECT_FOLLOW}, &outcome);
    CHECK(outcome.status == 200 && outcome.is_redirected);
    CHECK(str_ends(buf_str(&outcome.url), STR("/x?y")));
}

TEST(credentials_stay_with_their_host)
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage);
    const struct fetch_header headers[] = {{STR("authorization"), STR("Bearer k")},
                                           {STR("COOKIE"), STR("c=1")},
                                           {STR("X-Other"), STR("o")},
                                           {STR("Content-Type"), STR("text/plain")}};
    struct gate_request request = {.headers = headers,
                                   .header_count = 4,
                                   .method = STR("POST"),
                                   .body = STR("data"),
                                   .redirect = GATE_REDIRECT_FOLLOW};
    AUTO_OUTCOME struct outcome outcome = {0};
    stage_fetch(&stage, "http://ok.test:PORT/redirect/307/http://ok2.test:PORT/x", request,
                &outcome);
    CHECK(strstr(buf_cstr(&outcome.body), "POST /x ") != NULL);
    CHECK(strstr(buf_cstr(&outcome.body), "X-Other: o") != NULL);
    CHECK(strstr(buf_cstr(&outcome.body), "Bearer") == NULL);
    CHECK(strstr(buf_cstr(&outcome.body), "c=1") == NULL);
    stage_fetch(&stage, "http://ok.test:PORT/redirect/307//x", request, &outcome);
    CHECK(strstr(buf_cstr(&outcome.body), "authorization: Bearer k") != NULL);
    stage_fetch(&stage, "http://ok.test:PORT/redirect/303//x", request, &outcome);
    CHECK(strncmp(buf_cstr(&outcome.body), "GET /x ", 7) == 0);
    CHECK(strstr(buf_cstr(&outcome.body), "Content-") == NULL);
}

static long resident_kb(void)
{
    struct rusage usage;
    CHECK_INT(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

TEST(hostile_answers_end_within_limits) /* NET-10 */
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage);
    static const struct {
        const char *path;
        enum err_code code;
        const char *part;
    } rows[] = {
        {"endless-headers", ERR_TOO_LARGE, "the answer"},
        {"endless-line", ERR_UNAVAILABLE, "ok.test: "},
        {"many-headers", ERR_TOO_LARGE, "more than 256 headers"},
        {"endless-body", ERR_TOO_LARGE, "body is larger than 4194304"},
        {"endless-1xx", ERR_TOO_LARGE, "head is larger"},
        {"big-length", ERR_TOO_LARGE, "ok.test: "},
        {"slow", ERR_TIMEOUT, "ok.test: "},
        {"gzip", ERR_UNAVAILABLE, "encoded as 'gzip'"},
        {"te-gzip", ERR_UNAVAILABLE, "transfer coding"},
        {"chunk-63", ERR_UNAVAILABLE, "ok.test: "},
        {"chunk-80", ERR_UNAVAILABLE, "ok.test: "},
        {"chunk-neg", ERR_UNAVAILABLE, "ok.test: "},
        {"two-lengths", ERR_UNAVAILABLE, "two Content-Length headers"},
        {"length-list", ERR_UNAVAILABLE, "ok.test: "},
        {"both", ERR_UNAVAILABLE, "both Content-Length and chunked"},
        {"short", ERR_UNAVAILABLE, "ok.test: "},
        {"folded", ERR_UNAVAILABLE, "over two lines"},
        {"garbage", ERR_UNAVAILABLE, "ok.test: "},
        {"http09", ERR_UNAVAILABLE, "ok.test: "},
        {"nothing", ERR_UNAVAILABLE, "ok.test: "},
        {"nul", ERR_UNAVAILABLE, "ok.test: "},
    };
    check_allowed(&stage, "http://ok.test:PORT/", plain);
    long before_kb = resident_kb();
    for (size_t i = 0; i < countof(rows); i++) {
        AUTO_BUF struct buf url = {0};
        buf_printf(&url, "http://ok.test:PORT/%s", rows[i].path);
        struct gate_request request = {.limits = {.slow_seconds = 1}};
        check_failed(&stage, buf_cstr(&url), request, rows[i].code, rows[i].part);
        check_allowed(&stage, "http://ok.test:PORT/", plain);
    }
#if !defined(__SANITIZE_ADDRESS__)
    CHECK(resident_kb() - before_kb <= 16 << 10);
#else
    (void)before_kb;
#endif
    check_failed(&stage, "https://ok.test:PORT/", plain, ERR_UNAVAILABLE, "ok.test: ");
}

TEST(unusual_answers_are_understood)
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage);
    AUTO_OUTCOME struct outcome outcome = {0};
    stage_fetch(&stage, "http://ok.test:PORT/trailers", plain, &outcome);
    CHECK_CSTR(buf_cstr(&outcome.body), "hi");
    CHECK(strstr(buf_cstr(&outcome.headers), "x-after") == NULL);
    stage_fetch(&stage, "http://ok.test:PORT/continue", plain, &outcome);
    CHECK_CSTR(buf_cstr(&outcome.status_text), "Fine");
    CHECK_CSTR(buf_cstr(&outcome.headers), "x=1\ncontent-length=2\n");
}

TEST(time_covers_the_whole_request)
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage);
    check_failed(&stage, "http://ok.test:PORT/slow",
                 (struct gate_request){.limits = {.total_ms = 200}}, ERR_TIMEOUT, "ok.test");
    net_dns_set(stage.dns, "ok.test", "silent");
    check_failed(&stage, "http://ok.test:PORT/", (struct gate_request){.limits = {.total_ms = 200}},
                 ERR_TIMEOUT, "ok.test");
}

TEST(requests_carry_no_second_request) /* NET-11, NET-09 */
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage);
    const struct fetch_header bad[] = {
        {STR("X\r\nY"), STR("1")},
        {STR("X\n"), STR("1")},
        {STR("X\0"), STR("1")},
        {STR("X:"), STR("1")},
        {STR("X Y"), STR("1")},
        {STR(""), STR("1")},
        {STR("X"), STR("1\r\nY: 2")},
        {STR("X"), STR("1\nY: 2")},
        {STR("X"), STR("1\r")},
        {STR("X"), STR("1\0")},
        {STR("X"), STR("\x7f")},
        {STR("Transfer-Encoding"), STR("chunked")},
        {STR("transfer-encoding"), STR("identity")},
        {STR("Content-Length"), STR("0")},
        {STR("Connection"), STR("close")},
        {STR("Keep-Alive"), STR("1")},
        {STR("Proxy-Authorization"), STR("Basic x")},
        {STR("PROXY-Anything"), STR("x")},
        {STR("Upgrade"), STR("websocket")},
        {STR("HTTP2-Settings"), STR("x")},
        {STR("TE"), STR("trailers")},
        {STR("Trailer"), STR("x")},
        {STR("Expect"), STR("100-continue")},
        {STR("Host"), STR("evil.test")},
        {STR("hOST"), STR("ok.test")},
    };
    for (size_t i = 0; i < countof(bad); i++)
        check_failed(&stage, "http://ok.test:PORT/",
                     (struct gate_request){.headers = &bad[i], .header_count = 1}, ERR_INVALID,
                     "header");
    static const struct str methods[] = {STR("GET / HTTP/1.1\r\nX:"),
                                         STR("G\0T"),
                                         STR(""),
                                         STR("GET "),
                                         STR("CONNECT"),
                                         STR("trace"),
                                         STR("ABCDEFGHIJKLMNOPQRSTUVWXYZ")};
    for (size_t i = 0; i < countof(methods); i++)
        check_failed(&stage, "http://ok.test:PORT/", (struct gate_request){.method = methods[i]},
                     ERR_INVALID, "method");
    static const char *const paths[] = {"a b", "a\r\nX: y", "a\tb", "a\n"};
    for (size_t i = 0; i < countof(paths); i++) {
        AUTO_BUF struct buf url = {0};
        buf_printf(&url, "http://ok.test:PORT/%s", paths[i]);
        check_refused(&stage, buf_cstr(&url), plain, VERDICT_URL_INVALID);
    }
    CHECK_INT(net_server_hits(stage.ok), 0);
    check_allowed(&stage, "http://ok.test:PORT/", plain);
    CHECK_INT(net_server_hits(stage.ok), 1);
}

TEST(certificates_are_checked_against_the_judged_host)
{
    AUTO_STAGE struct stage stage = {0};
    struct err err = {0};
    char cert[512], key[512];
    (void)snprintf(cert, sizeof cert, "%s/cert.pem", test_tmpdir());
    (void)snprintf(key, sizeof key, "%s/key.pem", test_tmpdir());
    net_make_cert("ok.test", cert, key);
    stage_open(&stage);
    net_server_set_tls(stage.ok, cert, key);
    check_failed(&stage, "https://ok.test:PORT/", plain, ERR_FORBIDDEN, "ok.test: ");
    stage.gate = gate_free(stage.gate);
    stage.options.ca_file = cert;
    CHECK_OK(gate_open(stage.loop, &stage.options, &stage.gate, &err));
    check_allowed(&stage, "https://ok.test:PORT/", plain);
    check_failed(&stage, "https://ok2.test:PORT/", plain, ERR_FORBIDDEN, "ok2.test: ");
    check_refused(&stage, "https://ok.test:PORT/redirect/302/http://ok.test:PORT/",
                  (struct gate_request){.redirect = GATE_REDIRECT_FOLLOW},
                  VERDICT_REDIRECT_DOWNGRADE);
    CHECK_INT(net_server_hits(stage.ok), 4);
}

TEST(the_environment_changes_nothing)
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage);
    AUTO_BUF struct buf proxy = {0};
    buf_printf(&proxy, "http://127.0.0.3:%d", stage.port);
    static const char *const names[] = {"http_proxy", "ALL_PROXY", "all_proxy"};
    for (size_t i = 0; i < countof(names); i++)
        CHECK_INT(setenv(names[i], buf_cstr(&proxy), 1), 0);
    check_allowed(&stage, "http://ok.test:PORT/", plain);
    for (size_t i = 0; i < countof(names); i++)
        CHECK_INT(unsetenv(names[i]), 0);
    CHECK_INT(net_server_hits(stage.evil), 0);
}

TEST(calls_can_be_dropped_at_any_time)
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage);
    AUTO_BUF struct buf url = {0};
    buf_printf(&url, "http://ok.test:%d/slow", stage.port);
    for (int steps = 0; steps < 60; steps++) {
        struct outcome outcome = {0};
        struct gate_request request = {
            .policy = stage.policy, .url = buf_str(&url), .method = STR("GET")};
        struct gate_call *call = gate_fetch(stage.gate, &request, NULL, &outcome);
        for (int i = 0; i < steps; i++)
            (void)loop_step(stage.loop);
        (void)gate_call_free(call);
    }
    check_allowed(&stage, "http://ok.test:PORT/", plain);
}
