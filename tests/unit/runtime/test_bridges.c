/* api.fetch and api.getWeather against servers of the test's own; location hints; the page made
 * from the table. */

#include "net.h"
#include "test.h"

#include <fcntl.h>

#include "base/fd.h"
#include "base/format/json.h"
#include "egress/gate/gate.h"
#include "io/loop.h"
#include "runtime/bridges.h"

static const char forecast[] =
    "{\"latitude\":52.52,\"longitude\":13.419998,\"generationtime_ms\":0.06,"
    "\"utc_offset_seconds\":3600,\"timezone\":\"Europe/Berlin\",\"timezone_abbreviation\":\"CET\","
    "\"elevation\":38.0,\"current_units\":{\"time\":\"iso8601\",\"interval\":\"seconds\","
    "\"temperature_2m\":\"\xc2\xb0"
    "C\"},\"current\":{\"time\":\"2026-11-15T10:00\",\"interval\":900,\"temperature_2m\":7.3},"
    "\"hourly_units\":{\"time\":\"iso8601\",\"temperature_2m\":\"\xc2\xb0"
    "C\"},\"hourly\":{\"time\":[\"2026-11-15T00:00\",\"2026-11-15T01:00\"],"
    "\"temperature_2m\":[5.1,4.9]},\"daily_units\":{\"time\":\"iso8601\",\"sunrise\":\"iso8601\","
    "\"sunset\":\"iso8601\"},\"daily\":{\"time\":[\"2026-11-15\"],\"sunrise\":[\"2026-11-15T07:"
    "31\"],"
    "\"sunset\":[\"2026-11-15T16:10\"]}}";

struct stage {
    struct loop *loop;
    struct net_dns *dns;
    struct net_server *server;
    struct gate_options options;
    struct bridge_set *set;
    struct services services;
    const char *status, *body; /* of the server's answers */
    int port;
    bool is_settled, is_ok;
    struct buf answer;
};

static void serve(int fd, struct str head, UNUSED struct str body, void *ctx)
{
    const struct stage *stage = ctx;
    if (stage->body != NULL)
        net_answer(fd, stage->status, "Content-Type: application/json\r\n", str_of(stage->body));
    else if (str_starts(head, STR("GET /binary ")))
        net_answer(fd, "200 OK", "", STR("\xff\xfe\0"));
    else
        net_answer(fd, "201 Made Up", "X-A: 1\r\nX-A: 2\r\nSet-Cookie: c\r\n", head);
}

static void stage_open(struct stage *stage)
{
    struct err err = {0};
#ifdef SG_FAULTS
    ip_test_public("127.0.0.2/32");
#else
    SKIP("loopback counts as public only in -Dfaults=true builds");
#endif
    stage->status = "200 OK";
    CHECK_OK(loop_open(&stage->loop, &err));
    stage->dns = net_dns_start();
    stage->server = net_server_start("127.0.0.2", 0, serve, stage);
    stage->port = net_server_port(stage->server);
    net_dns_set(stage->dns, "ok.test", "127.0.0.2");
    net_dns_set(stage->dns, "lan.test", "127.0.0.1");
    stage->options.dns_servers = net_dns_address(stage->dns);
    CHECK_OK(gate_open(stage->loop, &stage->options, &stage->services.gate, &err));
    CHECK_OK(bridge_set_new(bridges, &stage->set, &err));
}

static void stage_close(struct stage *stage)
{
    services_done(&stage->services);
    (void)policy_free(stage->services.policy);
    (void)gate_free(stage->services.gate);
    (void)bridge_set_free(stage->set);
    (void)loop_free(stage->loop);
    (void)net_server_free(stage->server);
    (void)net_dns_free(stage->dns);
    buf_done(&stage->answer);
}
#define AUTO_STAGE AUTO(stage_close)

static void set_weather(struct stage *stage, const char *host, const char *path)
{
    struct err err = {0};
    AUTO_BUF struct buf url = {0};
    buf_printf(&url, "http://%s:%d%s", host, stage->port, path);
    CHECK_OK(services_set_weather(&stage->services, buf_cstr(&url), NULL, &err));
}

static void on_settled(void *ctx, bool is_ok, struct str json)
{
    struct stage *stage = ctx;
    stage->is_settled = true;
    stage->is_ok = is_ok;
    buf_put(&stage->answer, json);
}

