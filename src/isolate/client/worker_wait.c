/* The calls of a worker that wait: loops over worker_next. */

#include <errno.h>
#include <poll.h>

#include "base/clock.h"
#include "base/sys.h"
#include "isolate/client/worker_internal.h"

static void worker_wait_wait_for(const struct worker *worker, int64_t ms)
{
    short events = (short)(POLLIN | (worker_writes(worker) ? POLLOUT : 0));
    struct pollfd poller = {.fd = worker->fd, .events = events};
    (void)!SYS(poll(&poller, 1, (int)MIN(ms, (int64_t)INT32_MAX)));
}

/* Until there is something to read, or room for the queue, or an answer was put there. */
static void await_news(const struct worker *worker, const struct worker_host *host)
{
    int64_t left = worker_due_ms(worker) - clock_now_ms();
    if (left <= 0)
        return;
    if (host == NULL || host->wait == NULL ||
        !host->wait(host->user, worker->fd, worker_writes(worker), left))
        worker_wait_wait_for(worker, left);
}

static void serve_bridge(struct worker *worker, const struct worker_host *host,
                         const struct worker_event *event)
{
    struct err err = {0};
    const char *why = "no such bridge";
    if (host != NULL && host->bridge != NULL &&
        host->bridge(host->user, worker, event->call, event->name, event->text, &why))
        return;
    /* A worker that is gone needs no answer: the next event says so. */
    (void)!worker_refuse(worker, event->call, why, &err);
}

/* To the last event. */
static void await_last(struct worker *worker, const struct worker_host *host,
                       struct worker_event *ret_event)
{
    for (;;) {
        worker_next(worker, ret_event);
        switch (ret_event->type) {
        case WORKER_WAITS:
            await_news(worker, host);
            break;
        case WORKER_CONSOLE:
            if (host != NULL && host->console != NULL)
                host->console(host->user, ret_event->stream, ret_event->text);
            break;
        case WORKER_BRIDGE:
            serve_bridge(worker, host, ret_event);
            break;
        case WORKER_CANCEL:
            if (host != NULL && host->cancel != NULL)
                host->cancel(host->user, ret_event->call);
            break;
        case WORKER_DONE:
        case WORKER_NUMBER:
        case WORKER_BYTES:
        case WORKER_FAILED:
            return;
        }
    }
}

int worker_run(struct worker *worker, uint32_t isolate, const struct isolate_limits *limits,
               const struct isolate_call *call, const struct worker_host *host,
               struct isolate_result *ret_result, struct err *err)
{
    struct worker_event event;
    if (worker_begin_run(worker, isolate, limits, call, err) < 0)
        return -1;
    await_last(worker, host, &event);
    if (event.type != WORKER_DONE) {
        *err = event.err;
        return -1;
    }
    isolate_result_done(ret_result);
    *ret_result = *event.result;
    *event.result = (struct isolate_result){0};
    return 0;
}

int worker_open(struct worker *worker, const struct isolate_limits *limits, uint32_t *ret_isolate,
                struct err *err)
{
    struct worker_event event;
    if (worker_begin_open(worker, limits, err) < 0)
        return -1;
    await_last(worker, NULL, &event);
    if (event.type != WORKER_NUMBER) {
        *err = event.err;
        return -1;
    }
    *ret_isolate = event.number;
    return 0;
}
