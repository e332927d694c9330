#include "isolate/worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/sys.h"
#include "isolate/wire.h"

enum {
    WORKER_FD = 3,
    START_MS = 10000,
    ANSWER_MS = 10000,   /* for what runs no script */
    KILL_AFTER_MS = 500, /* past a run's deadline: its own two alarms have failed */
    READ_SIZE = 64 << 10,
    QUEUE_SPARE = 4 << 20, /* for short answers, when long ones have filled the queue */
};

struct worker {
    int fd;
    pid_t pid;
    bool is_dead;
    uint64_t runs;
    struct buf in, out;
    /* Answers on their way. The worker may be busy, or waiting for us to read: whoever blocked on
     * writing them could wait for ever. */
    struct buf queue;
    size_t queue_at; /* sent so far */
};

/* --- Life --- */

/* Keys and tokens like to live in the environment; a fork would carry them along. */
static void forget_environment(void)
{
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++)
        explicit_bzero(*entry, strlen(*entry));
    environ = NULL;
}

/* The child keeps nothing of its parent but the socket. */
NORETURN static void become_worker(int fd, const struct worker_options *options)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_NAME, "isolate");
    for (int sig = 1; sig < NSIG; sig++)
        (void)signal(sig, SIG_DFL);
    (void)signal(SIGINT, SIG_IGN); /* a terminal's ^C is its parent's to handle */
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (fd != WORKER_FD && dup2(fd, WORKER_FD) < 0)
        _exit(1);
    (void)syscall(SYS_close_range, 0, WORKER_FD - 1, 0);
    (void)syscall(SYS_close_range, WORKER_FD + 1, ~0u, 0);
    forget_environment();
    worker_serve(WORKER_FD, options);
}

static int await_ready(struct worker *worker, struct err *err)
{
    struct isolate_wire_frame frame;
    if (isolate_wire_receive(worker->fd, &worker->in, START_MS, &frame, err) < 0)
        return err_wrap(err, "start a worker for isolates");
    uint32_t code = 0;
    struct str message = {0};
    if (frame.type == WIRE_FAILED && isolate_wire_get_u32(&frame.body, &code) &&
        isolate_wire_get_str(&frame.body, &message))
        return err_set(err, code < ERR_COUNT ? (enum err_code)code : ERR_INTERNAL,
                       "start a worker for isolates: %.*s", STR_ARG(message));
    if (frame.type != WIRE_READY)
        return err_set(err, ERR_INTERNAL, "start a worker for isolates: it did not say so");
    buf_consume(&worker->in, WIRE_HEAD + frame.body.len);
    return 0;
}

static void set_limits(struct worker *worker)
{
    worker->in = worker->out = buf_with_limit(WIRE_BODY_MAX + (1 << 20));
    worker->queue = buf_with_limit(WIRE_BODY_MAX + QUEUE_SPARE);
}

int worker_start(const struct worker_options *options, struct worker **ret_worker, struct err *err)
{
    int pair[2];
    if (SYS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) < 0)
        return err_sys(err, errno, "make a socket for a worker");
    AUTO_CLOSE int ours = pair[0], theirs = pair[1];
    pid_t pid = SYS(fork());
    if (pid < 0)
        return err_sys(err, errno, "fork a worker");
    if (pid == 0)
        become_worker(theirs, options);

    AUTO_WORKER struct worker *worker = mem_alloc(sizeof *worker);
    worker->fd = fd_take(&ours);
    worker->pid = pid;
    set_limits(worker);
    fd_close(&theirs); /* so that its death is seen */
    if (await_ready(worker, err) < 0)
        return -1;
    *ret_worker = worker;
    worker = NULL;
    return 0;
}

struct worker *worker_adopt(int fd)
{
    struct worker *worker = mem_alloc(sizeof *worker);
    worker->fd = fd;
    set_limits(worker);
    return worker;
}

