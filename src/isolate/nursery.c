#include "isolate/nursery.h"

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
#include "base/sys.h"
#include "isolate/nursery_internal.h"
#include "isolate/worker_internal.h"

struct nursery {
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
    if (fd == NURSERY_FD ? fcntl(fd, F_SETFD, 0) < 0 : dup2(fd, NURSERY_FD) < 0)
        _exit(1);
    (void)syscall(SYS_close_range, NURSERY_FD + 1, ~0u, 0);
}

static pid_t execute(const char *program, int fd)
{
    char *argv[] = {(char *)(uintptr_t)NURSERY_NAME, NULL}, *env[] = {NULL};
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
    _exit(nursery_main());
}

static int say_hello(const struct nursery *nursery, const char *const *bridges, struct err *err)
{
    AUTO_BUF struct buf hello = {0};
    for (size_t i = 0; bridges != NULL && bridges[i] != NULL; i++) {
        buf_put_cstr(&hello, bridges[i]);
        buf_put_char(&hello, '\0');
    }
    buf_put_char(&hello, '\0'); /* an empty packet would be the end */
    if (hello.len > NURSERY_HELLO_MAX)
        return err_set(err, ERR_TOO_LARGE, "too many bridges");
    if (SYS(send(nursery->fd, hello.ptr, hello.len, MSG_NOSIGNAL)) != (ssize_t)hello.len)
        return err_sys(err, errno, "write to the nursery");
    return 0;
}

int nursery_start(const struct nursery_options *options, struct nursery **ret_nursery,
                  struct err *err)
{
    int pair[2];
    if (SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) < 0)
        return err_sys(err, errno, "make a socket for the nursery");
    AUTO_CLOSE int ours = pair[0], theirs = pair[1];
    pid_t pid = options->program == NULL ? fork_only(theirs) : execute(options->program, theirs);
    if (pid < 0)
        return err_sys(err, errno, "fork the nursery");
    AUTO_NURSERY struct nursery *nursery = mem_alloc(sizeof *nursery);
    nursery->pid = pid;
    nursery->fd = fd_take(&ours);
    if (say_hello(nursery, options->bridges, err) < 0)
        return -1;
    *ret_nursery = nursery;
    nursery = NULL;
    return 0;
}

struct nursery *nursery_free(struct nursery *nursery)
{
    if (nursery == NULL)
        return NULL;
    fd_close(&nursery->fd);
    (void)kill(nursery->pid, SIGKILL);
    while (waitpid(nursery->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    free(nursery);
    return NULL;
}

int nursery_fd(const struct nursery *nursery)
{
    return nursery->fd;
}

int nursery_pid(const struct nursery *nursery)
{
    return nursery->pid;
}

/* --- Workers --- */

int nursery_ask(struct nursery *nursery, struct err *err)
{
    char one = 1;
    if (SYS(send(nursery->fd, &one, 1, MSG_DONTWAIT | MSG_NOSIGNAL)) == 1)
        return 0;
    if (errno == EAGAIN)
        return err_set(err, ERR_BUSY, "the nursery has enough to do");
    return err_set(err, ERR_UNAVAILABLE, "the nursery has gone");
}

/* The two descriptors of a message, or none; others that came along are closed. */
static void take_fds(struct msghdr *message, int ret_fds[2])
{
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head != NULL;
         head = CMSG_NXTHDR(message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd = -1;
            memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
            if (i < 2 && ret_fds[i] < 0)
                ret_fds[i] = fd;
            else
                fd_close(&fd);
        }
    }
}

int nursery_next(struct nursery *nursery, struct worker **ret_worker, struct err *err)
{
    struct nursery_reply reply = {0};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(4 * sizeof(int))];
    } control = {0};
    struct iovec part = {&reply, sizeof reply};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    ssize_t size = SYS(recvmsg(nursery->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC));
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    int fds[2] = {-1, -1};
    if (size > 0)
        take_fds(&message, fds);
    AUTO_CLOSE int fd = fds[0], pidfd = fds[1];
    if (size != sizeof reply)
        return err_set(err, ERR_UNAVAILABLE, "the nursery has gone");
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
