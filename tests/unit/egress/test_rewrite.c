#include "test.h"

#include "base/buf.h"
#include "egress/keys/rewrite.h"
#include "egress/keys/secrets.h"

static const char value[] = "cnry_0123456789abcdef";

struct stage {
    struct secrets *secrets;
    struct rewrite_options options;
    struct rewrite *rewrite;
    size_t step; /* bytes fed at once */
    struct buf waiting;
    struct buf to_server, to_client; /* all that was sent */
};

static void put_filled(const struct stage *stage, const char *text, struct buf *out)
{
    for (struct str rest = str_of(text); rest.len > 0;) {
        size_t used = 1;
        if (str_starts(rest, STR("{PH}"))) {
            buf_put_cstr(out, secrets_at(stage->secrets, 0)->placeholder);
            used = 4;
        } else if (str_starts(rest, STR("{VALUE}"))) {
            buf_put_cstr(out, value);
            used = 7;
        } else {
            buf_put_char(out, rest.ptr[0]);
        }
        rest = str_slice(rest, used, rest.len);
    }
}

static void stage_open(struct stage *stage, const char *host)
{
    struct err err = {0};
    struct secret_rule rule;
    stage->secrets = secrets_new();
    CHECK_OK(secret_rule_parse(STR("KEY=env:K@ok.test"), &rule, &err));
    CHECK_OK(secrets_add(stage->secrets, &rule, str_of(value), &err));
    stage->options =
        (struct rewrite_options){.secrets = stage->secrets, .port = 443, .is_https = true};
    CHECK_OK(host_parse(str_of(host), &stage->options.host, &err));
    if (stage->step == 0)
        stage->step = 1000000;
}

static void stage_close(struct stage *stage)
{
    stage->rewrite = rewrite_free(stage->rewrite);
    stage->secrets = secrets_free(stage->secrets);
    buf_done(&stage->waiting);
    buf_done(&stage->to_server);
    buf_done(&stage->to_client);
}
#define AUTO_STAGE AUTO(stage_close)

static void collect(struct stage *stage)
{
    struct buf *server = rewrite_to_server(stage->rewrite);
    struct buf *client = rewrite_to_client(stage->rewrite);
    buf_put(&stage->to_server, buf_str(server));
    buf_consume(server, server->len);
    buf_put(&stage->to_client, buf_str(client));
    buf_consume(client, client->len);
}

static void offer(struct stage *stage)
{
    while (stage->waiting.len > 0) {
        struct str piece = str_slice(buf_str(&stage->waiting), 0, stage->step);
        size_t used = rewrite_from_client(stage->rewrite, piece);
        collect(stage);
        buf_consume(&stage->waiting, used);
        if (used < piece.len)
            return;
    }
}

static void client_says(struct stage *stage, const char *text)
{
    if (stage->rewrite == NULL)
        stage->rewrite = rewrite_new(&stage->options);
    put_filled(stage, text, &stage->waiting);
    offer(stage);
}

static void server_bytes(struct stage *stage, struct str bytes)
{
    for (size_t at = 0; at < bytes.len; at += stage->step) {
        rewrite_from_server(stage->rewrite, str_slice(bytes, at, at + stage->step));
        collect(stage);
    }
    offer(stage);
}

static void server_says(struct stage *stage, const char *text)
{
    AUTO_BUF struct buf full = {0};
    put_filled(stage, text, &full);
    server_bytes(stage, buf_str(&full));
}

static void server_ends(struct stage *stage, bool in_order)
{
    rewrite_server_ended(stage->rewrite, in_order);
    collect(stage);
}

static void check(const struct stage *stage, const struct buf *got, const char *text)
{
    AUTO_BUF struct buf expected = {0};
    put_filled(stage, text, &expected);
    CHECK_STR(buf_str(got), buf_cstr(&expected));
}

static bool holds(const struct buf *got, const char *text)
{
    return str_find(buf_str(got), str_of(text)) < got->len;
}

#define ANSWER_OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

