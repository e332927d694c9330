/* Bodies and answers that are longer than memory should be, and those that come over time. */

#include "api/http/flow.h"

#include "api/http/events.h"
#include "base/err.h"
#include "base/format/json.h"
#include "talk.h"

struct tape {
    struct request *request;
    struct flow *flow;
    struct events *events;
    uint64_t seen, most;
    int ended, aborted, drained, closed, gone;
    bool is_slow, fails, is_paused, was_pressed; /* pressed: got bytes while it was paused */
} tape;

/* ---- bodies -------------------------------------------------------------------------------- */

static int on_bytes(UNUSED void *ctx, struct str bytes, struct err *err)
{
    tape.seen += bytes.len;
    tape.most = MAX(tape.most, (uint64_t)bytes.len);
    tape.was_pressed |= tape.is_paused;
    tape.is_paused = tape.is_slow;
    if (tape.is_slow)
        request_pause_body(tape.request);
    return tape.fails ? err_set(err, ERR_NO_SPACE, "the disk is full") : 0;
}

static void reply_text(struct request *request, int status, const char *text)
{
    struct buf body = {0};
    buf_put_cstr(&body, text);
    reply_body(request, status, "text/plain; charset=utf-8", &body);
}

static void on_end(UNUSED void *ctx)
{
    tape.ended++;
    reply_text(tape.request, 201, "taken");
}

static void on_abort(UNUSED void *ctx)
{
    tape.aborted++;
}

static const struct body_sink sink = {on_bytes, on_end, on_abort};

static void upload(struct request *request, UNUSED void *ctx)
{
    tape.request = request;
    request_take_body(request, &sink, NULL);
}

static void upload_paused(struct request *request, void *ctx)
{
    upload(request, ctx);
    tape.is_paused = true;
    request_pause_body(request);
}

static void upload_later(struct request *request, UNUSED void *ctx)
{
    tape.request = request;
    request_hold(request);
}

/* ---- answers ------------------------------------------------------------------------------- */

static void on_drain(UNUSED void *ctx)
{
    tape.drained++;
}
static void on_closed(UNUSED void *ctx)
{
    tape.closed++;
    tape.flow = NULL;
    tape.events = NULL;
}
static const struct flow_calls flow_calls = {on_drain, on_closed, NULL};
static const struct events_calls events_calls = {on_drain, on_closed};

static void download(struct request *request, UNUSED void *ctx)
{
    int64_t length = request_query_int(request, "length", -1);
    tape.flow = reply_flow(request, 200, "text/plain", length, &flow_calls, NULL);
}

static void listen_in(struct request *request, UNUSED void *ctx)
{
    struct str last = {0};
    tape.events = events_new(request, &events_calls, NULL);
    if (events_last_id(request, &last))
        events_put(tape.events, "resumed", (struct str){0}, last);
}

static void on_gone(UNUSED void *ctx)
{
    tape.gone++;
}

static void wait_for(struct request *request, UNUSED void *ctx)
{
    tape.request = request;
    request_hold(request);
    request_on_gone(request, on_gone, NULL);
}

static void long_text(struct request *request, UNUSED void *ctx)
{
    struct buf body = {0};
    for (int i = 0; i < 1000; i++)
        buf_put_cstr(&body, "again ");
    reply_body(request, 200, "application/json", &body);
}

static void checked(struct request *request, UNUSED void *ctx)
{
    struct buf body = {0};
    buf_printf(&body, "%.*s %lld", STR_ARG(request_str(request, "name")),
               (long long)request_int(request, "count", -1));
    reply_body(request, 200, "text/plain", &body);
}

static const struct route_query length_query[] = {
    {"length", "{\"type\":\"integer\",\"minimum\":0}", "How long"},
    {"after", "{\"type\":\"string\"}", "Where to go on"},
    {0},
};

