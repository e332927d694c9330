/* What is asked of a worker and what answers its calls, sent as far as it goes without waiting. */

#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/format/json.h"
#include "base/sys.h"
#include "isolate/client/worker_internal.h"

enum {
    HEAD_ROOM = 64 << 10,
    LINE_ROOM = 4 << 10, /* of a line, over what the limits say */
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

int worker_send_queue(struct worker *worker, struct err *err)
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
static int worker_ask_push(struct worker *worker, struct err *err)
{
    size_t at = 0;
    isolate_wire_end(&worker->out);
    buf_consume(&worker->queue, worker->queue_at);
    worker->queue_at = 0;
    if (worker->queue.len + worker->out.len > WIRE_BODY_MAX + WORKER_QUEUE_SPARE)
        return err_set(err, ERR_TOO_LARGE, "more than %d bytes of messages wait for a worker",
                       WIRE_BODY_MAX);
    if (worker_send_queue(worker, err) < 0 ||
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

static int worker_ask_begin(struct worker *worker, enum worker_state state,
                            enum isolate_wire_type expected, int64_t ms, struct err *err)
{
    if (worker_ask_push(worker, err) < 0)
        return -1;
    worker->state = state;
    worker->expected = expected;
    worker->due_ms = clock_now_ms() + ms;
    return 0;
}

static int begin_asking(struct worker *worker, enum isolate_wire_type expected, struct err *err)
{
    return worker_ask_begin(worker, STATE_ASKED, expected, WORKER_REPLY_MS, err);
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
    if (worker_ask_begin(worker, STATE_RUN, WIRE_DONE, limits->timeout_ms + WORKER_KILL_AFTER_MS,
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
    if (worker_ask_push(worker, err) < 0)
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
