#include "test.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/loop.h"
#include "isolate/client/worker.h"
#include "isolate/wire/wire.h"

/* Workers without blocking: several at once on one loop, each driven by its descriptor and its
 * deadline. */

static const char *const bridges[] = {"echo", NULL};
static const struct worker_options options = {.bridges = bridges};

struct job {
    struct loop *loop;
    struct worker *worker;
    struct watch *watch;
    struct timer *timer, *later;
    struct buf log;
    uint64_t call;
    int *left;
};

static void finish(struct job *job)
{
    job->watch = watch_free(job->watch);
    job->timer = timer_free(job->timer);
    if (--*job->left == 0)
        loop_stop(job->loop);
}

static void pump(struct job *job);

static void on_ready(void *ctx, UNUSED int events)
{
    pump(ctx);
}

static void on_due(void *ctx)
{
    pump(ctx);
}

/* An answer that comes from somewhere else, later. */
static void on_later(void *ctx)
{
    struct err err = {0};
    struct job *job = ctx;
    CHECK_OK(worker_answer(job->worker, job->call, true, STR("\"late\""), &err));
    pump(job);
}

static void note(struct job *job, const struct worker_event *event)
{
    if (event->type == WORKER_CONSOLE)
        buf_printf(&job->log, "log %d %.*s;", event->stream, STR_ARG(event->text));
    if (event->type == WORKER_DONE)
        buf_printf(&job->log, "done %s %s %s", isolate_status_name(event->result->status),
                   buf_cstr(&event->result->json), buf_cstr(&event->result->error_name));
    if (event->type == WORKER_BRIDGE) {
        buf_printf(&job->log, "call %.*s%.*s;", STR_ARG(event->name), STR_ARG(event->text));
        job->call = event->call;
        job->later = timer_new(job->loop, on_later, job);
        timer_set(job->later, 1, 0);
    }
}

static void pump(struct job *job)
{
    struct worker_event event;
    for (;;) {
        worker_next(job->worker, &event);
        if (event.type == WORKER_WAITS)
            break;
        note(job, &event);
        if (event.type >= WORKER_DONE) {
            finish(job);
            return;
        }
    }
    watch_set(job->watch, WATCH_READ | (worker_writes(job->worker) ? WATCH_WRITE : 0));
    timer_set(job->timer, MAX(worker_due_ms(job->worker) - clock_now_ms(), (int64_t)0), 0);
}

static void begin(struct job *job, const char *code, int64_t ms)
{
    struct err err = {0};
    struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
    limits.timeout_ms = ms;
    struct isolate_call call = {.code = str_of(code)};
    CHECK_OK(worker_start(&options, &job->worker, &err));
    CHECK_OK(
        watch_new(job->loop, worker_fd(job->worker), WATCH_READ, on_ready, job, &job->watch, &err));
    job->timer = timer_new(job->loop, on_due, job);
    CHECK_OK(worker_begin_run(job->worker, 0, &limits, &call, &err));
    CHECK(worker_is_busy(job->worker));
    CHECK_ERR(worker_begin_run(job->worker, 0, &limits, &call, &err), ERR_BUSY);
    pump(job);
}

TEST(events_of_several_workers_on_one_loop)
{
    struct err err = {0};
    static const char *const codes[] = {
        "console.log('a'); 1+1",
        "await api.echo(1)",
        "console.error('b'); throw new TypeError('no')",
        "await new Promise(r => setTimeout(r, 20)); 'slept'",
        "for (;;);",
    };
    static const char *const expected[] = {
        "log 0 a;done ok 2 ", "call echo[1];done ok \"late\" ", "log 1 b;done error null TypeError",
        "done ok \"slept\" ", "done timeout null TimeoutError",
    };
    struct job jobs[countof(codes)] = {0};
    int left = countof(codes);
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    for (size_t i = 0; i < countof(codes); i++) {
        jobs[i].loop = loop;
        jobs[i].left = &left;
        begin(&jobs[i], codes[i], i == 4 ? 250 : 5000);
    }
    loop_run(loop);
    for (size_t i = 0; i < countof(codes); i++) {
        CHECK_CSTR(buf_cstr(&jobs[i].log), expected[i]);
        CHECK(!worker_is_busy(jobs[i].worker));
        CHECK_INT(worker_due_ms(jobs[i].worker), -1);
        buf_done(&jobs[i].log);
        (void)worker_free(jobs[i].worker);
    }
}

/* The last event of what was begun. */
static enum worker_event_type last(struct worker *worker, struct worker_event *event)
{
    for (worker_next(worker, event); event->type < WORKER_DONE; worker_next(worker, event)) {
        struct pollfd poller = {.fd = worker_fd(worker), .events = POLLIN};
        if (event->type == WORKER_WAITS)
            CHECK(poll(&poller, 1, (int)(worker_due_ms(worker) - clock_now_ms())) >= 0);
    }
    return event->type;
}