static const size_t steps[] = {1, 2, 7, 1000000};
#define EACH_STEP(stage, host)                                                                     \
    for (size_t step_at = 0; step_at < countof(steps); step_at++)                                  \
        for (AUTO_STAGE struct stage stage = {.step = steps[step_at]}; stage.secrets == NULL;)     \
            for (stage_open(&stage, host); stage.options.port != 0; stage.options.port = 0)

TEST(a_placeholder_becomes_the_value_and_the_echo_the_placeholder)
{
    EACH_STEP(stage, "ok.test")
    {
        client_says(&stage, "POST /v1/x?q={PH} HTTP/1.1\r\nHost: OK.test:443\r\n"
                            "Authorization: Bearer {PH}\r\nUser-Agent: {PH}\r\nX-Api-Key: {PH}\r\n"
                            "Accept-Encoding: gzip, br\r\nConnection: keep-alive\r\n"
                            "Content-Length: 36\r\nProxy-Authorization: x\r\n\r\n{PH}");
        check(&stage, &stage.to_server,
              "POST /v1/x?q={PH} HTTP/1.1\r\nHost: ok.test\r\n"
              "Authorization: Bearer {VALUE}\r\nUser-Agent: {PH}\r\nX-Api-Key: {VALUE}\r\n"
              "Content-Length: 36\r\nAccept-Encoding: identity\r\n\r\n{PH}");
        server_says(&stage, "HTTP/1.1 401 Not {VALUE}\r\nX-Echo: a {VALUE} b\r\nAlt-Svc: h3\r\n"
                            "Content-Length: 25\r\nConnection: keep-alive\r\n\r\n"
                            "<<{VALUE}>>");
        check(&stage, &stage.to_client,
              "HTTP/1.1 401 Not {PH}\r\nX-Echo: a {PH} b\r\n"
              "Content-Length: 40\r\n\r\n<<{PH}>>");
        CHECK(!rewrite_is_over(stage.rewrite) && rewrite_is_idle(stage.rewrite));
        CHECK_CSTR(rewrite_why(stage.rewrite), "");
    }
}

TEST(nothing_is_substituted_for_another_host_or_without_tls)
{
    const char *request = "GET / HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer {PH}\r\n\r\n";
    for (int plain = 0; plain < 2; plain++) {
        AUTO_STAGE struct stage stage = {0};
        AUTO_BUF struct buf text = {0};
        stage_open(&stage, plain == 0 ? "ok2.test" : "ok.test");
        stage.options.is_https = plain == 0;
        stage.options.port = plain == 0 ? 443 : 80;
        AUTO_BUF struct buf pattern = {0};
        buf_put_cstr(&pattern, request);
        size_t at = str_find(buf_str(&pattern), STR("%s"));
        buf_put(&text, str_slice(buf_str(&pattern), 0, at));
        buf_put_cstr(&text, stage.options.host.text);
        buf_put(&text, str_slice(buf_str(&pattern), at + 2, pattern.len));
        client_says(&stage, buf_cstr(&text));
        check(&stage, &stage.to_server, buf_cstr(&text));
    }
}