static const struct route flow_routes[] = {
    {"PUT", "/up", upload, "", SCOPE_FILES, .takes = FORM_BYTES},
    {"PUT", "/up_paused", upload_paused, "", SCOPE_FILES, .takes = FORM_BYTES},
    {"PUT", "/up_later", upload_later, "", SCOPE_FILES, .takes = FORM_BYTES},
    {"*", "/flow", download, "", SCOPE_READ, .query = length_query},
    {"GET", "/down", download, "", SCOPE_READ, .query = length_query},
    {"GET", "/events", listen_in, "", SCOPE_READ, .query = length_query},
    {"GET", "/wait", wait_for, "", SCOPE_READ},
    {"GET", "/long", long_text, "", SCOPE_READ},
    {"POST", "/checked", checked, "", SCOPE_RUN,
     .request = "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"name\"],"
                "\"properties\":{\"name\":{\"type\":\"string\"},\"count\":{\"type\":\"integer\","
                "\"minimum\":0}}}"},
    {"*", "/any/{rest...}", long_text, "", SCOPE_RUN},
    {0},
};

static struct route *routes;

static void open_server(struct fixture *fix)
{
    static const struct route *const tables[] = {flow_routes, NULL};
    struct err err = {0};
    tape = (struct tape){0};
    CHECK_OK(routes_new(tables, &routes, &err));
    start(fix, routes, (struct http_options){0});
}

static void close_server(struct fixture *fix)
{
    stop(fix);
    routes = routes_free(routes);
}

#define T H "Authorization: Bearer secret\r\n"

/* Feeds `total` bytes behind `head`, letting the server work in between. */
static void feed(struct fixture *fix, const char *head, size_t total)
{
    static char block[64 << 10];
    (void)!write(fix->client, head, strlen(head));
    for (int stuck = 0; total > 0 && stuck < 2000;) {
        ssize_t count = write(fix->client, block, MIN(total, sizeof block));
        total -= count > 0 ? (size_t)count : 0;
        stuck = count > 0 ? 0 : stuck + 1;
        step(fix, 1);
    }
}

TEST(a_body_longer_than_memory_goes_through_in_pieces)
{
    struct fixture fix = {0};
    bool closed;
    open_server(&fix);
    size_t size = 100 << 20;
    feed(&fix, "PUT /up HTTP/1.1\r\n" T "Content-Length: 104857600\r\n\r\n", size);
    CHECK(says(ASK(&fix, ""), "201 Created"));
    CHECK(tape.seen == size && tape.most <= 64 << 10);
    CHECK_INT(tape.ended, 1);
    CHECK_INT(tape.aborted, 0);
    CHECK(says(ASK(&fix, "PUT /up HTTP/1.1\r\n" T "Transfer-Encoding: chunked\r\n\r\n"
                         "5\r\nhello\r\n0\r\n\r\n"),
               "201 Created"));
    CHECK(tape.seen == size + 5);
    CHECK(says(ASK(&fix, "PUT /up HTTP/1.1\r\n" T "Content-Length: 0\r\n\r\n"), "201 Created"));
    CHECK(!closed);
    close_server(&fix);
}

TEST(a_slow_sink_stops_the_sender)
{
    struct fixture fix = {0};
    bool closed;
    open_server(&fix);
    tape.is_slow = true;
    feed(&fix, "PUT /up HTTP/1.1\r\n" T "Content-Length: 10485760\r\n\r\n", 10 << 20);
    uint64_t before = tape.seen;
    CHECK(before > 0 && before < 1 << 20);
    step(&fix, 50);
    CHECK(tape.seen == before);
    request_resume_body(tape.request);
    step(&fix, 5);
    CHECK(tape.seen > before);
    (void)close(fix.client);
    fix.client = -1;
    for (int i = 0; i < 100000 && tape.aborted == 0; i++) {
        request_resume_body(tape.request);
        step(&fix, 1);
    }
    CHECK_INT(tape.aborted, 1);
    CHECK_INT(http_counts(fix.http).running, 0);
    (void)closed;
    close_server(&fix);
}

static void go_on(struct fixture *fix)
{
    tape.is_paused = false;
    request_resume_body(tape.request);
    step(fix, 3);
}

/* Several pieces of a chunked body lie in the library's buffer at once: it goes on with the next
 * one although the one before has made it wait. */
