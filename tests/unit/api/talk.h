#pragma once

/* The server in this process, spoken to over a socket pair; for the tests of this folder. */

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/http/http.h"
#include "test.h"

struct fixture {
    struct loop *loop;
    struct http *http;
    struct request *held;
    int handled, drained;
    int client;
};

static bool check_token(UNUSED void *ctx, struct str token, struct caller *ret_caller)
{
    ret_caller->scopes = str_eq(token, STR("weak")) ? SCOPE_BIT(SCOPE_READ) : ~0U;
    return str_eq(token, STR("secret")) || str_eq(token, STR("weak"));
}

static void connect_client(struct fixture *fix)
{
    struct err err = {0};
    int ends[2];
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    struct sockaddr peer = {.sa_family = AF_UNIX};
    CHECK_OK(http_add_connection(fix->http, ends[0], &peer, sizeof peer, &err));
    fix->client = ends[1];
}

static void start(struct fixture *fix, const struct route *routes, struct http_options options)
{
    static const char *const hosts[] = {"x", NULL}, *const origins[] = {"http://x", NULL};
    struct err err = {0};
    (void)signal(SIGPIPE, SIG_IGN);
    options.rules = (struct request_rules){.routes = routes,
                                           .ctx = fix,
                                           .hosts = hosts,
                                           .origins = origins,
                                           .check_token = check_token};
    CHECK_OK(loop_open(&fix->loop, &err));
    CHECK_OK(http_open(fix->loop, -1, &options, &fix->http, &err));
    connect_client(fix);
}

static void stop(struct fixture *fix)
{
    (void)close(fix->client);
    fix->http = http_free(fix->http);
    fix->loop = loop_free(fix->loop);
}

static void step(struct fixture *fix, int count)
{
    for (int i = 0; i < count; i++)
        (void)loop_step(fix->loop);
}

/* Sends, and reads until nothing comes any more. `ret_closed` tells whether the server hung up. */
static char *talk(struct fixture *fix, struct str bytes, bool *ret_closed)
{
    static char answer[64 << 10];
    size_t len = 0;
    *ret_closed = false;
    (void)!write(fix->client, bytes.ptr, bytes.len);
    for (int quiet = 0; quiet < 20;) {
        step(fix, 1);
        ssize_t count = read(fix->client, answer + len, sizeof answer - 1 - len);
        if (count == 0) {
            *ret_closed = true;
            break;
        }
        len += count > 0 ? (size_t)count : 0;
        quiet = count > 0 ? 0 : quiet + 1;
    }
    answer[len] = '\0';
    return answer;
}

static bool says(const char *answer, const char *text)
{
    if (strstr(answer, text) != NULL)
        return true;
    print_error("answer \"%s\"\nlacks  \"%s\"\n", answer, text);
    return false;
}

#define H "Host: x\r\n"
#define ASK(fix, text) talk((fix), STR(text), &closed)