TEST(requests_follow_each_other_and_may_be_pipelined)
{
    EACH_STEP(stage, "ok.test")
    {
        client_says(&stage,
                    "GET /1 HTTP/1.1\r\nHost: ok.test\r\n\r\n"
                    "POST /2 HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "3\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n"
                    "HEAD /3 HTTP/1.1\r\nHost: ok.test\r\n\r\n");
        CHECK(!holds(&stage.to_server, "/2"));
        server_says(&stage, ANSWER_OK);
        CHECK(holds(&stage.to_server, "POST /2 HTTP/1.1\r\n"));
        CHECK(str_ends(buf_str(&stage.to_server), STR("\r\n0\r\n\r\n")));
        CHECK(!holds(&stage.to_server, "/3"));
        server_says(&stage, "HTTP/1.1 204 None\r\n\r\n");
        CHECK(holds(&stage.to_server, "HEAD /3 HTTP/1.1\r\n"));
        server_says(&stage, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
        check(&stage, &stage.to_client,
              "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
              "HTTP/1.1 204 None\r\n\r\n"
              "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
        CHECK(rewrite_is_idle(stage.rewrite));
        server_ends(&stage, true);
        CHECK(rewrite_is_over(stage.rewrite) && !rewrite_is_cut(stage.rewrite));
    }
}

/* Everything that two readers could understand in two ways. */
TEST(what_could_be_read_in_two_ways_is_refused)
{
    static const struct {
        const char *text, *status;
    } rows[] = {
        {"\r\nGET / HTTP/1.1\r\nHost: ok.test\r\n\r\n", "400"},
        {"GET / HTTP/1.1\nHost: ok.test\n\n", "400"},
        {"GET / HTTP/1.1\r\nHost: ok.test\n\r\n", "400"},
        {"GET / HTTP/1.1\r\nHost: ok.test\r\n X: folded\r\n\r\n", "400"},
        {"GET / HTTP/1.1\r\nHost: ok.test\r\nX : y\r\n\r\n", "400"},
        {"GET / HTTP/1.1\r\nHost: ok.test\r\nX\r\n\r\n", "400"},
        {"GET / HTTP/1.1\r\nHost: ok.test\r\nX: a\001b\r\n\r\n", "400"},
        {"GET / HTTP/1.1\r\nHost: ok.test\r\nX: a\rb\r\n\r\n", "400"},
        {"GET  / HTTP/1.1\r\nHost: ok.test\r\n\r\n", "400"},
        {"GET / HTTP/1.1 \r\nHost: ok.test\r\n\r\n", "400"},
        {"GET / HTTP/1.1 x\r\nHost: ok.test\r\n\r\n", "400"},
        {"GET /\r\nHost: ok.test\r\n\r\n", "400"},
        {"G@T / HTTP/1.1\r\nHost: ok.test\r\n\r\n", "400"},
        {"GET / HTTP/2.0\r\nHost: ok.test\r\n\r\n", "505"},
        {"GET / FTP\r\nHost: ok.test\r\n\r\n", "400"},
        {"GET x HTTP/1.1\r\nHost: ok.test\r\n\r\n", "400"},
        {"GET /#x HTTP/1.1\r\nHost: ok.test\r\n\r\n", "400"},
        {"GET / HTTP/1.1\r\n\r\n", "400"},
        {"GET / HTTP/1.1\r\nHost: ok.test\r\nHost: ok.test\r\n\r\n", "400"},
        {"GET / HTTP/1.1\r\nHost: ok.test@evil.test\r\n\r\n", "400"},
        {"GET / HTTP/1.1\r\nHost: ok.test:x\r\n\r\n", "400"},
        {"GET / HTTP/1.1\r\nHost:\r\n\r\n", "400"},
        {"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "403"},
        {"GET / HTTP/1.1\r\nHost: sub.ok.test\r\n\r\n", "403"},
        {"GET / HTTP/1.1\r\nHost: ok.test:8443\r\n\r\n", "403"},
        {"GET https://evil.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n", "403"},
        {"GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n", "403"},
        {"GET https://ok.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", "403"},
        {"CONNECT ok.test:443 HTTP/1.1\r\nHost: ok.test\r\n\r\n", "405"},
        {"TRACE / HTTP/1.1\r\nHost: ok.test\r\n\r\n", "405"},
        {"POST / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 3\r\n"
         "Transfer-Encoding: chunked\r\n\r\nabc",
         "400"},
        {"POST / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
         "400"},
        {"POST / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 3, 3\r\n\r\nabc", "400"},
        {"POST / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: +3\r\n\r\nabc", "400"},
        {"POST / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: -3\r\n\r\nabc", "400"},
        {"POST / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 0x3\r\n\r\nabc", "400"},
        {"POST / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 99999999999999999999\r\n\r\n", "400"},
        {"POST / HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "400"},
        {"POST / HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: identity\r\n\r\n", "400"},
        {"POST / HTTP/1.0\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\n\r\n", "400"},
        {"POST / HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n",
         "400"},
        {"POST / HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n", "400"},
        {"POST / HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n",
         "400"},
        {"POST / HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", "400"},
        {"POST / HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\n\r\n"
         "10000000000000000\r\n",
         "400"},
        {"POST / HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n",
         "400"},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        EACH_STEP(stage, "ok.test")
        {
            client_says(&stage, rows[i].text);
            CHECK(rewrite_is_over(stage.rewrite) && !rewrite_is_cut(stage.rewrite));
            CHECK(str_eq(str_slice(buf_str(&stage.to_client), 9, 12), str_of(rows[i].status)));
            CHECK(holds(&stage.to_client, "{\"code\":\""));
            CHECK(holds(&stage.to_client, "Connection: close\r\n"));
            CHECK(rewrite_why(stage.rewrite)[0] != '\0');
            /* Nobody listens any more. */
            size_t before = stage.to_server.len;
            client_says(&stage, "GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n");
            CHECK_INT(stage.to_server.len, before);
        }
    }
}

TEST(heads_have_limits)
{
    AUTO_STAGE struct stage long_head = {0}, many = {0};
    AUTO_BUF struct buf text = {0};
    stage_open(&long_head, "ok.test");
    buf_put_cstr(&text, "GET / HTTP/1.1\r\nHost: ok.test\r\nX: ");
    for (int i = 0; i < REWRITE_HEAD_MAX; i++)
        buf_put_char(&text, 'x');
    client_says(&long_head, buf_cstr(&text));
    CHECK(str_starts(buf_str(&long_head.to_client), STR("HTTP/1.1 431 ")));

    stage_open(&many, "ok.test");
    buf_clear(&text);
    buf_put_cstr(&text, "GET / HTTP/1.1\r\nHost: ok.test\r\n");
    for (int i = 0; i < REWRITE_REQUEST_FIELDS_MAX; i++)
        buf_printf(&text, "X-%d: y\r\n", i);
    buf_put_cstr(&text, "\r\n");
    client_says(&many, buf_cstr(&text));
    CHECK(str_starts(buf_str(&many.to_client), STR("HTTP/1.1 431 ")));
}

static struct verdict judge(void *ctx, struct str method, struct str path)
{
    const struct policy *policy = ctx;
    struct host host;
    struct err err = {0};
    CHECK_OK(host_parse(STR("ok.test"), &host, &err));
    struct verdict_request request = {
        .scheme = "https", .host = &host, .port = 443, .method = method, .path = path};
    return verdict_judge(policy, &request);
}

TEST(each_request_is_judged_by_method_and_path)
{
    struct err err = {0};
    AUTO_POLICY struct policy *policy = NULL;
    CHECK_OK(policy_parse(STR("allow ok.test GET /v1/"), POLICY_BY_OPERATOR, &policy, &err));
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage, "ok.test");
    stage.options.judge = judge;
    stage.options.ctx = policy;
    client_says(&stage, "GET /v1/a?b=/v2/ HTTP/1.1\r\nHost: ok.test\r\n\r\n");
    server_says(&stage, ANSWER_OK);
    CHECK(!rewrite_is_over(stage.rewrite));
    size_t before = stage.to_server.len;
    client_says(&stage, "POST /v1/a HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 1\r\n\r\nx");
    CHECK(rewrite_is_over(stage.rewrite));
    CHECK_INT(stage.to_server.len, before);
    CHECK(holds(&stage.to_client, "HTTP/1.1 403 Forbidden: "));
    CHECK(holds(&stage.to_client, "\"method_not_allowed\""));
    CHECK(holds(&stage.to_client, "X-Sandglass-Refused: method_not_allowed\r\n"));

    AUTO_STAGE struct stage other = {0};
    stage_open(&other, "ok.test");
    other.options.judge = judge;
    other.options.ctx = policy;
    client_says(&other, "GET /v2 HTTP/1.1\r\nHost: ok.test\r\n\r\n");
    CHECK(holds(&other.to_client, "path_not_allowed"));
}

/* SEC-06: in body, header and error page, in chunks of one byte. */
TEST(chunked_echoes_are_scrubbed_across_chunks)
{
    EACH_STEP(stage, "ok.test")
    {
        AUTO_BUF struct buf answer = {0};
        client_says(&stage,
                    "GET / HTTP/1.1\r\nHost: ok.test\r\nAuthorization: Bearer {PH}\r\n\r\n");
        buf_put_cstr(&answer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        for (const char *c = value; *c != '\0'; c++)
            buf_printf(&answer, "1;ext=1\r\n%c\r\n", *c);
        buf_put_cstr(&answer, "0\r\nX-Trailer: {VALUE}\r\n\r\n");
        server_says(&stage, buf_cstr(&answer));
        CHECK(holds(&stage.to_client, secrets_at(stage.secrets, 0)->placeholder));
        CHECK(!holds(&stage.to_client, "cnry"));
        CHECK(!holds(&stage.to_client, "X-Trailer"));
        CHECK(str_ends(buf_str(&stage.to_client), STR("0\r\n\r\n")));
        CHECK(rewrite_is_idle(stage.rewrite));
    }
}

TEST(long_bodies_are_chunked_when_scrubbed_and_kept_when_not)
{
    enum { SIZE = REWRITE_BUFFERED + 100 };
    for (int bound = 0; bound < 2; bound++) {
        AUTO_STAGE struct stage stage = {.step = 5000};
        AUTO_BUF struct buf answer = {0};
        stage_open(&stage, bound ? "ok.test" : "ok2.test");
        AUTO_BUF struct buf request = {0};
        buf_printf(&request, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", stage.options.host.text);
        client_says(&stage, buf_cstr(&request));
        buf_printf(&answer, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", SIZE);
        for (int i = 0; i < SIZE; i++)
            buf_put_char(&answer, 'x');
        server_bytes(&stage, buf_str(&answer));
        CHECK(holds(&stage.to_client, "Content-Length") == (bound == 0));
        CHECK(holds(&stage.to_client, "Transfer-Encoding: chunked") == (bound == 1));
        CHECK(stage.to_client.len > SIZE);
        CHECK(rewrite_is_idle(stage.rewrite));
    }
}

TEST(old_clients_get_bodies_until_the_close)
{
    EACH_STEP(stage, "ok.test")
    {
        client_says(&stage, "GET / HTTP/1.0\r\n\r\n");
        check(&stage, &stage.to_server,
              "GET / HTTP/1.1\r\nHost: ok.test\r\n"
              "Accept-Encoding: identity\r\nConnection: close\r\n\r\n");
        server_says(&stage, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                            "5\r\nhello\r\n0\r\n\r\n");
        check(&stage, &stage.to_client, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello");
        CHECK(rewrite_is_over(stage.rewrite) && !rewrite_is_cut(stage.rewrite));
    }
}

TEST(a_body_until_the_close_ends_in_order_or_is_cut)
{
    for (int in_order = 0; in_order < 2; in_order++) {
        AUTO_STAGE struct stage stage = {0};
        stage_open(&stage, "ok.test");
        client_says(&stage, "GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n");
        server_says(&stage, "HTTP/1.0 200 OK\r\n\r\nhello {VALUE} c");
        server_ends(&stage, in_order == 1);
        CHECK(rewrite_is_over(stage.rewrite));
        CHECK(rewrite_is_cut(stage.rewrite) == (in_order == 0));
        CHECK(!holds(&stage.to_client, value));
        CHECK(str_ends(buf_str(&stage.to_client), STR("0\r\n\r\n")) == (in_order == 1));
    }
}

/* NET-10: an answer that is not one gives a 502, or an end that shows. */
TEST(answers_that_are_none_are_refused)
{
    static const char *const rows[] = {
        "SSH-2.0-x\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 200 OK\nX: y\n\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
        "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    };
    for (size_t i = 0; i < countof(rows); i++) {
        EACH_STEP(stage, "ok.test")
        {
            client_says(&stage, "GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n");
            server_says(&stage, rows[i]);
            CHECK(rewrite_is_over(stage.rewrite));
            CHECK(str_starts(buf_str(&stage.to_client), STR("HTTP/1.1 502 Bad Gateway: ")));
            CHECK(holds(&stage.to_client, "\"answer_"));
        }
    }
    AUTO_STAGE struct stage chunks = {0};
    stage_open(&chunks, "ok.test");
    client_says(&chunks, "GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n");
    server_says(&chunks, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n"
                         "8000000000000000\r\n");
    CHECK(rewrite_is_cut(chunks.rewrite));
}

TEST(answers_have_a_size_where_one_is_set)
{
    static const struct {
        const char *answer;
        bool passes;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n12345678", true},
        {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123456789", false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n4\r\n1234\r\n0\r\n\r\n",
         true},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: "
         "chunked\r\n\r\n4\r\n1234\r\n5\r\n12345\r\n0\r\n\r\n",
         false},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct err err;
        struct rewrite_options options = {.port = 443, .is_https = true, .answer_max = 8};
        CHECK_OK(host_parse(STR("ok.test"), &options.host, &err));
        AUTO_REWRITE struct rewrite *rewrite = rewrite_new(&options);
        (void)rewrite_from_client(rewrite, STR("GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n"));
        rewrite_from_server(rewrite, str_of(rows[i].answer));
        CHECK(rewrite_is_over(rewrite) == !rows[i].passes);
        bool told = strstr(buf_cstr(rewrite_to_client(rewrite)), "answer_too_large") != NULL;
        CHECK(told || rewrite_is_cut(rewrite) == !rows[i].passes);
    }
}

TEST(interim_answers_pass_and_end)
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage, "ok.test");
    client_says(&stage, "PUT / HTTP/1.1\r\nHost: ok.test\r\nExpect: 100-continue\r\n"
                        "Content-Length: 3\r\n\r\n");
    CHECK(holds(&stage.to_server, "Expect: 100-continue\r\n"));
    server_says(&stage, "HTTP/1.1 100 Continue\r\n\r\n");
    check(&stage, &stage.to_client, "HTTP/1.1 100 Continue\r\n\r\n");
    client_says(&stage, "abc");
    server_says(&stage, "HTTP/1.1 103 Early Hints\r\nLink: {VALUE}\r\n\r\n" ANSWER_OK);
    CHECK(holds(&stage.to_client, "HTTP/1.1 103 Early Hints\r\nLink: sgs_"));
    CHECK(rewrite_is_idle(stage.rewrite));

    client_says(&stage, "GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n");
    for (int i = 0; i <= REWRITE_INTERIM_MAX; i++)
        server_says(&stage, "HTTP/1.1 102 Processing\r\n\r\n");
    CHECK(rewrite_is_over(stage.rewrite));
}

TEST(an_answer_before_the_request_is_through_closes)
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage, "ok.test");
    client_says(&stage, "PUT / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 300\r\n\r\nabc");
    server_says(&stage, "HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno");
    check(&stage, &stage.to_client,
          "HTTP/1.1 413 No\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno");
    CHECK(rewrite_is_over(stage.rewrite));
}

TEST(a_websocket_passes_with_values_masked)
{
    EACH_STEP(stage, "ok.test")
    {
        client_says(&stage, "GET /ws HTTP/1.1\r\nHost: ok.test\r\nConnection: Upgrade\r\n"
                            "Upgrade: websocket\r\nSec-WebSocket-Key: x\r\n"
                            "Sec-WebSocket-Extensions: permessage-deflate\r\n"
                            "Authorization: Bearer {PH}\r\n\r\n");
        check(&stage, &stage.to_server,
              "GET /ws HTTP/1.1\r\nHost: ok.test\r\nSec-WebSocket-Key: x\r\n"
              "Authorization: Bearer {VALUE}\r\nAccept-Encoding: identity\r\n"
              "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        server_says(&stage, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                            "Connection: Upgrade\r\nSec-WebSocket-Accept: y\r\n\r\n");
        CHECK(rewrite_is_passing(stage.rewrite));
        buf_clear(&stage.to_client), buf_clear(&stage.to_server);
        client_says(&stage, "\x81\x85mask{PH}");
        check(&stage, &stage.to_server, "\x81\x85mask{PH}");
        /* The last letter may be the value's first: the message is still sent as a whole. */
        server_says(&stage, "\x81\x03xxc\x81\x19<<{VALUE}>>");
        CHECK_INT(stage.to_client.len, 5 + 2 + 25);
        CHECK(str_starts(buf_str(&stage.to_client), STR("\x81\x03xxc\x81\x19<<sgs_")));
        CHECK(!holds(&stage.to_client, value));
        server_ends(&stage, true);
        CHECK(rewrite_is_over(stage.rewrite) && !rewrite_is_cut(stage.rewrite));
    }
}

TEST(a_websocket_frame_that_is_packed_ends_it)
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage, "ok.test");
    client_says(&stage, "GET /ws HTTP/1.1\r\nHost: ok.test\r\nConnection: upgrade\r\n"
                        "Upgrade: WebSocket\r\n\r\n");
    server_says(&stage, "HTTP/1.1 101 Switching Protocols\r\n\r\n\xc1\x02xy");
    CHECK(rewrite_is_over(stage.rewrite) && rewrite_is_cut(stage.rewrite));
}

TEST(other_upgrades_are_not_asked_for)
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage, "ok.test");
    client_says(&stage, "GET / HTTP/1.1\r\nHost: ok.test\r\nConnection: Upgrade, HTTP2-Settings\r\n"
                        "Upgrade: h2c\r\nHTTP2-Settings: AAA\r\n\r\n");
    check(&stage, &stage.to_server,
          "GET / HTTP/1.1\r\nHost: ok.test\r\nAccept-Encoding: identity\r\n\r\n");
}

