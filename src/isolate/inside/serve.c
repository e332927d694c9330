/* Inside the worker: takes requests from the socket and runs them, one at a time. A message that
 * makes no sense ends the process; its spawner notices. */

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "isolate/client/worker.h"
#include "isolate/inside/filter.h"
#include "isolate/wire/wire.h"

enum { ISOLATES_MAX = 2048, FILE_MAX = 256 };
enum { EXIT_PROTOCOL = 3, EXIT_SETUP = 4, EXIT_CLOSED = 0 };

struct server {
    int fd;
    struct buf in, out;
    struct isolate_engine *engine;
    struct isolate *isolates[ISOLATES_MAX];
    /* Which isolate a bridge call came from, for good: fresh ones have no number but a tag, so a
     * late answer reaches nobody else. */
    uint32_t tags[ISOLATES_MAX], last_tag;
    uint32_t running_tag;
    struct isolate *running;
    struct isolate_module modules[WIRE_MODULES_MAX];
    char file[FILE_MAX];
};

NORETURN static void quit(int code)
{
    _exit(code);
}

static void send_out(struct server *server)
{
    struct err err = {0};
    if (isolate_wire_send(server->fd, &server->out, &err) < 0)
        quit(EXIT_CLOSED);
}

static void send_failed(struct server *server, uint32_t isolate, const struct err *err)
{
    isolate_wire_begin(&server->out, WIRE_FAILED, isolate);
    isolate_wire_put_u32(&server->out, (uint32_t)err->code);
    isolate_wire_put_str(&server->out, str_of(err->msg));
    send_out(server);
}

static void send_opened(struct server *server, uint32_t number)
{
    isolate_wire_begin(&server->out, WIRE_OPENED, number);
    send_out(server);
}

static struct isolate *serve_find(struct server *server, uint32_t number)
{
    if (number == 0 || number >= ISOLATES_MAX || server->isolates[number] == NULL)
        quit(EXIT_PROTOCOL);
    return server->isolates[number];
}

/* Numbers begin at 1; 0 means that there is no room. */
static uint32_t free_number(struct server *server, struct err *err)
{
    for (uint32_t i = 1; i < ISOLATES_MAX; i++)
        if (server->isolates[i] == NULL)
            return i;
    (void)err_set(err, ERR_LIMIT, "a worker holds at most %d isolates", ISOLATES_MAX - 1);
    return 0;
}

static void keep(struct server *server, uint32_t number, int failed, struct isolate *isolate,
                 const struct err *err)
{
    if (failed < 0) {
        send_failed(server, 0, err);
        return;
    }
    server->isolates[number] = isolate;
    server->tags[number] = ++server->last_tag;
    send_opened(server, number);
}

/* --- What a run asks for --- */

static void on_console(void *user, enum isolate_stream stream, struct str text)
{
    struct server *server = user;
    isolate_wire_begin(&server->out, WIRE_CONSOLE, 0);
    isolate_wire_put_u32(&server->out, (uint32_t)stream);
    isolate_wire_put_str(&server->out, text);
    send_out(server);
}

static bool on_bridge(void *user, uint32_t id, struct str name, struct str args_json,
                      UNUSED const char **ret_why)
{
    struct server *server = user;
    isolate_wire_begin(&server->out, WIRE_BRIDGE, server->running_tag);
    isolate_wire_put_u32(&server->out, id);
    isolate_wire_put_str(&server->out, name);
    isolate_wire_put_str(&server->out, args_json);
    send_out(server);
    return true;
}

static void on_cancel(void *user, uint32_t id)
{
    struct server *server = user;
    isolate_wire_begin(&server->out, WIRE_CANCEL, server->running_tag);
    isolate_wire_put_u32(&server->out, id);
    send_out(server);
}

static struct isolate *find_tagged(struct server *server, uint32_t tag)
{
    if (server->running != NULL && tag == server->running_tag)
        return server->running;
    for (uint32_t i = 1; i < ISOLATES_MAX; i++)
        if (server->isolates[i] != NULL && server->tags[i] == tag)
            return server->isolates[i];
    return NULL;
}

/* An answer may come when its isolate has ended, or between two runs of it. */
static void serve_answer(struct server *server, uint32_t tag, struct str body)
{
    uint32_t id = 0, ok = 0;
    struct str json = {0};
    if (!isolate_wire_get_u32(&body, &id) || !isolate_wire_get_u32(&body, &ok) ||
        !isolate_wire_get_str(&body, &json) || body.len != 0)
        quit(EXIT_PROTOCOL);
    struct isolate *isolate = find_tagged(server, tag);
    if (isolate != NULL)
        isolate_settle(isolate, id, ok != 0, json);
}

static bool on_wait(void *user, UNUSED struct isolate *isolate, int64_t ms)
{
    struct server *server = user;
    struct err err = {0};
    struct isolate_wire_frame frame;
    if (isolate_wire_receive(server->fd, &server->in, ms, &frame, &err) < 0) {
        if (err.code == ERR_TIMEOUT)
            return true;
        quit(err.code == ERR_UNAVAILABLE ? EXIT_CLOSED : EXIT_PROTOCOL);
    }
    if (frame.type != WIRE_ANSWER)
        quit(EXIT_PROTOCOL);
    size_t size = WIRE_HEAD + frame.body.len;
    serve_answer(server, frame.isolate, frame.body);
    buf_consume(&server->in, size);
    return true;
}

