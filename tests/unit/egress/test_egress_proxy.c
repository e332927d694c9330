/* The egress against real servers: every channel of the proxy, and what strangers send. */

#include "gate_test.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "egress/gateway/egress_proxy.h"
#include "hello_make.h"
#include "io/listen.h"
#include "io/stream.h"

enum { PATIENCE_MS = 120000 };

struct house {
    struct stage stage;
    struct egress_proxy *egress;
    struct addr proxy, open;
    struct buf news; /* "host:port reason\n" */
};

static void on_blocked(void *ctx, const struct egress_proxy_event *event)
{
    struct house *house = ctx;
    buf_printf(&house->news, "%s %s:%d %s\n", egress_proxy_channel_name(event->channel),
               event->host, event->port, verdict_reason_name(event->verdict->reason));
}

static struct addr add_socket(struct house *house, enum egress_proxy_socket kind, const char *at)
{
    struct err err = {0};
    struct addr addr;
    CHECK_OK(addr_parse(str_of(at), &addr, &err));
    int fd = listen_open(&addr, 64, &err);
    CHECK(fd >= 0);
    CHECK_OK(egress_proxy_add(house->egress, kind, fd, &err));
    return addr;
}

static void house_open_with(struct house *house, struct egress_proxy_limits limits)
{
    struct err err = {0};
    stage_open(&house->stage);
    struct egress_proxy_options options = {.policy = house->stage.policy,
                                           .dns_servers = net_dns_address(house->stage.dns),
                                           .limits = limits,
                                           .on_blocked = on_blocked,
                                           .ctx = house};
    CHECK_OK(egress_proxy_open(house->stage.loop, &options, &house->egress, &err));
    house->proxy = add_socket(house, EGRESS_PROXY_PROXY, "127.0.0.1:0");
}

static void house_open(struct house *house)
{
    house_open_with(house, (struct egress_proxy_limits){0});
}

static void house_close(struct house *house)
{
    house->egress = egress_proxy_free(house->egress);
    buf_done(&house->news);
    stage_close(&house->stage);
}
#define AUTO_HOUSE AUTO(house_close)

/* A program in the sandbox. */
struct client {
    struct house *house;
    struct stream *stream;
    struct buf got;
    bool ended, was_reset;
};

static void on_data(void *ctx, struct buf *in)
{
    struct client *client = ctx;
    buf_put(&client->got, buf_str(in));
    buf_consume(in, in->len);
}

static void on_end(void *ctx, const struct err *why)
{
    struct client *client = ctx;
    client->ended = true;
    client->was_reset = why != NULL;
}

static void client_open(struct house *house, const struct addr *to, struct client *client)
{
    static const struct stream_calls calls = {.on_data = on_data, .on_end = on_end};
    struct err err = {0};
    int fd = socket(to->sa.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, &to->sa.any, to->len) == 0);
    client->house = house;
    CHECK_OK(stream_open(house->stage.loop, fd, &calls, client, &client->stream, &err));
}

static void client_close(struct client *client)
{
    client->stream = stream_free(client->stream);
    buf_done(&client->got);
    *client = (struct client){0};
}
#define AUTO_CLIENT AUTO(client_close)

static void say(struct client *client, struct str bytes)
{
    struct err err = {0};
    CHECK_OK(stream_write(client->stream, bytes, &err));
}

/* Text in which "PORT" stands for the stage's port. */
static void say_text(struct client *client, const char *text)
{
    AUTO_BUF struct buf full = {0};
    struct str rest = str_of(text);
    for (size_t at; (at = str_find(rest, STR("PORT"))) < rest.len;) {
        buf_printf(&full, "%.*s%d", (int)at, rest.ptr, client->house->stage.port);
        rest = str_slice(rest, at + 4, rest.len);
    }
    buf_put(&full, rest);
    say(client, buf_str(&full));
}

/* Runs the loop until the client has seen `text` or the end; "" for the end. */
static bool wait_for(struct client *client, const char *text)
{
    int64_t until = clock_now_ms() + PATIENCE_MS;
    while (clock_now_ms() < until) {
        bool has = str_find(buf_str(&client->got), str_of(text)) < client->got.len;
        if (client->ended || (text[0] != '\0' && has))
            return text[0] == '\0' || has;
        (void)loop_step(client->house->stage.loop);
        (void)usleep(500);
    }
    return false;
}

static bool has(const struct client *client, const char *text)
{
    bool found = strstr(buf_cstr(&client->got), text) != NULL;
    if (!found)
        print_error("no '%s' in:\n%s\n", text, buf_cstr(&client->got));
    return found;
}