TEST(a_proxy_request_in_absolute_form_is_written_in_the_plain_one)
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage, "ok.test");
    stage.options.is_https = false;
    stage.options.port = 8080;
    stage.options.is_single = true;
    client_says(&stage, "GET http://ok.test:8080/a?b HTTP/1.1\r\nHost: ok.test:8080\r\n"
                        "Proxy-Connection: keep-alive\r\n\r\n");
    check(&stage, &stage.to_server,
          "GET /a?b HTTP/1.1\r\nHost: ok.test:8080\r\nConnection: close\r\n\r\n");
    server_says(&stage, ANSWER_OK);
    check(&stage, &stage.to_client,
          "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi");
    CHECK(rewrite_is_over(stage.rewrite));
}

TEST(the_caller_can_fail_a_request)
{
    AUTO_STAGE struct stage stage = {0}, idle = {0};
    stage_open(&stage, "ok.test");
    client_says(&stage, "GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n");
    rewrite_fail(stage.rewrite, 504, "timeout", "ok.test: no answer in time");
    collect(&stage);
    CHECK(str_starts(buf_str(&stage.to_client), STR("HTTP/1.1 504 Gateway Timeout: ")));
    CHECK(rewrite_is_over(stage.rewrite));

    stage_open(&idle, "ok.test");
    client_says(&idle, "");
    rewrite_fail(idle.rewrite, 504, "timeout", "too long idle");
    collect(&idle);
    CHECK_INT(idle.to_client.len, 0);
    CHECK(rewrite_is_over(idle.rewrite));
}

TEST(bytes_that_nobody_asked_for_end_the_conversation)
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage, "ok.test");
    client_says(&stage, "GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n");
    server_says(&stage, ANSWER_OK "HTTP/1.1 200 OK\r\n\r\n");
    CHECK(rewrite_is_over(stage.rewrite));
    check(&stage, &stage.to_client, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
}