TEST(a_slow_sink_gets_chunks_one_at_a_time)
{
    struct fixture fix = {0};
    bool closed;
    open_server(&fix);
    tape.is_slow = true;
    const char *answer = ASK(&fix, "PUT /up HTTP/1.1\r\n" T "Transfer-Encoding: chunked\r\n\r\n"
                                   "1\r\na\r\n1\r\nb\r\n1\r\nc\r\n1\r\nd\r\n0\r\n\r\n");
    CHECK_CSTR(answer, "");
    for (uint64_t seen = 1; seen <= 4; seen++) {
        CHECK_INT(tape.seen, seen);
        CHECK_INT(tape.ended, 0);
        go_on(&fix);
    }
    CHECK(!tape.was_pressed);
    CHECK(says(ASK(&fix, ""), "201 Created"));
    CHECK_INT(tape.ended, 1);

    /* Who goes in the middle leaves nothing. */
    (void)ASK(&fix, "PUT /up HTTP/1.1\r\n" T "Transfer-Encoding: chunked\r\n\r\n"
                    "1\r\na\r\n1\r\nb\r\n1\r\nc\r\n");
    (void)close(fix.client);
    fix.client = -1;
    for (int i = 0; i < 1000 && tape.aborted == 0; i++)
        go_on(&fix);
    CHECK_INT(tape.aborted, 1);
    CHECK_INT(http_counts(fix.http).running, 0);
    close_server(&fix);
}

TEST(a_failing_sink_ends_what_waits_in_chunks)
{
    struct fixture fix = {0};
    bool closed;
    open_server(&fix);
    tape.is_slow = true;
    (void)ASK(&fix, "PUT /up HTTP/1.1\r\n" T "Transfer-Encoding: chunked\r\n\r\n"
                    "1\r\na\r\n1\r\nb\r\n1\r\nc\r\n");
    tape.fails = true;
    go_on(&fix);
    CHECK(says(ASK(&fix, ""), "507 Insufficient Storage"));
    CHECK(closed);
    CHECK_INT(tape.aborted, 1);
    CHECK_INT(http_counts(fix.http).running, 0);
    close_server(&fix);
}

TEST(a_sink_may_be_paused_before_the_first_byte)
{
    struct fixture fix = {0};
    bool closed;
    open_server(&fix);
    (void)ASK(&fix, "PUT /up_paused HTTP/1.1\r\n" T "Content-Length: 5\r\n\r\nhello");
    CHECK_INT(tape.seen, 0);
    CHECK_INT(tape.ended, 0);
    go_on(&fix);
    CHECK(says(ASK(&fix, ""), "201 Created"));
    CHECK_INT(tape.seen, 5);
    CHECK_INT(tape.ended, 1);
    CHECK(!tape.was_pressed && !closed);
    close_server(&fix);
}

TEST(a_failing_sink_answers_in_the_middle_of_the_body)
{
    struct fixture fix = {0};
    bool closed;
    open_server(&fix);
    tape.fails = true;
    const char *answer = ASK(&fix, "PUT /up HTTP/1.1\r\n" T "Content-Length: 1000000\r\n\r\nhello");
    CHECK(says(answer, "507 Insufficient Storage") && says(answer, "the disk is full"));
    CHECK(closed);
    CHECK_INT(tape.aborted, 1);
    CHECK_INT(tape.ended, 0);
    CHECK_INT(http_counts(fix.http).running, 0);
    close_server(&fix);
}