/* Gives the answer's text; for a refused call the message. "PORT" stands for the server's port. */
static const char *call(struct stage *stage, const char *name, const char *args)
{
    struct err err = {0};
    AUTO_BUF struct buf full = {0};
    struct bridge_call *running = NULL;
    const char *port = strstr(args, "PORT");
    buf_clear(&stage->answer);
    stage->is_settled = stage->is_ok = false;
    if (port == NULL)
        buf_put_cstr(&full, args);
    else
        buf_printf(&full, "%.*s%d%s", (int)(port - args), args, stage->port, port + 4);
    if (bridge_call_start(stage->set, stage->loop, &stage->services, str_of(name), buf_str(&full),
                          20000, on_settled, stage, &running, &err) < 0) {
        buf_put_cstr(&stage->answer, err.msg);
        return buf_cstr(&stage->answer);
    }
    loop_run(stage->loop);
    CHECK(stage->is_settled);
    (void)bridge_call_free(running);
    return buf_cstr(&stage->answer);
}

static void check_call(struct stage *stage, const char *name, const char *args, const char *part)
{
    const char *answer = call(stage, name, args);
    if (strstr(answer, part) == NULL)
        print_error("%s%s: %s\n", name, args, answer);
    CHECK(strstr(answer, part) != NULL);
}

TEST(weather_comes_in_open_meteos_shape)
{
    AUTO_STAGE struct stage stage = {.body = forecast};
    struct err err = {0};
    AUTO_JSON struct json_t *answer = NULL;
    double degrees = 0;
    struct str sunset = {0};
    stage_open(&stage);
    set_weather(&stage, "ok.test", "/base/");
    (void)call(&stage, "getWeather", "[{\"latitude\":52.52,\"longitude\":-13.41}]");
    CHECK(stage.is_ok);
    CHECK_OK(json_parse(buf_str(&stage.answer), &answer, &err));
    CHECK(json_to_f64(json_get(json_get(answer, "current"), "temperature_2m"), &degrees));
    CHECK(degrees > 7.2 && degrees < 7.4);
    CHECK(json_to_str(json_at(json_get(json_get(answer, "daily"), "sunset"), 0), &sunset));
    CHECK_STR(sunset, "2026-11-15T16:10");
    AUTO_BUF struct buf log = {0};
    net_server_log(stage.server, &log);
    CHECK(str_starts(buf_str(&log),
                     STR("GET /base/v1/forecast?latitude=52.5200&longitude=-13.4100&"
                         "current=temperature_2m&hourly=temperature_2m&daily=sunrise,sunset&"
                         "timezone=auto HTTP/1.1\r\n")));
}

TEST(weather_needs_a_place)
{
    AUTO_STAGE struct stage stage = {.body = forecast};
    stage_open(&stage);
    set_weather(&stage, "ok.test", "");
    check_call(&stage, "getWeather", "[{\"latitude\":123,\"longitude\":0}]",
               "api.getWeather: latitude must be a number from -90 to 90, got 123");
    check_call(&stage, "getWeather", "[{\"latitude\":1,\"longitude\":-180.5}]",
               "api.getWeather: longitude must be a number from -180 to 180, got -180.5");
    check_call(&stage, "getWeather", "[{\"latitude\":\"1\",\"longitude\":1}]",
               "api.getWeather: latitude must be a number from -90 to 90, got \"1\"");
    check_call(&stage, "getWeather", "[{\"latitude\":1}]",
               "api.getWeather: longitude is missing; it must be a number from -180 to 180");
    check_call(&stage, "getWeather", "[{\"lat\":1}]", "api.getWeather: unknown property \"lat\"");
    check_call(&stage, "getWeather", "[\"Berlin\"]",
               "api.getWeather: place must be an object, got \"Berlin\"");
    check_call(&stage, "getWeather", "[]",
               "needs {latitude, longitude}: the request has no location hints");
    CHECK_INT(net_server_hits(stage.server), 0);
    struct err err = {0};
    CHECK_OK(hints_set(&stage.services.hints, STR("latitude"), STR("-1.5"), &err));
    CHECK_OK(hints_set(&stage.services.hints, STR("longitude"), STR("2"), &err));
    check_call(&stage, "getWeather", "[]", "Europe/Berlin");
    AUTO_BUF struct buf log = {0};
    net_server_log(stage.server, &log);
    CHECK(str_find(buf_str(&log), STR("latitude=-1.5000&longitude=2.0000")) < log.len);
}

