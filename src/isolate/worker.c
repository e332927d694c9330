#include "isolate/worker.h"

#include <errno.h>
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
#include "base/sys.h"
#include "isolate/wire.h"

enum {
    WORKER_FD = 3,
    START_MS = 10000,
    ANSWER_MS = 10000,   /* for what runs no script */
    KILL_AFTER_MS = 500, /* past a run's deadline: its own two alarms have failed */
};

struct worker {
    int fd;
    pid_t pid;
    bool is_dead;
    uint64_t runs;
    struct buf in, out;
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
    struct wire_frame frame;
    if (wire_receive(worker->fd, &worker->in, START_MS, &frame, err) < 0)
        return err_wrap(err, "start a worker for isolates");
    uint32_t code = 0;
    struct str message = {0};
    if (frame.type == WIRE_FAILED && wire_get_u32(&frame.body, &code) &&
        wire_get_str(&frame.body, &message))
        return err_set(err, code < ERR_COUNT ? (enum err_code)code : ERR_INTERNAL,
                       "start a worker for isolates: %.*s", STR_ARG(message));
    if (frame.type != WIRE_READY)
        return err_set(err, ERR_INTERNAL, "start a worker for isolates: it did not say so");
    buf_consume(&worker->in, WIRE_HEAD + frame.body.len);
    return 0;
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
    worker->in = worker->out = buf_with_limit(WIRE_BODY_MAX + (1 << 20));
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
    worker->in = worker->out = buf_with_limit(WIRE_BODY_MAX + (1 << 20));
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

static int send_request(struct worker *worker, struct err *err)
{
    if (worker->out.len > WIRE_BODY_MAX)
        return err_set(err, ERR_TOO_LARGE, "a request of %zu bytes to an isolate", worker->out.len);
    /* A worker that died takes the pipe with it: that is an error, not a signal. */
    struct sigaction before, ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGPIPE, &ignore, &before);
    int sent = wire_send(worker->fd, &worker->out, err);
    (void)sigaction(SIGPIPE, &before, NULL);
    if (sent < 0)
        end(worker);
    return sent;
}

static void take_off(struct worker *worker, const struct wire_frame *frame)
{
    buf_consume(&worker->in, WIRE_HEAD + frame->body.len);
}

static int failed(struct worker *worker, const struct wire_frame *frame, struct err *err)
{
    struct str body = frame->body, message = {0};
    uint32_t code = 0;
    if (frame->type != WIRE_FAILED || !wire_get_u32(&body, &code) ||
        !wire_get_str(&body, &message) || code >= ERR_COUNT) {
        end(worker);
        return err_set(err, ERR_INTERNAL, "a worker answered what was not asked");
    }
    (void)err_set(err, (enum err_code)code, "%.*s", STR_ARG(message));
    take_off(worker, frame);
    return -1;
}

/* One request, one answer of the given type. */
static int exchange(struct worker *worker, enum wire_type expected, struct wire_frame *ret_frame,
                    struct err *err)
{
    if (send_request(worker, err) < 0)
        return -1;
    if (wire_receive(worker->fd, &worker->in, ANSWER_MS, ret_frame, err) < 0) {
        end(worker);
        return -1;
    }
    return ret_frame->type == expected ? 0 : failed(worker, ret_frame, err);
}

static int exchange_number(struct worker *worker, uint32_t *ret_number, struct err *err)
{
    struct wire_frame frame;
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
    wire_begin(&worker->out, WIRE_OPEN, 0);
    wire_put_limits(&worker->out, limits);
    return exchange_number(worker, ret_isolate, err);
}

static int simple(struct worker *worker, enum wire_type type, uint32_t isolate,
                  uint32_t *ret_number, struct err *err)
{
    if (check_alive(worker, err) < 0)
        return -1;
    wire_begin(&worker->out, type, isolate);
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
    wire_begin(&worker->out, WIRE_ROLLBACK, isolate);
    wire_put_u32(&worker->out, checkpoint);
    return exchange_number(worker, NULL, err);
}

int worker_pause(struct worker *worker, uint32_t isolate, struct buf *out, struct err *err)
{
    if (check_alive(worker, err) < 0)
        return -1;
    wire_begin(&worker->out, WIRE_PAUSE, isolate);
    struct wire_frame frame;
    if (exchange(worker, WIRE_BYTES, &frame, err) < 0)
        return -1;
    struct str body = frame.body, bytes = {0};
    int result = wire_get_str(&body, &bytes)
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
    wire_begin(&worker->out, WIRE_RESUME, 0);
    wire_put_limits(&worker->out, limits);
    wire_put_str(&worker->out, bytes);
    return exchange_number(worker, ret_isolate, err);
}

/* --- Runs --- */

int worker_answer(struct worker *worker, uint64_t call, bool ok, struct str json, struct err *err)
{
    if (check_alive(worker, err) < 0)
        return -1;
    wire_begin(&worker->out, WIRE_ANSWER, (uint32_t)(call >> 32));
    wire_put_u32(&worker->out, (uint32_t)call);
    wire_put_u32(&worker->out, ok);
    wire_put_str(&worker->out, json);
    return send_request(worker, err);
}

static bool serve_console(const struct worker_host *host, struct str body)
{
    uint32_t stream = 0;
    struct str text = {0};
    if (!wire_get_u32(&body, &stream) || stream > 1 || !wire_get_str(&body, &text))
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
    if (!wire_get_u32(&body, &id) || !wire_get_str(&body, &name) || !wire_get_str(&body, &args))
        return false;
    uint64_t call = (uint64_t)tag << 32 | id;
    if (host != NULL && host->bridge != NULL &&
        host->bridge(host->user, worker, call, name, args, &why))
        return true;
    AUTO_BUF struct buf json = {0};
    struct err err = {0};
    buf_printf(&json, "{\"name\":\"TypeError\",\"message\":\"%s\"}", why);
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
static int serve_message(struct worker *worker, const struct wire_frame *frame,
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
        if (wire_get_result(&body, result)) {
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

int worker_run(struct worker *worker, uint32_t isolate, const struct isolate_limits *limits,
               const struct isolate_call *call, const struct worker_host *host,
               struct isolate_result *ret_result, struct err *err)
{
    if (check_alive(worker, err) < 0)
        return -1;
    if (call->module_count > WIRE_MODULES_MAX)
        return err_set(err, ERR_TOO_LARGE, "%zu modules, at most %d are taken", call->module_count,
                       WIRE_MODULES_MAX);
    wire_begin(&worker->out, WIRE_RUN, isolate);
    wire_put_limits(&worker->out, limits);
    wire_put_call(&worker->out, call);
    if (send_request(worker, err) < 0)
        return -1;
    worker->runs++;
    int64_t until = clock_now_ms() + limits->timeout_ms + KILL_AFTER_MS;
    for (;;) {
        struct wire_frame frame;
        int64_t left = MAX(until - clock_now_ms(), (int64_t)0);
        if (wire_receive(worker->fd, &worker->in, left, &frame, err) < 0) {
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
