/* What comes from a worker, without waiting for it: one message becomes one event, and a worker
 * that is late, silent or breaks the protocol is ended. */

#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/sys.h"
#include "isolate/client/worker_internal.h"

enum { READ_SIZE = 64 << 10 };

int worker_fd(const struct worker *worker)
{
    return worker->fd;
}

int64_t worker_due_ms(const struct worker *worker)
{
    return worker->state == STATE_IDLE ? -1 : worker->due_ms;
}

/* The end of what was begun, by force. */
static void end_by_force(struct worker *worker, enum isolate_status status, const char *message,
                         struct worker_event *event)
{
    bool late = status == ISOLATE_TIMEOUT;
    const char *name = late ? "TimeoutError" : "EngineError";
    bool is_run = worker->state == STATE_RUN;
    worker->state = STATE_IDLE;
    worker_end(worker);
    if (!is_run) {
        event->type = WORKER_FAILED;
        (void)err_set(&event->err, late ? ERR_TIMEOUT : ERR_UNAVAILABLE, "%s", message);
        return;
    }
    struct isolate_result *result = &worker->result;
    isolate_result_done(result);
    result->status = status;
    result->is_gone = true;
    buf_put_cstr(&result->json, "null");
    buf_put_cstr(&result->error_name, name);
    buf_put_cstr(&result->error_message, message);
    buf_printf(&result->error_stack, "%s: %s", name, message);
    event->type = WORKER_DONE;
    event->result = result;
}

static bool take_console(struct worker *worker, struct str body, struct worker_event *event)
{
    uint32_t stream = 0;
    if (worker->lines_left == 0 || !isolate_wire_get_u32(&body, &stream) || stream > 1 ||
        !isolate_wire_get_str(&body, &event->text) || event->text.len > worker->line_max)
        return false;
    worker->lines_left--;
    event->type = WORKER_CONSOLE;
    event->stream = stream == 1 ? ISOLATE_STDERR : ISOLATE_STDOUT;
    return true;
}

static bool take_bridge(struct worker *worker, uint32_t tag, struct str body,
                        struct worker_event *event)
{
    uint32_t id = 0;
    if (worker->calls_open == WORKER_CALLS_MAX || !isolate_wire_get_u32(&body, &id) ||
        !isolate_wire_get_str(&body, &event->name) || !isolate_wire_get_str(&body, &event->text))
        return false;
    worker->calls_open++;
    event->type = WORKER_BRIDGE;
    event->call = (uint64_t)tag << 32 | id;
    return true;
}

static bool take_cancel(struct worker *worker, uint32_t tag, struct str body,
                        struct worker_event *event)
{
    uint32_t id = 0;
    if (!isolate_wire_get_u32(&body, &id) || body.len != 0)
        return false;
    worker->calls_open -= worker->calls_open > 0;
    event->type = WORKER_CANCEL;
    event->call = (uint64_t)tag << 32 | id;
    return true;
}

static bool take_failed(struct str body, struct worker_event *event)
{
    uint32_t code = 0;
    struct str message = {0};
    if (!isolate_wire_get_u32(&body, &code) || code >= ERR_COUNT ||
        !isolate_wire_get_str(&body, &message))
        return false;
    event->type = WORKER_FAILED;
    (void)err_set(&event->err, (enum err_code)code, "%.*s", STR_ARG(message));
    return true;
}

static bool take_last(struct worker *worker, const struct isolate_wire_frame *frame,
                      struct worker_event *event)
{
    struct str body = frame->body;
    if (frame->type == WIRE_FAILED)
        return take_failed(body, event);
    if (frame->type != worker->expected)
        return false;
    switch (frame->type) {
    case WIRE_DONE:
        event->type = WORKER_DONE;
        event->result = &worker->result;
        return isolate_wire_get_result(&body, &worker->result);
    case WIRE_OPENED:
        event->type = WORKER_NUMBER;
        event->number = frame->isolate;
        return true;
    default:
        event->type = WORKER_BYTES;
        return isolate_wire_get_str(&body, &event->text);
    }
}