TEST(weather_services_that_fail_are_named)
{
    AUTO_STAGE struct stage stage = {.body = "{\"error\":true,\"reason\":\"Too many requests\"}"};
    static const char place[] = "[{\"latitude\":1,\"longitude\":1}]";
    stage_open(&stage);
    check_call(&stage, "getWeather", place, "no weather service is configured");
    set_weather(&stage, "ok.test", "");
    stage.status = "429 No";
    check_call(&stage, "getWeather", place, "the weather service answered: Too many requests");
    stage.body = "<html>";
    check_call(&stage, "getWeather", place, "answered with status 429");
    stage.status = "200 OK";
    check_call(&stage, "getWeather", place, "is not a forecast");
    stage.body = "{\"current\":{}}";
    check_call(&stage, "getWeather", place, "is not a forecast");
    set_weather(&stage, "nowhere.test", "");
    check_call(&stage, "getWeather", place, "no such name");
}

TEST(a_private_weather_service_is_the_operators_word)
{
    AUTO_STAGE struct stage stage = {.body = forecast};
    static const char place[] = "[{\"latitude\":1,\"longitude\":1}]";
    struct err err = {0};
    stage_open(&stage);
    AUTO_SERVER struct net_server *lan = net_server_start("127.0.0.1", stage.port, serve, &stage);
    set_weather(&stage, "lan.test", "");
    check_call(&stage, "getWeather", place, "an address that is not public");
    CHECK_INT(net_server_hits(lan), 0);
    set_weather(&stage, "127.0.0.1", "");
    check_call(&stage, "getWeather", place, "Europe/Berlin");
    AUTO_BUF struct buf url = {0}, private = {0};
    buf_printf(&url, "http://lan.test:%d", stage.port);
    buf_printf(&private, "lan.test=127.0.0.1:%d", stage.port);
    CHECK_OK(services_set_weather(&stage.services, buf_cstr(&url), buf_cstr(&private), &err));
    check_call(&stage, "getWeather", place, "Europe/Berlin");
    CHECK_ERR(services_set_weather(&stage.services, "ftp://x.test", NULL, &err), ERR_UNSUPPORTED);
    CHECK_ERR(services_set_weather(&stage.services, "http://x.test/?a", NULL, &err), ERR_INVALID);
    CHECK_ERR(services_set_weather(&stage.services, NULL, "lan.test", &err), ERR_INVALID);
}

static void allow(struct stage *stage, const char *hosts)
{
    struct err err = {0};
    AUTO_BUF struct buf text = {0};
    buf_printf(&text, "allow %s:%d", hosts, stage->port);
    stage->services.policy = policy_free(stage->services.policy);
    CHECK_OK(policy_parse(buf_str(&text), POLICY_BY_USER, &stage->services.policy, &err));
}

TEST(fetch_gives_status_headers_and_body)
{
    AUTO_STAGE struct stage stage = {0};
    struct err err = {0};
    AUTO_JSON struct json_t *answer = NULL;
    struct str text = {0};
    int64_t status = 0;
    stage_open(&stage);
    allow(&stage, "ok.test");
    (void)call(
        &stage, "fetch",
        "[\"http://ok.test:PORT/p?q\",{\"method\":\"post\",\"headers\":{\"X-B\":\"\xc3\xa9\"},"
        "\"body\":\"data\",\"timeoutMs\":5000}]");
    CHECK(stage.is_ok);
    CHECK_OK(json_parse(buf_str(&stage.answer), &answer, &err));
    CHECK(json_to_i64(json_get(answer, "status"), &status) && status == 201);
    CHECK(json_to_str(json_get(answer, "statusText"), &text));
    CHECK_STR(text, "Made Up");
    CHECK(json_to_str(json_get(json_get(answer, "headers"), "x-a"), &text));
    CHECK_STR(text, "1, 2");
    CHECK(json_to_str(json_get(answer, "body"), &text));
    CHECK(str_starts(text, STR("POST /p?q HTTP/1.1\r\n")));
    CHECK(str_find(text, STR("X-B: \xc3\xa9\r\n")) < text.len);
    CHECK(json_get(answer, "bodyBase64") == NULL);
    check_call(&stage, "fetch", "[\"http://ok.test:PORT/binary\"]", "\"bodyBase64\":\"//4A\"");
    CHECK(strstr(buf_cstr(&stage.answer), "\"body\":") == NULL);
}