static void exchange(struct house *house, const char *request, struct client *client)
{
    client_open(house, &house->proxy, client);
    say_text(client, request);
    CHECK(wait_for(client, ""));
}

TEST(a_request_in_absolute_form_is_passed_on)
{
    AUTO_HOUSE struct house house = {0};
    AUTO_CLIENT struct client client = {0};
    house_open(&house);
    exchange(&house,
             "POST http://OK.test.:PORT/x?q=1 HTTP/1.1\r\nHost: ok.test:PORT\r\nX-Mine: 1\r\n"
             "Proxy-Connection: keep-alive\r\nConnection: keep-alive\r\n"
             "Content-Length: 5\r\n\r\nhelloGET http://evil.test/ HTTP/1.1\r\n\r\n",
             &client);
    CHECK(has(&client, "HTTP/1.1 200 OK\r\n"));
    CHECK(has(&client, "\r\nConnection: close\r\n"));
    CHECK(has(&client, "POST /x?q=1 HTTP/1.1\r\nHost: ok.test:"));
    CHECK(has(&client, "\r\nX-Mine: 1\r\n"));
    CHECK(strstr(buf_cstr(&client.got), "Proxy-") == NULL);
    AUTO_BUF struct buf log = {0};
    net_server_log(house.stage.ok, &log);
    CHECK(strstr(buf_cstr(&log), "hello") != NULL);
    CHECK(strstr(buf_cstr(&log), "evil") == NULL);
    CHECK_INT(house.news.len, 0);
}

TEST(refusals_say_so_and_are_reported_once)
{
    AUTO_HOUSE struct house house = {0};
    house_open(&house);
    for (int i = 0; i < 2; i++) {
        AUTO_CLIENT struct client client = {0};
        exchange(&house, "GET http://evil.test:PORT/ HTTP/1.1\r\nHost: evil.test:PORT\r\n\r\n",
                 &client);
        CHECK(has(&client, "HTTP/1.1 403 Forbidden: blocked "));
        CHECK(has(&client, "X-Sandglass-Refused: host_not_allowed\r\n"));
        CHECK(has(&client, "the policy does not name this host"));
    }
    AUTO_CLIENT struct client client = {0};
    exchange(&house, "CONNECT evil.test:PORT HTTP/1.1\r\n\r\n", &client);
    CHECK(has(&client, "HTTP/1.1 403 Forbidden: blocked "));
    CHECK(strstr(buf_cstr(&house.news), "proxy evil.test:") != NULL);
    struct str rest = buf_str(&house.news), line;
    int lines = 0;
    while (str_split(&rest, '\n', &line))
        lines += line.len > 0;
    CHECK_INT(lines, 1);
    CHECK_INT(net_server_hits(house.stage.evil), 0);
    CHECK_INT(net_dns_queries(house.stage.dns, "evil.test"), 0);
    CHECK_INT(egress_proxy_stats(house.egress).blocked, 3);
}

TEST(bad_requests_get_an_answer)
{
    static const struct {
        const char *request, *answer;
    } rows[] = {
        {"GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n", "400 Bad Request"},
        {"GET http://ok.test:PORT/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", "host_mismatch"},
        {"GET https://ok.test:PORT/ HTTP/1.1\r\n\r\n", "scheme_not_allowed"},
        {"GET ftp://ok.test:PORT/ HTTP/1.1\r\n\r\n", "scheme_not_allowed"},
        {"GET http://ok.test:PORT@evil.test/ HTTP/1.1\r\nHost: ok.test:PORT\r\n\r\n",
         "url_invalid"},
        {"GET http://ok.test:PORT/ HTTP/1.1\nHost: x\r\n\r\n", "400 Bad Request"},
        {"nonsense\r\n\r\n", "400 Bad Request"},
        {"CONNECT ok.test HTTP/1.1\r\n\r\n", "host_invalid"},
        {"CONNECT ok.test:0 HTTP/1.1\r\n\r\n", "host_invalid"},
        {"CONNECT ok.test:70000 HTTP/1.1\r\n\r\n", "host_invalid"},
        {"CONNECT ok.test\\:443 HTTP/1.1\r\n\r\n", "host_invalid"},
        {"CONNECT ok.test:22 HTTP/1.1\r\n\r\n", "port_not_allowed"},
        {"CONNECT 2130706433:PORT HTTP/1.1\r\n\r\n", "host_invalid"},
        {"CONNECT 127.0.0.1:PORT HTTP/1.1\r\n\r\n", "host_not_allowed"},
        {"POST http://ok.test:PORT/ HTTP/1.1\r\nHost: ok.test:PORT\r\nContent-Length: "
         "1\r\nTransfer-Encoding: chunked"
         "\r\n\r\n",
         "400 Bad Request"},
    };
    AUTO_HOUSE struct house house = {0};
    house_open(&house);
    for (size_t i = 0; i < countof(rows); i++) {
        AUTO_CLIENT struct client client = {0};
        exchange(&house, rows[i].request, &client);
        CHECK(has(&client, rows[i].answer));
    }
    AUTO_BUF struct buf log = {0};
    net_server_log(house.stage.ok, &log); /* connected to, perhaps; not one byte was sent */
    CHECK_INT(log.len, 0);
    CHECK_INT(net_server_hits(house.stage.private), 0);
}