/* One message as an event; false when it is not one that may come now. */
static bool take_event(struct worker *worker, const struct isolate_wire_frame *frame,
                       struct worker_event *event)
{
    bool runs = worker->state == STATE_RUN;
    if (frame->type == WIRE_CONSOLE)
        return runs && take_console(worker, frame->body, event);
    if (frame->type == WIRE_BRIDGE)
        return runs && take_bridge(worker, frame->isolate, frame->body, event);
    if (frame->type == WIRE_CANCEL)
        return runs && take_cancel(worker, frame->isolate, frame->body, event);
    if (!take_last(worker, frame, event))
        return false;
    worker->state = STATE_IDLE;
    return true;
}

/* 1 when something was read, 0 when there is nothing now. */
static int read_some(struct worker *worker, struct err *err)
{
    char *space = NULL;
    if (buf_reserve(&worker->in, READ_SIZE, &space, err) < 0)
        return -1;
    ssize_t size = SYS(recv(worker->fd, space, READ_SIZE, MSG_DONTWAIT));
    if (size < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (size <= 0)
        return err_set(err, ERR_UNAVAILABLE, "the worker has ended");
    buf_commit(&worker->in, (size_t)size);
    return 1;
}

/* The first word of a worker: that it is locked and ready, or why not. */
static int check_first(struct worker *worker, const struct isolate_wire_frame *frame,
                       struct err *err)
{
    struct worker_event event = {0};
    if (frame->type == WIRE_FAILED && take_failed(frame->body, &event))
        return err_set(err, ERR_UNAVAILABLE, "%s", event.err.msg);
    if (frame->type != WIRE_READY)
        return err_set(err, ERR_INVALID, "the worker did not report that it is ready");
    worker->is_new = false;
    buf_consume(&worker->in, WIRE_HEAD + frame->body.len);
    return 0;
}

/* 1 with a whole frame, 0 if no frame is complete yet, -1 if no more will come. */
static int read_frame(struct worker *worker, struct isolate_wire_frame *frame, struct err *err)
{
    for (;;) {
        int got = worker->in.len == 0 ? 0 : isolate_wire_take(&worker->in, frame, err);
        if (got > 0 && worker->is_new) {
            if (check_first(worker, frame, err) < 0)
                return -1;
            continue;
        }
        if (got != 0)
            return got;
        got = read_some(worker, err);
        if (got <= 0)
            return got;
    }
}

void worker_next(struct worker *worker, struct worker_event *ret_event)
{
    struct err err = {0};
    struct isolate_wire_frame frame = {0};
    *ret_event = (struct worker_event){.type = WORKER_WAITS};
    buf_consume(&worker->in, worker->given);
    worker->given = 0;
    if (worker->is_dead && worker->state == STATE_IDLE)
        return;
    if (worker->is_dead || worker_send_queue(worker, &err) < 0) {
        end_by_force(worker, ISOLATE_CRASH, "the worker ended", ret_event);
        return;
    }
    if (worker->state == STATE_IDLE)
        return;
    int got = read_frame(worker, &frame, &err);
    bool last = got > 0 && frame.type != WIRE_CONSOLE && frame.type != WIRE_BRIDGE &&
                frame.type != WIRE_CANCEL;
    if (got < 0) {
        bool broken = err.code != ERR_UNAVAILABLE;
        end_by_force(worker, ISOLATE_CRASH, broken ? "the worker sent an invalid message" : err.msg,
                     ret_event);
    } else if (!last && clock_now_ms() >= worker->due_ms) {
        end_by_force(worker, ISOLATE_TIMEOUT, "the code ran too long and was killed", ret_event);
    } else if (got > 0 && !take_event(worker, &frame, ret_event)) {
        *ret_event = (struct worker_event){0};
        end_by_force(worker, ISOLATE_CRASH, "the worker sent an invalid message", ret_event);
    } else if (got > 0) {
        worker->given = WIRE_HEAD + frame.body.len;
    }
}