TEST(a_handler_may_think_before_it_takes_a_body)
{
    struct fixture fix = {0};
    struct err err;
    bool closed;
    open_server(&fix);
    const char *answer = ASK(&fix, "PUT /up_later HTTP/1.1\r\n" T
                                   "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    CHECK_CSTR(answer, "");
    request_take_body(tape.request, &sink, NULL);
    CHECK(says(ASK(&fix, ""), "100 Continue"));
    CHECK(says(ASK(&fix, "hello"), "201 Created"));
    CHECK(tape.seen == 5);

    (void)ASK(&fix, "PUT /up_later HTTP/1.1\r\n" T "Content-Length: 5000\r\n\r\nhel");
    (void)err_set(&err, ERR_NOT_FOUND, "no such sandbox");
    reply_error(tape.request, &err);
    CHECK(says(ASK(&fix, ""), "404 Not Found"));
    CHECK(closed);
    CHECK(tape.seen == 5);
    CHECK_INT(http_counts(fix.http).running, 0);
    close_server(&fix);
}

static void fill(struct flow *flow, size_t size)
{
    struct err err;
    AUTO_BUF struct buf bytes = {0};
    while (bytes.len < size)
        buf_put_char(&bytes, 'x');
    CHECK_OK(flow_write(flow, buf_str(&bytes), &err));
}

TEST(a_flow_goes_out_as_it_comes)
{
    struct fixture fix = {0};
    struct err err;
    bool closed;
    open_server(&fix);
    CHECK(says(ASK(&fix, "GET /down HTTP/1.1\r\n" T "\r\n"), "Transfer-Encoding: chunked"));
    CHECK_OK(flow_write(tape.flow, STR("one"), &err));
    CHECK(says(ASK(&fix, ""), "3\r\none\r\n"));
    CHECK_OK(flow_write(tape.flow, STR("three"), &err));
    flow_finish(tape.flow);
    CHECK(says(ASK(&fix, ""), "5\r\nthree\r\n0\r\n"));
    CHECK_INT(tape.closed, 1);
    CHECK(!closed);
    CHECK(says(ASK(&fix, "GET /down?length=4 HTTP/1.1\r\n" T "\r\n"), "Content-Length: 4\r\n"));
    CHECK_OK(flow_write(tape.flow, STR("four"), &err));
    flow_finish(tape.flow);
    CHECK_CSTR(ASK(&fix, ""), "four");
    CHECK_INT(tape.closed, 2);
    CHECK(!closed);
    close_server(&fix);
}

/* The end of a chunked body is five bytes, which the client would take for the next answer. */
TEST(head_on_a_flow_has_no_body_at_all)
{
    struct fixture fix = {0};
    bool closed;
    open_server(&fix);
    const char *answer = ASK(&fix, "HEAD /flow HTTP/1.1\r\n" T "\r\n");
    CHECK(says(answer, "200 OK"));
    const char *end = strstr(answer, "\r\n\r\n");
    CHECK(end != NULL && end[4] == '\0');
    CHECK(closed);
    CHECK_INT(tape.closed, 1);
    close_server(&fix);
}

TEST(a_client_that_does_not_read_stops_the_flow)
{
    struct fixture fix = {0};
    struct err err;
    bool closed;
    open_server(&fix);
    (void)ASK(&fix, "GET /down HTTP/1.1\r\n" T "\r\n");
    while (!flow_is_full(tape.flow)) {
        fill(tape.flow, 64 << 10);
        step(&fix, 2);
    }
    CHECK_INT(tape.drained, 0);
    fill(tape.flow, FLOW_MAX / 2);
    AUTO_BUF struct buf bytes = {0};
    while (bytes.len < FLOW_MAX / 2)
        buf_put_cstr(&bytes, "xxxxxxxxxxxxxxxx");
    CHECK_ERR(flow_write(tape.flow, buf_str(&bytes), &err), ERR_TOO_LARGE);
    for (int i = 0; i < 1000 && tape.drained == 0; i++)
        (void)ASK(&fix, "");
    CHECK_INT(tape.drained, 1);
    flow_break(tape.flow);
    (void)ASK(&fix, "");
    (void)ASK(&fix, "");
    CHECK(closed);
    CHECK_INT(tape.closed, 1);
    close_server(&fix);
}

TEST(a_client_that_leaves_closes_the_flow)
{
    struct fixture fix = {0};
    bool closed;
    open_server(&fix);
    (void)ASK(&fix, "GET /down HTTP/1.1\r\n" T "\r\n");
    (void)close(fix.client);
    while (tape.closed == 0)
        step(&fix, 1);
    CHECK_INT(http_counts(fix.http).running, 0);
    connect_client(&fix);
    (void)ASK(&fix, "GET /wait HTTP/1.1\r\n" T "\r\n");
    (void)close(fix.client);
    while (tape.gone == 0)
        step(&fix, 1);
    reply_text(tape.request, 200, "not received");
    step(&fix, 20);
    CHECK_INT(http_counts(fix.http).running, 0);
    fix.client = -1;
    close_server(&fix);
}

TEST(events_come_as_sse_or_ndjson)
{
    struct fixture fix = {0};
    bool closed;
    open_server(&fix);
    const char *head = ASK(&fix, "GET /events HTTP/1.1\r\n" T "Last-Event-ID: 41\r\n\r\n");
    CHECK(says(head, "Content-Type: text/event-stream\r\n"));
    CHECK(says(head, "event: resumed\ndata: 41\n\n"));
    events_put(tape.events, "tick", STR("42"), STR("{\"a\":1}"));
    CHECK(says(ASK(&fix, ""), "id: 42\nevent: tick\ndata: {\"a\":1}\n\n"));
    events_end(tape.events);
    CHECK(says(ASK(&fix, ""), "0\r\n"));
    CHECK(!closed);
    (void)ASK(&fix, "GET /events?after=7 HTTP/1.1\r\n" T "Accept: application/x-ndjson\r\n\r\n");
    events_put(tape.events, "tick", STR("8"), STR("{\"a\":1}"));
    CHECK(says(ASK(&fix, ""), "{\"event\":\"tick\",\"id\":\"8\",\"data\":{\"a\":1}}\n"));
    http_drain(fix.http, NULL, NULL);
    CHECK(says(ASK(&fix, ""), "{\"event\":\"end\",\"data\":{\"reason\":"));
    CHECK_INT(tape.closed, 2);
    close_server(&fix);
}

TEST(long_answers_are_packed_where_asked)
{
    struct fixture fix = {0};
    bool closed;
    open_server(&fix);
    const char *answer =
        ASK(&fix, "GET /long HTTP/1.1\r\n" T "Accept-Encoding: br, gzip;q=0.5\r\n\r\n");
    CHECK(says(answer, "Content-Encoding: gzip\r\n") && says(answer, "Vary: Accept-Encoding\r\n"));
    answer = ASK(&fix, "GET /long HTTP/1.1\r\n" T "Accept-Encoding: gzip;q=0\r\n\r\n");
    CHECK(strstr(answer, "Content-Encoding") == NULL);
    answer = ASK(&fix, "GET /long HTTP/1.1\r\n" T "\r\n");
    CHECK(says(answer, "Content-Length: 6000\r\n"));
    (void)closed;
    close_server(&fix);
}

static const char *post(struct fixture *fix, const char *body)
{
    bool closed;
    AUTO_BUF struct buf text = {0};
    buf_printf(&text,
               "POST /checked HTTP/1.1\r\n" T
               "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
               strlen(body), body);
    return talk(fix, buf_str(&text), &closed);
}

TEST(bodies_and_queries_are_checked_against_the_row)
{
    struct fixture fix = {0};
    bool closed;
    open_server(&fix);
    CHECK(says(post(&fix, "{\"name\":\"a\",\"count\":12}"), "a 12"));
    CHECK(says(post(&fix, "{\"name\":\"a\",\"count\":12"), "400 Bad Request"));
    CHECK(says(post(&fix, "{\"name\":\"a\",\"cuont\":12}"),
               "unknown property \\\"cuont\\\"; did you mean 'count'?"));
    CHECK(says(post(&fix, "{\"name\":\"a\",\"cuont\":12}"), "\"path\":\"cuont\""));
    CHECK(says(post(&fix, "{\"name\":\"a\",\"count\":-2}"), "\"path\":\"count\""));
    CHECK(says(post(&fix, "{\"count\":2}"), "\"path\":\"name\""));
    const char *answer;
    answer = ASK(&fix, "POST /checked HTTP/1.1\r\n" T "Content-Length: 2\r\n\r\n{}");
    CHECK(says(answer, "415 "));
    answer = ASK(&fix, "GET /down?lenght=1 HTTP/1.1\r\n" T "\r\n");
    CHECK(says(answer, "unknown query parameter 'lenght'; did you mean 'length'?"));
    answer = ASK(&fix, "GET /down?length=x HTTP/1.1\r\n" T "\r\n");
    CHECK(says(answer, "400 Bad Request") && says(answer, "\"path\":\"length\""));
    CHECK(!closed);
    close_server(&fix);
}

TEST(a_token_opens_only_its_own_scopes)
{
    struct fixture fix = {0};
    bool closed;
    open_server(&fix);
#define WEAK H "Authorization: Bearer weak\r\n"
    CHECK(says(ASK(&fix, "GET /long HTTP/1.1\r\n" WEAK "\r\n"), "200 OK"));
    const char *answer = ASK(&fix, "POST /checked HTTP/1.1\r\n" WEAK "Content-Length: 0\r\n\r\n");
    CHECK(says(answer, "403 Forbidden") && says(answer, "lacks the scope 'run'"));
    CHECK(says(ASK(&fix, "PATCH /any/a/b/c HTTP/1.1\r\n" T "\r\n"), "200 OK"));
    CHECK(says(ASK(&fix, "PATCH /any HTTP/1.1\r\n" T "\r\n"), "404 "));
    CHECK(!closed);
    close_server(&fix);
}
