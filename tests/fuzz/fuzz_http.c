/* Bytes of any client, given to the whole HTTP stack over a socket pair: judge, library, routes.
 * What the judge refused must never have reached a handler, and nothing may be left afterwards. */

#include "fuzz.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/http/http.h"
#include "api/http/strict.h"
#include "base/err.h"

static uint64_t handled;

static void echo(struct request *request, UNUSED void *ctx)
{
    struct str say;
    struct buf body = {0};
    handled++;
    if (request_query(request, "say", &say))
        buf_put(&body, say);
    buf_put(&body, request_param(request, "word"));
    buf_put(&body, buf_str(&request->body));
    reply_body(request, 200, "application/octet-stream", &body);
}

static const struct route_query says[] = {{"say", "{\"type\":\"string\"}", ""}, {0}};

static const struct route routes[] = {
    {"GET", "/echo", echo, "", .scope = SCOPE_OPEN, .query = says},
    {"POST", "/echo/{word}", echo, "", .scope = SCOPE_OPEN, .body_max = 4096},
    {"GET", "/closed", echo, ""},
    {0},
};

static bool no_token(UNUSED void *ctx, UNUSED struct str token, UNUSED struct caller *ret_caller)
{
    return false;
}

static struct loop *loop;
static struct http *http;

static void start(void)
{
    static const char *const hosts[] = {"x", NULL};
    struct err err = {0};
    struct http_options options = {
        .rules = {.routes = routes, .hosts = hosts, .check_token = no_token}};
    (void)signal(SIGPIPE, SIG_IGN);
    int done = loop_open(&loop, &err);
    assert(done == 0);
    done = http_open(loop, -1, &options, &http, &err);
    assert(done == 0);
}

static void settle(int client)
{
    char bytes[4096];
    for (int quiet = 0; quiet < 6; quiet++) {
        (void)loop_step(loop);
        while (read(client, bytes, sizeof bytes) > 0)
            quiet = 0;
    }
}

/* How many requests the judge lets through: no more may have been handled. */
static uint64_t sound_requests(struct str bytes)
{
    struct strict strict = {.body_max = ROUTE_BODY_MAX};
    size_t good;
    (void)!strict_feed(&strict, bytes, &good);
    strict_done(&strict);
    return strict.requests;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    int ends[2];
    if (http == NULL)
        start();
    int done = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends);
    assert(done == 0);
    struct sockaddr peer = {.sa_family = AF_UNIX};
    done = http_add_connection(http, ends[0], &peer, sizeof peer, &err);
    assert(done == 0);
    handled = 0;
    /* In two parts, so that the seam falls anywhere. */
    size_t half = size / 2;
    (void)!write(ends[1], data, half);
    settle(ends[1]);
    (void)!write(ends[1], data + half, size - half);
    settle(ends[1]);
    assert(handled <= sound_requests(str_n((const char *)data, size)));
    (void)close(ends[1]);
    for (int i = 0; i < 1000 && http_counts(http).connections > 0; i++)
        (void)loop_step(loop);
    assert(http_counts(http).running == 0);
    return 0;
}