TEST(fetch_says_why_not)
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage);
    check_call(&stage, "fetch", "[\"http://ok.test:PORT/\"]", "this sandbox has no network");
    allow(&stage, "ok.test");
    check_call(&stage, "fetch", "[\"http://evil.test/\"]",
               "{\"name\":\"Error\",\"message\":\"api.fetch: blocked evil.test:80: the policy does "
               "not name this host\",\"code\":\"forbidden\"}");
    check_call(&stage, "fetch", "[\"file:///etc/passwd\"]", "only http and https");
    check_call(&stage, "fetch", "[]", "api.fetch: argument 1, url, is missing");
    check_call(&stage, "fetch", "[\"x\",{\"metod\":\"GET\"}]",
               "api.fetch: options: unknown property \"metod\"; did you mean 'method'?");
    check_call(&stage, "fetch", "[\"x\",{\"timeoutMs\":0}]",
               "options.timeoutMs must be an integer from 1 to 30000, got 0");
    check_call(&stage, "fetch", "[\"x\",{\"redirect\":\"maybe\"}]",
               "options.redirect must be one of \"manual\", \"follow\", \"error\", got \"maybe\"");
    check_call(&stage, "fetch", "[\"x\",{\"headers\":{\"A\":1}}]",
               "options.headers.A must be a string, got 1");
    check_call(&stage, "fetch", "[\"http://ok.test:PORT/\",{\"headers\":{\"Host\":\"evil.test\"}}]",
               "{\"name\":\"TypeError\",\"message\":\"api.fetch: header 'Host' cannot be "
               "set by the client\"");
    check_call(&stage, "fetch", "[\"http://ok.test:PORT/\",{\"headers\":{\"A\":\"b\\r\\nC: d\"}}]",
               "contains a control character");
    check_call(&stage, "fetch", "[\"http://ok.test:PORT/\",{\"body\":\"x\"}]",
               "a GET request has no body");
    CHECK_INT(net_server_hits(stage.server), 0);
}

static void check_warning(const struct hints *hints, const char *expected)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    hints_put_warnings(hints, true, &out);
    CHECK_CSTR(buf_cstr(&text), expected);
}

TEST(hints_are_checked_and_their_absence_is_reported)
{
    struct err err = {0};
    struct hints hints = {0};
    AUTO_JSON struct json_t *given = NULL;
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    check_warning(&hints, "[\"no location hints were given; api.getWeather needs coordinates\"]");
    CHECK_ERR(hints_set(&hints, STR("latitude"), STR("91"), &err), ERR_INVALID);
    CHECK_ERR(hints_set(&hints, STR("latitude"), STR("north"), &err), ERR_INVALID);
    CHECK_ERR(hints_set(&hints, STR("longitude"), STR("-181"), &err), ERR_INVALID);
    CHECK_ERR(hints_set(&hints, STR("city"), STR("a\nb"), &err), ERR_INVALID);
    CHECK_ERR(hints_set(&hints, STR("planet"), STR("Mars"), &err), ERR_INVALID);
    CHECK_MSG("the hints are latitude, longitude, city and country");
    CHECK_OK(hints_set(&hints, STR("latitude"), STR("52.5"), &err));
    CHECK(!hints_has_place(&hints));
    check_warning(&hints, "[\"location hints are incomplete: longitude, city, country missing; "
                          "api.getWeather needs coordinates\"]");
    CHECK_OK(json_parse(STR("{\"longitude\":\"13.4\",\"city\":\"Berlin\",\"country\":null}"),
                        &given, &err));
    CHECK_OK(hints_read(given, &hints, &err));
    CHECK(hints_has_place(&hints));
    check_warning(&hints, "[\"location hints are incomplete: country missing\"]");
    hints_put_json(&hints, &out);
    CHECK_CSTR(buf_cstr(&text), "{\"latitude\":52.5,\"longitude\":13.4,\"city\":\"Berlin\","
                                "\"country\":null}");
    CHECK_OK(hints_set(&hints, STR("country"), STR("DE"), &err));
    check_warning(&hints, "[]");
}

TEST(the_page_is_the_tables)
{
    struct err err = {0};
    AUTO_BRIDGE_SET struct bridge_set *set = NULL;
    AUTO_BUF struct buf made = {0}, kept = {0};
    AUTO_CLOSE int fd = open(BRIDGES_DOCS, O_RDONLY | O_CLOEXEC);
    CHECK_OK(bridge_set_new(bridges, &set, &err));
    bridge_put_docs(set, &made);
    CHECK_OK(buf_read_all(&kept, fd, &err));
    if (!str_eq(buf_str(&made), buf_str(&kept)))
        fail_msg("docs/BRIDGES.md is old: sandglass bridges docs >docs/BRIDGES.md");
}
