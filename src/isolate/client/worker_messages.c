/* The messages to and from a worker, without waiting for it. Requests and answers to its calls are
 * sent as far as the socket takes them; each message that it sends becomes one event. A worker that
 * is late, silent or breaks the protocol is ended. */

#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/format/json.h"
#include "base/sys.h"
#include "isolate/client/worker_internal.h"

enum {
    HEAD_ROOM = 64 << 10,
    LINE_ROOM = 4 << 10, /* of a line, over what the limits say */
    READ_SIZE = 64 << 10,
};

/* --- Sending --- */

bool worker_writes(const struct worker *worker)
{
    return worker->queue.len > worker->queue_at;
}

/* From `*at` on, as far as it goes. A worker that died is an error, not a signal. */
static int send_some(struct worker *worker, struct str bytes, size_t *at, struct err *err)
{
    while (*at < bytes.len) {
        ssize_t sent =
            SYS(send(worker->fd, bytes.ptr + *at, bytes.len - *at, MSG_DONTWAIT | MSG_NOSIGNAL));
        if (sent >= 0)
            *at += (size_t)sent;
        else if (errno == EAGAIN)
            return 0;
        else if (errno != EINTR)
            return err_set(err, ERR_GONE, "the worker has ended");
    }
    return 0;
}

static int send_queue(struct worker *worker, struct err *err)
{
    if (send_some(worker, buf_str(&worker->queue), &worker->queue_at, err) < 0)
        return -1;
    if (worker->queue_at == worker->queue.len) {
        buf_clear(&worker->queue);
        worker->queue_at = 0;
    }
    return 0;
}

/* The frame in `out`, behind what waits already. -1 with a dead worker, or with an error before
 * anything was sent. */
static int push_frame(struct worker *worker, struct err *err)
{
    size_t at = 0;
    isolate_wire_end(&worker->out);
    buf_consume(&worker->queue, worker->queue_at);
    worker->queue_at = 0;
    if (worker->queue.len + worker->out.len > WIRE_BODY_MAX + WORKER_QUEUE_SPARE)
        return err_set(err, ERR_TOO_LARGE, "more than %d bytes of messages wait for a worker",
                       WIRE_BODY_MAX);
    if (send_queue(worker, err) < 0 ||
        (worker->queue.len == 0 && send_some(worker, buf_str(&worker->out), &at, err) < 0)) {
        worker_end(worker);
        return -1;
    }
    return buf_append(&worker->queue, str_slice(buf_str(&worker->out), at, worker->out.len), err);
}

/* --- Beginning --- */

static int check_idle(struct worker *worker, struct err *err)
{
    if (worker->is_dead)
        return err_set(err, ERR_GONE, "the worker has ended");
    if (worker->state != STATE_IDLE)
        return err_set(err, ERR_BUSY, "the worker is busy with another request");
    return 0;
}

static int check_size(size_t size, struct err *err)
{
    if (size > WIRE_BODY_MAX - HEAD_ROOM)
        return err_set(err, ERR_TOO_LARGE,
                       "a request to an isolate has %zu bytes, which is too large", size);
    return 0;
}

static int begin_request(struct worker *worker, enum worker_state state,
                         enum isolate_wire_type expected, int64_t ms, struct err *err)
{
    if (push_frame(worker, err) < 0)
        return -1;
    worker->state = state;
    worker->expected = expected;
    worker->due_ms = clock_now_ms() + ms;
    return 0;
}

static int begin_asking(struct worker *worker, enum isolate_wire_type expected, struct err *err)
{
    return begin_request(worker, STATE_ASKED, expected, WORKER_REPLY_MS, err);
}