TEST(a_tunnel_carries_http_that_is_meant_for_its_host)
{
    AUTO_HOUSE struct house house = {0};
    house_open(&house);
    AUTO_CLIENT struct client good = {0}, bad = {0};
    client_open(&house, &house.proxy, &good);
    say_text(&good, "CONNECT ok.test:PORT HTTP/1.1\r\nHost: ok.test:PORT\r\n\r\n");
    CHECK(wait_for(&good, "200 Connection established\r\n\r\n"));
    say_text(&good, "GET /in HTTP/1.1\r\nHost: ok.test:PORT\r\n\r\n");
    CHECK(wait_for(&good, ""));
    CHECK(has(&good, "GET /in HTTP/1.1"));
    exchange(&house,
             "CONNECT ok.test:PORT HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test:PORT\r\n\r\n",
             &bad);
    CHECK(has(&bad, "host_mismatch"));
    AUTO_BUF struct buf log = {0};
    net_server_log(house.stage.ok, &log);
    CHECK(strstr(buf_cstr(&log), "evil") == NULL);
}

/* Sends a hello through a tunnel to ok.test and says whether the server saw it. */
static bool hello_arrives(struct house *house, const char *name, size_t piece, bool by_socks)
{
    AUTO_BUF struct buf hello = {0}, log = {0}, request = {0};
    AUTO_CLIENT struct client client = {0};
    hello_make(name, piece, &hello);
    client_open(house, &house->proxy, &client);
    if (by_socks) {
        say(&client, STR("\x05\x01\x00"));
        CHECK(wait_for(&client, "\x05"));
        buf_put(&request, STR("\x05\x01\x00\x03\x07ok.test"));
        hello_put_u16(&request, (size_t)house->stage.port);
        say(&client, buf_str(&request));
        while (client.got.len < 12 && !client.ended)
            (void)loop_step(house->stage.loop);
        CHECK_INT(client.got.ptr[3], 0);
    } else {
        say_text(&client, "CONNECT ok.test:PORT HTTP/1.1\r\n\r\n");
        CHECK(wait_for(&client, "\r\n\r\n"));
    }
    for (size_t at = 0; at < hello.len; at += hello.len / 3) {
        say(&client, str_slice(buf_str(&hello), at, at + hello.len / 3));
        for (int i = 0; i < 20; i++) {
            (void)loop_step(house->stage.loop);
            (void)usleep(200);
        }
        if (client.ended)
            break;
    }
    /* One that does not arrive ends the tunnel. One that does is no HTTP: the server logs it, then
     * ends the tunnel too, so its log is read once more after the end. */
    bool arrives = false, was_ended = false;
    for (int64_t until = clock_now_ms() + PATIENCE_MS;
         !arrives && !was_ended && clock_now_ms() < until;) {
        was_ended = client.ended;
        if (!was_ended)
            (void)loop_step(house->stage.loop);
        net_server_log(house->stage.ok, &log);
        arrives = str_find(buf_str(&log), STR("0123456789abcdef")) < log.len;
    }
    return arrives;
}

TEST(a_tls_tunnel_must_name_its_host)
{
    static const struct {
        const char *name;
        bool arrives;
    } rows[] = {
        {"evil.test", false}, {NULL, false}, {"ok.test.evil.test", false}, {"ok.test", true}};
    for (size_t i = 0; i < countof(rows); i++) {
        AUTO_HOUSE struct house house = {0};
        house_open(&house);
        CHECK_INT(hello_arrives(&house, rows[i].name, i == 3 ? 60 : 16384, i % 2 != 0),
                  rows[i].arrives);
        CHECK_INT(strstr(buf_cstr(&house.news), "server_name_mismatch") == NULL, rows[i].arrives);
    }
}