TEST(events_of_isolates_that_stay)
{
    struct err err = {0};
    struct worker_event event;
    struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
    struct isolate_call call = {.code = STR("globalThis.n = (globalThis.n ?? 0) + 1"),
                                .is_session = true};
    AUTO_WORKER struct worker *worker = NULL;
    AUTO_BUF struct buf bytes = {0};
    CHECK_OK(worker_start(&options, &worker, &err));
    CHECK_OK(worker_begin_open(worker, &limits, &err));
    CHECK_INT(last(worker, &event), WORKER_NUMBER);
    uint32_t a = event.number;
    CHECK_OK(worker_begin_run(worker, a, &limits, &call, &err));
    CHECK_INT(last(worker, &event), WORKER_DONE);
    CHECK_CSTR(buf_cstr(&event.result->json), "1");
    CHECK_OK(worker_begin_pause(worker, a, &err));
    CHECK_INT(last(worker, &event), WORKER_BYTES);
    CHECK_OK(buf_append(&bytes, event.text, &err));
    CHECK_OK(worker_begin_resume(worker, buf_str(&bytes), &limits, &err));
    CHECK_INT(last(worker, &event), WORKER_NUMBER);
    CHECK_OK(worker_begin_run(worker, event.number, &limits, &call, &err));
    CHECK_INT(last(worker, &event), WORKER_DONE);
    CHECK_CSTR(buf_cstr(&event.result->json), "2");
    CHECK_OK(worker_begin_resume(worker, STR("junk"), &limits, &err));
    CHECK_INT(last(worker, &event), WORKER_FAILED);
    CHECK_INT(event.err.code, ERR_INVALID);
}

TEST(events_end_with_the_worker)
{
    struct err err = {0};
    struct worker_event event;
    struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
    struct isolate_call call = {.code = STR("for (;;);")};
    AUTO_WORKER struct worker *worker = NULL;
    CHECK_OK(worker_start(&options, &worker, &err));
    CHECK_OK(worker_begin_run(worker, 0, &limits, &call, &err));
    CHECK_INT(kill(worker_pid(worker), SIGKILL), 0);
    CHECK_INT(last(worker, &event), WORKER_DONE);
    CHECK_INT(event.result->status, ISOLATE_CRASH);
    CHECK(worker_is_dead(worker));
    CHECK_INT(worker_fd(worker), -1);
    worker_next(worker, &event);
    CHECK_INT(event.type, WORKER_WAITS);
    CHECK_ERR(worker_begin_open(worker, &limits, &err), ERR_GONE);
}

/* A worker under an attacker's control prints without end: more lines than the limit allows are
 * a breach, whatever the clock says. */
TEST(events_do_not_go_on_forever)
{
    struct err err = {0};
    int pair[2];
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    AUTO_WORKER struct worker *worker = worker_adopt(pair[0]);
    struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
    struct isolate_call call = {.code = STR("1")};
    CHECK_OK(worker_begin_run(worker, 0, &limits, &call, &err));
    AUTO_BUF struct buf line = {0};
    isolate_wire_begin(&line, WIRE_CONSOLE, 0);
    isolate_wire_put_u32(&line, 0);
    isolate_wire_put_str(&line, STR("x"));
    isolate_wire_end(&line);
    uint32_t lines = 0;
    struct worker_event event = {0};
    while (event.type < WORKER_DONE) {
        CHECK(write(pair[1], line.ptr, line.len) == (ssize_t)line.len);
        worker_next(worker, &event);
        lines += event.type == WORKER_CONSOLE;
    }
    CHECK_INT(lines, 2 * limits.console_lines);
    CHECK_INT(event.result->status, ISOLATE_CRASH);
    CHECK(worker_is_dead(worker));
    (void)close(pair[1]);
}

TEST(events_refuse_what_fits_into_no_message)
{
    struct err err = {0};
    int pair[2];
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    AUTO_WORKER struct worker *worker = worker_adopt(pair[0]);
    struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
    AUTO_MEM char *huge = mem_alloc(WIRE_BODY_MAX);
    struct isolate_module modules[] = {{STR("a.js"), str_n(huge, WIRE_BODY_MAX)}};
    struct isolate_call call = {.code = STR("1"), .modules = modules, .module_count = 1};
    CHECK_ERR(worker_begin_run(worker, 0, &limits, &call, &err), ERR_TOO_LARGE);
    CHECK_ERR(worker_answer(worker, 1, true, modules[0].source, &err), ERR_TOO_LARGE);
    CHECK_ERR(worker_begin_resume(worker, modules[0].source, &limits, &err), ERR_TOO_LARGE);
    CHECK(!worker_is_dead(worker) && !worker_is_busy(worker));
    (void)close(pair[1]);
}