int worker_begin_run(struct worker *worker, uint32_t isolate, const struct isolate_limits *limits,
                     const struct isolate_call *call, struct err *err)
{
    size_t size = call->code.len + call->env_json.len;
    if (check_idle(worker, err) < 0)
        return -1;
    if (call->module_count > WIRE_MODULES_MAX)
        return err_set(err, ERR_TOO_LARGE, "%zu modules; the limit is %d", call->module_count,
                       WIRE_MODULES_MAX);
    for (size_t i = 0; i < call->module_count; i++)
        size += call->modules[i].path.len + call->modules[i].source.len;
    if (check_size(size, err) < 0)
        return -1;
    isolate_result_done(&worker->result);
    isolate_wire_begin(&worker->out, WIRE_RUN, isolate);
    isolate_wire_put_limits(&worker->out, limits);
    isolate_wire_put_call(&worker->out, call);
    if (begin_request(worker, STATE_RUN, WIRE_DONE, limits->timeout_ms + WORKER_KILL_AFTER_MS,
                      err) < 0)
        return -1;
    worker->lines_left = 2 * (uint64_t)limits->console_lines;
    worker->line_max = 2 * (size_t)limits->line_bytes + LINE_ROOM;
    worker->calls_open = 0;
    worker->runs++;
    return 0;
}

int worker_begin_open(struct worker *worker, const struct isolate_limits *limits, struct err *err)
{
    if (check_idle(worker, err) < 0)
        return -1;
    isolate_wire_begin(&worker->out, WIRE_OPEN, 0);
    isolate_wire_put_limits(&worker->out, limits);
    return begin_asking(worker, WIRE_OPENED, err);
}

int worker_begin_pause(struct worker *worker, uint32_t isolate, struct err *err)
{
    if (check_idle(worker, err) < 0)
        return -1;
    isolate_wire_begin(&worker->out, WIRE_PAUSE, isolate);
    return begin_asking(worker, WIRE_BYTES, err);
}

int worker_begin_resume(struct worker *worker, struct str bytes,
                        const struct isolate_limits *limits, struct err *err)
{
    if (check_idle(worker, err) < 0 || check_size(bytes.len, err) < 0)
        return -1;
    isolate_wire_begin(&worker->out, WIRE_RESUME, 0);
    isolate_wire_put_limits(&worker->out, limits);
    isolate_wire_put_str(&worker->out, bytes);
    return begin_asking(worker, WIRE_OPENED, err);
}

/* --- Answers to bridge calls --- */

int worker_answer(struct worker *worker, uint64_t call, bool ok, struct str json, struct err *err)
{
    if (worker->is_dead)
        return err_set(err, ERR_GONE, "the worker has ended");
    size_t waiting = worker->queue.len - worker->queue_at;
    if (json.len > WORKER_ANSWER_SHORT && waiting + json.len > WIRE_BODY_MAX - HEAD_ROOM)
        return err_set(err, ERR_TOO_LARGE, "results of more than %d bytes at once", WIRE_BODY_MAX);
    isolate_wire_begin(&worker->out, WIRE_ANSWER, (uint32_t)(call >> 32));
    isolate_wire_put_u32(&worker->out, (uint32_t)call);
    isolate_wire_put_u32(&worker->out, ok);
    isolate_wire_put_str(&worker->out, json);
    if (push_frame(worker, err) < 0)
        return -1;
    worker->calls_open -= worker->calls_open > 0;
    return 0;
}

void worker_answer_error(struct worker *worker, uint64_t call, const struct err *why)
{
    AUTO_BUF struct buf json = {0};
    struct json_out out = {.buf = &json};
    struct err err = {0};
    json_begin_object(&out);
    json_key(&out, "name"), json_put_cstr(&out, "Error");
    json_key(&out, "message"), json_put_cstr(&out, why->msg);
    json_key(&out, "code"), json_put_cstr(&out, err_wire_name(why->code));
    json_end_object(&out);
    (void)!worker_answer(worker, call, false, buf_str(&json), &err);
}

int worker_refuse(struct worker *worker, uint64_t call, const char *why, struct err *err)
{
    AUTO_BUF struct buf json = {0};
    struct json_out out = {.buf = &json};
    json_begin_object(&out);
    json_key(&out, "name"), json_put_cstr(&out, "TypeError");
    json_key(&out, "message"), json_put_cstr(&out, why);
    json_end_object(&out);
    return worker_answer(worker, call, false, buf_str(&json), err);
}

/* --- Events --- */

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
    if (worker->is_dead || send_queue(worker, &err) < 0) {
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