TEST(socks_refuses_with_its_own_code)
{
    AUTO_HOUSE struct house house = {0};
    AUTO_CLIENT struct client client = {0};
    house_open(&house);
    client_open(&house, &house.proxy, &client);
    say(&client, STR("\x05\x01\x00\x05\x01\x00\x03\x09"
                     "evil.test\x01\xbb"));
    CHECK(wait_for(&client, ""));
    CHECK(client.got.len == 12 && client.got.ptr[3] == 2);
    CHECK_CSTR(buf_cstr(&house.news), "socks evil.test:443 host_not_allowed\n");
}

TEST(rules_for_methods_and_paths_hold_inside_tunnels)
{
    AUTO_HOUSE struct house house = {0};
    house_open(&house);
    stage_set_policy(&house.stage, "allow ok.test:PORT GET /v1/");
    egress_proxy_set_policy(house.egress, house.stage.policy);
    static const struct {
        const char *request, *answer;
    } rows[] = {
        {"GET http://ok.test:PORT/v1/x HTTP/1.1\r\nHost: ok.test:PORT\r\n\r\n", "200 OK"},
        {"PUT http://ok.test:PORT/v1/x HTTP/1.1\r\nHost: ok.test:PORT\r\n\r\n",
         "method_not_allowed"},
        {"GET http://ok.test:PORT/v2 HTTP/1.1\r\nHost: ok.test:PORT\r\n\r\n", "path_not_allowed"},
        {"CONNECT ok.test:PORT HTTP/1.1\r\n\r\nGET /v1/x HTTP/1.1\r\nHost: ok.test:PORT\r\n\r\n",
         "200 OK"},
        {"CONNECT ok.test:PORT HTTP/1.1\r\n\r\nGET /v2 HTTP/1.1\r\nHost: ok.test:PORT\r\n\r\n",
         "path_not_allowed"},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        AUTO_CLIENT struct client client = {0};
        exchange(&house, rows[i].request, &client);
        CHECK(has(&client, rows[i].answer));
    }
    CHECK(!hello_arrives(&house, "ok.test", 16384, false)); /* nobody could look into it */
}

TEST(a_captured_connection_is_judged_by_its_address)
{
    AUTO_HOUSE struct house house = {0};
    AUTO_CLIENT struct client client = {0};
    house_open(&house);
    struct addr open = add_socket(&house, EGRESS_PROXY_OPEN, "127.0.0.1:0");
    client_open(&house, &open, &client);
    say_text(&client, "GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n");
    CHECK(wait_for(&client, ""));
    CHECK(has(&client, "403 Forbidden"));
    CHECK(has(&client, "host_not_allowed"));
    CHECK(strstr(buf_cstr(&house.news), "capture 127.0.0.1:") != NULL);
}

TEST(hostile_answers_end_within_limits)
{
    static const char *const targets[] = {
        "/endless-headers", "/endless-line", "/many-headers", "/endless-1xx", "/two-lengths",
        "/length-list",     "/both",         "/te-gzip",      "/folded",      "/garbage",
        "/http09",          "/nothing",      "/nul",
    };
    AUTO_HOUSE struct house house = {0};
    house_open(&house);
    for (size_t i = 0; i < countof(targets); i++) {
        AUTO_CLIENT struct client client = {0};
        AUTO_BUF struct buf request = {0};
        buf_printf(&request, "GET http://ok.test:PORT%s HTTP/1.1\r\nHost: ok.test:PORT\r\n\r\n",
                   targets[i]);
        exchange(&house, buf_cstr(&request), &client);
        if (strstr(buf_cstr(&client.got), "HTTP/1.1 502 Bad Gateway") == NULL)
            print_error("%s\n", targets[i]);
        CHECK(has(&client, "HTTP/1.1 502 Bad Gateway"));
        CHECK(client.got.len < 4096);
    }
    static const char *const cut[] = {"/chunk-63", "/chunk-80", "/chunk-neg", "/short"};
    for (size_t i = 0; i < countof(cut); i++) {
        AUTO_CLIENT struct client client = {0};
        AUTO_BUF struct buf request = {0};
        buf_printf(&request, "GET http://ok.test:PORT%s HTTP/1.1\r\nHost: ok.test:PORT\r\n\r\n",
                   cut[i]);
        exchange(&house, buf_cstr(&request), &client); /* what arrives is visibly no whole answer */
    }
}