static void serve_run(struct server *server, uint32_t number, struct str body)
{
    struct err err = {0};
    struct isolate_limits limits;
    struct isolate_call call;
    AUTO_BUF struct buf text = {0}; /* the frame's bytes: `in` is needed for answers meanwhile */
    buf_put(&text, body);
    buf_consume(&server->in, WIRE_HEAD + body.len);
    struct str rest = buf_str(&text);
    if (!isolate_wire_get_limits(&rest, &limits) ||
        !isolate_wire_get_call(&rest, &call, server->modules, server->file, sizeof server->file) ||
        rest.len != 0)
        quit(EXIT_PROTOCOL);
    AUTO_ISOLATE struct isolate *fresh = NULL;
    if (number == 0 && isolate_new(server->engine, &limits, &fresh, &err) < 0) {
        send_failed(server, 0, &err);
        return;
    }
    struct isolate_host host = {.user = server,
                                .console = on_console,
                                .bridge = on_bridge,
                                .cancel = on_cancel,
                                .wait = on_wait};
    AUTO_RESULT struct isolate_result result = {0};
    server->running = number == 0 ? fresh : serve_find(server, number);
    isolate_set_timeout(server->running, limits.timeout_ms);
    server->running_tag = number == 0 ? ++server->last_tag : server->tags[number];
    int failed = isolate_run(server->running, &call, &host, &result, &err);
    server->running = NULL;
    if (failed < 0) {
        send_failed(server, number, &err);
        return;
    }
    isolate_wire_begin(&server->out, WIRE_DONE, number);
    isolate_wire_put_result(&server->out, &result);
    send_out(server);
}

/* --- Isolates that stay --- */

static void serve_open(struct server *server, struct str body)
{
    struct err err = {0};
    struct isolate_limits limits;
    struct isolate *isolate = NULL;
    if (!isolate_wire_get_limits(&body, &limits) || body.len != 0)
        quit(EXIT_PROTOCOL);
    uint32_t number = free_number(server, &err);
    int failed = number == 0 ? -1 : isolate_new(server->engine, &limits, &isolate, &err);
    keep(server, number, failed, isolate, &err);
}

static void serve_pause(struct server *server, uint32_t number)
{
    struct err err = {0};
    AUTO_BUF struct buf bytes = buf_with_limit(WIRE_BODY_MAX);
    if (isolate_pause(serve_find(server, number), &bytes, &err) < 0) {
        send_failed(server, number, &err);
        return;
    }
    isolate_wire_begin(&server->out, WIRE_BYTES, number);
    isolate_wire_put_str(&server->out, buf_str(&bytes));
    send_out(server);
}

static void serve_resume(struct server *server, struct str body)
{
    struct err err = {0};
    struct isolate_limits limits;
    struct str bytes = {0};
    struct isolate *isolate = NULL;
    if (!isolate_wire_get_limits(&body, &limits) || !isolate_wire_get_str(&body, &bytes) ||
        body.len != 0)
        quit(EXIT_PROTOCOL);
    uint32_t number = free_number(server, &err);
    int failed = number == 0 ? -1 : isolate_resume(server->engine, bytes, &limits, &isolate, &err);
    keep(server, number, failed, isolate, &err);
}

/* Gives whether the frame is still in `in`. */
static bool dispatch(struct server *server, const struct isolate_wire_frame *frame)
{
    switch (frame->type) {
    case WIRE_RUN:
        serve_run(server, frame->isolate, frame->body);
        return false;
    case WIRE_OPEN:
        serve_open(server, frame->body);
        return true;
    case WIRE_PAUSE:
        serve_pause(server, frame->isolate);
        return true;
    case WIRE_RESUME:
        serve_resume(server, frame->body);
        return true;
    case WIRE_ANSWER:
        serve_answer(server, frame->isolate, frame->body);
        return true;
    default:
        quit(EXIT_PROTOCOL);
    }
}

static int get_ready(struct server *server, const struct worker_options *options,
                     struct isolate_engine *engine, struct err *err)
{
    server->engine = engine;
    if (engine == NULL)
        return isolate_engine_new(options->bridges, &server->engine, err) < 0 ? -1
                                                                              : filter_lock(err);
    /* The engine was inherited by fork: copy its pages now, not while the first request waits. */
    if (isolate_engine_forked(engine, err) < 0 || filter_lock(err) < 0)
        return -1;
    return isolate_engine_warm(engine, err);
}

void worker_serve(int fd, const struct worker_options *options, struct isolate_engine *engine)
{
    struct err err = {0};
    static struct server server;
    server.fd = fd;
    server.in = server.out = buf_with_limit(WIRE_BODY_MAX + (1 << 20));
    if (get_ready(&server, options, engine, &err) < 0) {
        send_failed(&server, 0, &err);
        quit(EXIT_SETUP);
    }
    isolate_wire_begin(&server.out, WIRE_READY, 0);
    send_out(&server);
    for (;;) {
        struct isolate_wire_frame frame;
        if (isolate_wire_receive(fd, &server.in, -1, &frame, &err) < 0)
            quit(err.code == ERR_UNAVAILABLE ? EXIT_CLOSED : EXIT_PROTOCOL);
        size_t size = WIRE_HEAD + frame.body.len;
        if (dispatch(&server, &frame))
            buf_consume(&server.in, size);
    }
}
