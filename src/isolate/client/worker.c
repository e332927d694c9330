#include "isolate/client/worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "isolate/client/worker_internal.h"

enum { WORKER_FD = 3, START_MS = 10000 };

/* Keys and tokens like to live in the environment; a fork would carry them along. */
static void forget_environment(void)
{
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++)
        explicit_bzero(*entry, strlen(*entry));
    environ = NULL;
}

/* The child keeps nothing of its parent but the socket, and the engine if it brings one. */
void worker_become(int fd, const struct worker_options *options, struct isolate_engine *engine)
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
    worker_serve(WORKER_FD, options, engine);
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
        return err_set(err, ERR_INTERNAL,
                       "start a worker for isolates: the worker did not report that it is ready");
    buf_consume(&worker->in, WIRE_HEAD + frame.body.len);
    return 0;
}

static struct worker *new_worker(int fd)
{
    struct worker *worker = mem_alloc(sizeof *worker);
    worker->fd = fd;
    worker->pidfd = -1;
    worker->in = worker->out = buf_with_limit(WIRE_BODY_MAX + (1 << 20));
    worker->queue = buf_with_limit(WIRE_BODY_MAX + WORKER_QUEUE_SPARE);
    return worker;
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
        worker_become(theirs, options, NULL);

    AUTO_WORKER struct worker *worker = new_worker(fd_take(&ours));
    worker->pid = worker->number = pid;
    fd_close(&theirs); /* so that its death is seen */
    if (await_ready(worker, err) < 0)
        return -1;
    *ret_worker = worker;
    worker = NULL;
    return 0;
}

struct worker *worker_adopt(int fd)
{
    return new_worker(fd);
}

void worker_end(struct worker *worker)
{
    if (worker->pid > 0) {
        (void)kill(worker->pid, SIGKILL);
        while (waitpid(worker->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (worker->pidfd >= 0) /* its spawner reaps it */
        (void)syscall(SYS_pidfd_send_signal, worker->pidfd, SIGKILL, NULL, 0);
    worker->pid = 0;
    worker->is_dead = true;
    fd_close(&worker->fd);
    fd_close(&worker->pidfd);
}

void worker_interrupt(const struct worker *worker)
{
    if (worker->pid > 0)
        (void)kill(worker->pid, SIGUSR1);
    else if (worker->pidfd >= 0)
        (void)syscall(SYS_pidfd_send_signal, worker->pidfd, SIGUSR1, NULL, 0);
}

struct worker *worker_free(struct worker *worker)
{
    if (worker == NULL)
        return NULL;
    worker_end(worker);
    buf_done(&worker->in);
    buf_done(&worker->out);
    buf_done(&worker->queue);
    isolate_result_done(&worker->result);
    free(worker);
    return NULL;
}

int worker_pid(const struct worker *worker)
{
    return worker->number;
}

bool worker_is_dead(const struct worker *worker)
{
    return worker->is_dead;
}

bool worker_has_gone(const struct worker *worker)
{
    struct pollfd poller = {.fd = worker->fd, .events = POLLIN};
    return worker->is_dead || (poll(&poller, 1, 0) == 1 && (poller.revents & POLLHUP) != 0);
}

bool worker_is_busy(const struct worker *worker)
{
    return worker->state != STATE_IDLE;
}

uint64_t worker_runs(const struct worker *worker)
{
    return worker->runs;
}