TEST(a_name_that_leads_inside_is_refused)
{
    static const char *const inside[] = {
        "127.0.0.1",  "10.0.0.1", "169.254.169.254", "100.64.0.1", "127.0.0.2 127.0.0.1",
        "198.18.0.1", "::1",      "fd00:ec2::254"};
    AUTO_HOUSE struct house house = {0};
    house_open(&house);
    for (size_t i = 0; i < countof(inside); i++) {
        AUTO_CLIENT struct client plain = {0}, tunnel = {0};
        net_dns_set(house.stage.dns, "ok.test", inside[i]);
        exchange(&house, "GET http://ok.test:PORT/ HTTP/1.1\r\nHost: ok.test:PORT\r\n\r\n", &plain);
        CHECK(has(&plain, "address_not_public"));
        exchange(&house, "CONNECT ok.test:PORT HTTP/1.1\r\n\r\n", &tunnel);
        CHECK(has(&tunnel, "address_not_public"));
    }
    CHECK_INT(net_server_hits(house.stage.private) + net_server_hits(house.stage.ok), 0);
}

TEST(a_change_of_policy_holds_at_once)
{
    AUTO_HOUSE struct house house = {0};
    AUTO_CLIENT struct client open = {0}, later = {0};
    house_open(&house);
    client_open(&house, &house.proxy, &open);
    say_text(&open, "CONNECT ok.test:PORT HTTP/1.1\r\n\r\n");
    CHECK(wait_for(&open, "\r\n\r\n"));
    stage_set_policy(&house.stage, "allow evil.test:PORT");
    egress_proxy_set_policy(house.egress, house.stage.policy);
    CHECK(wait_for(&open, ""));
    CHECK(open.ended);
    exchange(&house, "GET http://evil.test:PORT/ HTTP/1.1\r\nHost: evil.test:PORT\r\n\r\n", &later);
    CHECK(has(&later, "200 OK"));
}

TEST(limits_on_connections_bytes_and_time)
{
    AUTO_HOUSE struct house house = {0};
    AUTO_CLIENT struct client first = {0}, second = {0}, third = {0};
    house_open_with(&house, (struct egress_proxy_limits){
                                .connections = 1, .bytes_total = 60000, .head_ms = 300});
    client_open(&house, &house.proxy, &first);
    client_open(&house, &house.proxy, &second);
    say_text(&second, "GET http://ok.test:PORT/ HTTP/1.1\r\nHost: ok.test:PORT\r\n\r\n");
    CHECK(wait_for(&first, "")); /* said nothing in time */
    CHECK(first.ended && egress_proxy_stats(house.egress).accepted >= 1);
    CHECK(wait_for(&second, "")); /* and made room */
    CHECK(has(&second, "200 OK"));
    exchange(&house, "GET http://ok.test:PORT/endless-body HTTP/1.1\r\nHost: ok.test:PORT\r\n\r\n",
             &third);
    CHECK(third.got.len < 400000); /* what was under way may still arrive */
}

TEST(a_rate_slows_down_and_nothing_is_lost)
{
    AUTO_HOUSE struct house house = {0};
    AUTO_CLIENT struct client client = {0};
    house_open_with(&house, (struct egress_proxy_limits){.bytes_per_second = 400000});
    AUTO_BUF struct buf request = {0};
    buf_put_cstr(&request, "POST http://ok.test:PORT/ HTTP/1.1\r\nHost: "
                           "ok.test:PORT\r\nContent-Length: 200000\r\n\r\n");
    for (int i = 0; i < 20000; i++)
        buf_put_cstr(&request, "0123456789");
    exchange(&house, buf_cstr(&request), &client);
    CHECK(has(&client, "200 OK"));
    struct egress_proxy_stats stats = egress_proxy_stats(house.egress);
    CHECK(stats.sent >= 200000 && stats.received > 0);
}

TEST(nothing_is_left_behind)
{
    int before = test_open_fds();
    {
        AUTO_HOUSE struct house house = {0};
        AUTO_CLIENT struct client open = {0}, dialling = {0}, quiet = {0};
        house_open(&house);
        net_dns_set(house.stage.dns, "ok2.test", "silent");
        client_open(&house, &house.proxy, &open);
        say_text(&open, "CONNECT ok.test:PORT HTTP/1.1\r\n\r\n");
        CHECK(wait_for(&open, "\r\n\r\n"));
        client_open(&house, &house.proxy, &dialling);
        say_text(&dialling, "CONNECT ok2.test:PORT HTTP/1.1\r\n\r\n");
        client_open(&house, &house.proxy, &quiet);
        for (int i = 0; i < 20; i++)
            (void)loop_step(house.stage.loop);
        CHECK_INT(egress_proxy_stats(house.egress).connections, 3);
    }
    CHECK_INT(test_open_fds(), before);
}