static void end(struct worker *worker)
{
    if (worker->pid > 0) {
        (void)kill(worker->pid, SIGKILL);
        while (waitpid(worker->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    worker->pid = 0;
    worker->is_dead = true;
    fd_close(&worker->fd);
}

struct worker *worker_free(struct worker *worker)
{
    if (worker == NULL)
        return NULL;
    end(worker);
    buf_done(&worker->in);
    buf_done(&worker->out);
    buf_done(&worker->queue);
    free(worker);
    return NULL;
}

int worker_pid(const struct worker *worker)
{
    return worker->pid;
}

bool worker_is_dead(const struct worker *worker)
{
    return worker->is_dead;
}

uint64_t worker_runs(const struct worker *worker)
{
    return worker->runs;
}

/* --- Requests --- */

static int check_alive(const struct worker *worker, struct err *err)
{
    if (worker->is_dead)
        return err_set(err, ERR_GONE, "the worker has ended");
    return 0;
}

static int wait_for(const struct worker *worker, short events, int64_t ms, struct err *err)
{
    struct pollfd poller = {.fd = worker->fd, .events = events};
    int ready = SYS(poll(&poller, 1, (int)MIN(ms, (int64_t)INT32_MAX)));
    if (ready < 0 && errno != EINTR)
        return err_sys(err, errno, "wait for a worker");
    return ready == 0 ? err_set(err, ERR_TIMEOUT, "no answer in time") : 0;
}

/* From `*at` on, and as far as it goes now unless it `waits`. A worker that died is an error, not a
 * signal. */
static int send_bytes(struct worker *worker, struct str bytes, size_t *at, bool waits,
                      struct err *err)
{
    while (*at < bytes.len) {
        ssize_t sent =
            SYS(send(worker->fd, bytes.ptr + *at, bytes.len - *at, MSG_DONTWAIT | MSG_NOSIGNAL));
        if (sent >= 0)
            *at += (size_t)sent;
        else if (errno == EAGAIN && !waits)
            return 0;
        else if (errno != EAGAIN && errno != EINTR)
            return err_sys(err, errno, "write to a worker");
        else if (errno == EAGAIN && wait_for(worker, POLLOUT, ANSWER_MS, err) < 0)
            return -1;
    }
    return 0;
}

static int send_queue(struct worker *worker, bool waits, struct err *err)
{
    if (send_bytes(worker, buf_str(&worker->queue), &worker->queue_at, waits, err) < 0)
        return -1;
    if (worker->queue_at == worker->queue.len) {
        buf_clear(&worker->queue);
        worker->queue_at = 0;
    }
    return 0;
}

/* Between runs, when the worker does nothing but read. */
static int send_request(struct worker *worker, struct err *err)
{
    size_t at = 0;
    if (worker->out.len > WIRE_BODY_MAX)
        return err_set(err, ERR_TOO_LARGE, "a request of %zu bytes to an isolate", worker->out.len);
    isolate_wire_end(&worker->out);
    if (send_queue(worker, true, err) == 0 &&
        send_bytes(worker, buf_str(&worker->out), &at, true, err) == 0)
        return 0;
    end(worker);
    return -1;
}

static void take_off(struct worker *worker, const struct isolate_wire_frame *frame)
{
    buf_consume(&worker->in, WIRE_HEAD + frame->body.len);
}

static int failed(struct worker *worker, const struct isolate_wire_frame *frame, struct err *err)
{
    struct str body = frame->body, message = {0};
    uint32_t code = 0;
    if (frame->type != WIRE_FAILED || !isolate_wire_get_u32(&body, &code) ||
        !isolate_wire_get_str(&body, &message) || code >= ERR_COUNT) {
        end(worker);
        return err_set(err, ERR_INTERNAL, "a worker answered what was not asked");
    }
    (void)err_set(err, (enum err_code)code, "%.*s", STR_ARG(message));
    take_off(worker, frame);
    return -1;
}

/* One request, one answer of the given type. */
static int exchange(struct worker *worker, enum isolate_wire_type expected,
                    struct isolate_wire_frame *ret_frame, struct err *err)
{
    if (send_request(worker, err) < 0)
        return -1;
    if (isolate_wire_receive(worker->fd, &worker->in, ANSWER_MS, ret_frame, err) < 0) {
        end(worker);
        return -1;
    }
    return ret_frame->type == expected ? 0 : failed(worker, ret_frame, err);
}

static int exchange_number(struct worker *worker, uint32_t *ret_number, struct err *err)
{
    struct isolate_wire_frame frame;
    if (exchange(worker, WIRE_OPENED, &frame, err) < 0)
        return -1;
    if (ret_number != NULL)
        *ret_number = frame.isolate;
    take_off(worker, &frame);
    return 0;
}

int worker_open(struct worker *worker, const struct isolate_limits *limits, uint32_t *ret_isolate,
                struct err *err)
{
    if (check_alive(worker, err) < 0)
        return -1;
    isolate_wire_begin(&worker->out, WIRE_OPEN, 0);
    isolate_wire_put_limits(&worker->out, limits);
    return exchange_number(worker, ret_isolate, err);
}

static int simple(struct worker *worker, enum isolate_wire_type type, uint32_t isolate,
                  uint32_t *ret_number, struct err *err)
{
    if (check_alive(worker, err) < 0)
        return -1;
    isolate_wire_begin(&worker->out, type, isolate);
    return exchange_number(worker, ret_number, err);
}

int worker_close(struct worker *worker, uint32_t isolate, struct err *err)
{
    return simple(worker, WIRE_CLOSE, isolate, NULL, err);
}

int worker_fork(struct worker *worker, uint32_t isolate, uint32_t *ret_copy, struct err *err)
{
    return simple(worker, WIRE_FORK, isolate, ret_copy, err);
}

int worker_checkpoint(struct worker *worker, uint32_t isolate, uint32_t *ret_checkpoint,
                      struct err *err)
{
    return simple(worker, WIRE_CHECKPOINT, isolate, ret_checkpoint, err);
}

int worker_rollback(struct worker *worker, uint32_t isolate, uint32_t checkpoint, struct err *err)
{
    if (check_alive(worker, err) < 0)
        return -1;
    isolate_wire_begin(&worker->out, WIRE_ROLLBACK, isolate);
    isolate_wire_put_u32(&worker->out, checkpoint);
    return exchange_number(worker, NULL, err);
}

int worker_pause(struct worker *worker, uint32_t isolate, struct buf *out, struct err *err)
{
    if (check_alive(worker, err) < 0)
        return -1;
    isolate_wire_begin(&worker->out, WIRE_PAUSE, isolate);
    struct isolate_wire_frame frame;
    if (exchange(worker, WIRE_BYTES, &frame, err) < 0)
        return -1;
    struct str body = frame.body, bytes = {0};
    int result = isolate_wire_get_str(&body, &bytes)
                     ? buf_append(out, bytes, err)
                     : err_set(err, ERR_INTERNAL, "a worker's answer is cut off");
    take_off(worker, &frame);
    return result;
}

int worker_resume(struct worker *worker, struct str bytes, const struct isolate_limits *limits,
                  uint32_t *ret_isolate, struct err *err)
{
    if (check_alive(worker, err) < 0)
        return -1;
    if (bytes.len > WIRE_BODY_MAX - (1 << 16))
        return err_set(err, ERR_TOO_LARGE, "an image of %zu bytes", bytes.len);
    isolate_wire_begin(&worker->out, WIRE_RESUME, 0);
    isolate_wire_put_limits(&worker->out, limits);
    isolate_wire_put_str(&worker->out, bytes);
    return exchange_number(worker, ret_isolate, err);
}

/* --- Runs --- */

int worker_answer(struct worker *worker, uint64_t call, bool ok, struct str json, struct err *err)
{
    if (check_alive(worker, err) < 0)
        return -1;
    isolate_wire_begin(&worker->out, WIRE_ANSWER, (uint32_t)(call >> 32));
    isolate_wire_put_u32(&worker->out, (uint32_t)call);
    isolate_wire_put_u32(&worker->out, ok);
    isolate_wire_put_str(&worker->out, json);
    isolate_wire_end(&worker->out);
    buf_consume(&worker->queue, worker->queue_at);
    worker->queue_at = 0;
    if (json.len > WORKER_ANSWER_SHORT && worker->queue.len + worker->out.len > WIRE_BODY_MAX)
        return err_set(err, ERR_TOO_LARGE, "results of more than %d bytes at once", WIRE_BODY_MAX);
    if (buf_append(&worker->queue, buf_str(&worker->out), err) < 0)
        return -1;
    if (send_queue(worker, false, err) == 0)
        return 0;
    end(worker);
    return -1;
}

static bool serve_console(const struct worker_host *host, struct str body)
{
    uint32_t stream = 0;
    struct str text = {0};
    if (!isolate_wire_get_u32(&body, &stream) || stream > 1 || !isolate_wire_get_str(&body, &text))
        return false;
    if (host != NULL && host->console != NULL)
        host->console(host->user, stream == 1 ? ISOLATE_STDERR : ISOLATE_STDOUT, text);
    return true;
}

static bool serve_bridge(struct worker *worker, const struct worker_host *host, uint32_t tag,
                         struct str body)
{
    uint32_t id = 0;
    struct str name = {0}, args = {0};
    const char *why = "there is no such bridge here";
    if (!isolate_wire_get_u32(&body, &id) || !isolate_wire_get_str(&body, &name) ||
        !isolate_wire_get_str(&body, &args))
        return false;
    uint64_t call = (uint64_t)tag << 32 | id;
    if (host != NULL && host->bridge != NULL &&
        host->bridge(host->user, worker, call, name, args, &why))
        return true;
    AUTO_BUF struct buf json = {0};
    struct json_out out = {.buf = &json};
    struct err err = {0};
    json_begin_object(&out);
    json_key(&out, "name"), json_put_cstr(&out, "TypeError");
    json_key(&out, "message"), json_put_cstr(&out, why);
    json_end_object(&out);
    return worker_answer(worker, call, false, buf_str(&json), &err) == 0;
}

static void killed(struct worker *worker, enum isolate_status status, const char *name,
                   const char *message, struct isolate_result *result)
{
    end(worker);
    isolate_result_done(result);
    result->status = status;
    result->is_gone = true;
    buf_put_cstr(&result->json, "null");
    buf_put_cstr(&result->error_name, name);
    buf_put_cstr(&result->error_message, message);
    buf_printf(&result->error_stack, "%s: %s", name, message);
}

/* One message of a running worker: 1 when the run is done. */
static int serve_message(struct worker *worker, const struct isolate_wire_frame *frame,
                         const struct worker_host *host, struct isolate_result *result,
                         struct err *err)
{
    struct str body = frame->body;
    bool ok = true;
    switch (frame->type) {
    case WIRE_CONSOLE:
        ok = serve_console(host, body);
        break;
    case WIRE_BRIDGE:
        ok = serve_bridge(worker, host, frame->isolate, body);
        break;
    case WIRE_DONE:
        if (isolate_wire_get_result(&body, result)) {
            take_off(worker, frame);
            return 1;
        }
        ok = false;
        break;
    default:
        return failed(worker, frame, err);
    }
    if (!ok || worker->is_dead) {
        killed(worker, ISOLATE_CRASH, "EngineError", "the worker broke its protocol", result);
        return 1;
    }
    take_off(worker, frame);
    return 0;
}

static int read_some(struct worker *worker, struct err *err)
{
    char *space = NULL;
    if (buf_reserve(&worker->in, READ_SIZE, &space, err) < 0)
        return -1;
    ssize_t size = SYS(recv(worker->fd, space, READ_SIZE, MSG_DONTWAIT));
    if (size < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (size < 0)
        return err_sys(err, errno, "read from a worker");
    if (size == 0)
        return err_set(err, ERR_UNAVAILABLE, "the worker has gone");
    buf_commit(&worker->in, (size_t)size);
    return 0;
}

/* Until there is something to read, or room for the queue, or an answer was put there. */
static int await_news(struct worker *worker, const struct worker_host *host, int64_t until_ms,
                      struct err *err)
{
    bool writes = worker->queue.len > 0;
    int64_t left = until_ms - clock_now_ms();
    if (left <= 0)
        return err_set(err, ERR_TIMEOUT, "no answer in time");
    if (host == NULL || host->wait == NULL || !host->wait(host->user, worker->fd, writes, left))
        return wait_for(worker, (short)(POLLIN | (writes ? POLLOUT : 0)), left, err);
    return check_alive(worker, err);
}

/* The next message of a run, while answers go the other way. */
static int receive(struct worker *worker, const struct worker_host *host, int64_t until_ms,
                   struct isolate_wire_frame *ret_frame, struct err *err)
{
    for (;;) {
        int got = worker->in.len == 0 ? 0 : isolate_wire_take(&worker->in, ret_frame, err);
        if (got != 0)
            return got < 0 ? -1 : 0;
        if (await_news(worker, host, until_ms, err) < 0 || send_queue(worker, false, err) < 0 ||
            read_some(worker, err) < 0)
            return -1;
    }
}

int worker_run(struct worker *worker, uint32_t isolate, const struct isolate_limits *limits,
               const struct isolate_call *call, const struct worker_host *host,
               struct isolate_result *ret_result, struct err *err)
{
    if (check_alive(worker, err) < 0)
        return -1;
    if (call->module_count > WIRE_MODULES_MAX)
        return err_set(err, ERR_TOO_LARGE, "%zu modules, at most %d are taken", call->module_count,
                       WIRE_MODULES_MAX);
    isolate_wire_begin(&worker->out, WIRE_RUN, isolate);
    isolate_wire_put_limits(&worker->out, limits);
    isolate_wire_put_call(&worker->out, call);
    if (send_request(worker, err) < 0)
        return -1;
    worker->runs++;
    int64_t until = clock_now_ms() + limits->timeout_ms + KILL_AFTER_MS;
    for (;;) {
        struct isolate_wire_frame frame;
        if (receive(worker, host, until, &frame, err) < 0) {
            bool late = err->code == ERR_TIMEOUT;
            killed(worker, late ? ISOLATE_TIMEOUT : ISOLATE_CRASH,
                   late ? "TimeoutError" : "EngineError",
                   late ? "the code ran too long and was killed" : "the worker ended", ret_result);
            return 0;
        }
        int done = serve_message(worker, &frame, host, ret_result, err);
        if (done != 0)
            return done < 0 ? -1 : 0;
    }
}
