#include "isolate/spawner/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/fd_pass.h"
#include "base/sys.h"
#include "isolate/client/worker_internal.h"
#include "isolate/spawner/spawner_internal.h"

struct spawner {
    int fd;
    pid_t pid;
};

/* --- Life --- */

/* In the child, which may share its parent's memory until it executes: nothing but system calls. */
static void keep_socket(int fd)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (fd == SPAWNER_FD ? fcntl(fd, F_SETFD, 0) < 0 : dup2(fd, SPAWNER_FD) < 0)
        _exit(1);
    (void)syscall(SYS_close_range, SPAWNER_FD + 1, ~0u, 0);
}

static pid_t execute(const char *program, int fd)
{
    char *argv[] = {(char *)(uintptr_t)SPAWNER_NAME, NULL}, *env[] = {NULL};
    /* The parent is known by its number from before: the child may see another one already. */
    pid_t pid = SYS(vfork());
    if (pid != 0)
        return pid;
    keep_socket(fd);
    (void)execve(program, argv, env);
    _exit(127);
}

static pid_t fork_only(int fd)
{
    pid_t pid = SYS(fork());
    if (pid != 0)
        return pid;
    keep_socket(fd);
    _exit(spawner_main());
}

static int say_hello(const struct spawner *spawner, const char *const *bridges, struct err *err)
{
    AUTO_BUF struct buf hello = {0};
    for (size_t i = 0; bridges != NULL && bridges[i] != NULL; i++) {
        buf_put_cstr(&hello, bridges[i]);
        buf_put_char(&hello, '\0');
    }
    buf_put_char(&hello, '\0'); /* an empty packet would be the end */
    if (hello.len > SPAWNER_HELLO_MAX)
        return err_set(err, ERR_TOO_LARGE, "too many bridges");
    if (SYS(send(spawner->fd, hello.ptr, hello.len, MSG_NOSIGNAL)) != (ssize_t)hello.len)
        return err_sys(err, errno, "write to the spawner");
    return 0;
}

int spawner_start(const struct spawner_options *options, struct spawner **ret_spawner,
                  struct err *err)
{
    int pair[2];
    if (SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) < 0)
        return err_sys(err, errno, "make a socket for the spawner");
    AUTO_CLOSE int ours = pair[0], theirs = pair[1];
    pid_t pid = options->program == NULL ? fork_only(theirs) : execute(options->program, theirs);
    if (pid < 0)
        return err_sys(err, errno, "fork the spawner");
    AUTO_SPAWNER struct spawner *spawner = mem_alloc(sizeof *spawner);
    spawner->pid = pid;
    spawner->fd = fd_take(&ours);
    if (say_hello(spawner, options->bridges, err) < 0)
        return -1;
    *ret_spawner = spawner;
    spawner = NULL;
    return 0;
}

struct spawner *spawner_free(struct spawner *spawner)
{
    if (spawner == NULL)
        return NULL;
    fd_close(&spawner->fd);
    (void)kill(spawner->pid, SIGKILL);
    while (waitpid(spawner->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    free(spawner);
    return NULL;
}

int spawner_fd(const struct spawner *spawner)
{
    return spawner->fd;
}

int spawner_pid(const struct spawner *spawner)
{
    return spawner->pid;
}

/* --- Workers --- */

int spawner_ask(struct spawner *spawner, struct err *err)
{
    char one = 1;
    if (SYS(send(spawner->fd, &one, 1, MSG_DONTWAIT | MSG_NOSIGNAL)) == 1)
        return 0;
    if (errno == EAGAIN)
        return err_set(err, ERR_BUSY, "the spawner is busy; try again");
    return err_set(err, ERR_UNAVAILABLE, "the spawner has exited");
}

int spawner_next(struct spawner *spawner, struct worker **ret_worker, struct err *err)
{
    struct spawner_reply reply = {0};
    struct iovec part = {&reply, sizeof reply};
    int fds[2] = {-1, -1};
    size_t count = 0;
    ssize_t size = fd_recv(spawner->fd, &part, 1, fds, countof(fds), &count, MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN)
        return 0;
    AUTO_CLOSE int fd = fds[0], pidfd = fds[1];
    if (size != sizeof reply)
        return err_set(err, ERR_UNAVAILABLE, "the spawner has exited");
    if (reply.err.code != ERR_NONE || fd < 0 || pidfd < 0) {
        reply.err.msg[sizeof reply.err.msg - 1] = '\0';
        return err_set(err, ERR_LIMIT, "make a worker for isolates: %s", reply.err.msg);
    }
    struct worker *worker = worker_adopt(fd_take(&fd));
    worker->pidfd = fd_take(&pidfd);
    worker->number = reply.pid;
    worker->is_new = true;
    *ret_worker = worker;
    return 1;
}
