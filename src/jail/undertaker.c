#include "jail/undertaker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "jail/child.h"
#include "jail/kernel.h"

enum { NICE = 5, SOCKET_FD = 3 };

union control {
    struct cmsghdr align;
    char space[CMSG_SPACE(sizeof(int) * UNDERTAKER_BATCH)];
};

static void close_all(struct msghdr *message)
{
    struct cmsghdr *head = CMSG_FIRSTHDR(message);
    if (head == NULL || head->cmsg_type != SCM_RIGHTS)
        return;
    size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
        fd_close(&fd);
    }
}

/* Holds nothing but its socket, and leaves when that is closed. */
static void work(UNUSED const void *ctx, int socket)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    (void)prctl(PR_SET_NAME, "undertaker", 0, 0, 0);
    (void)setpriority(PRIO_PROCESS, 0, NICE);
    if (dup2(socket, SOCKET_FD) < 0 || k_close_range(SOCKET_FD + 1, ~0u, 0) < 0)
        _exit(1);
    for (;;) {
        union control control = {0};
        char byte;
        struct iovec part = {.iov_base = &byte, .iov_len = 1};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control.space,
                                 .msg_controllen = sizeof control.space};
        ssize_t got = recvmsg(SOCKET_FD, &message, MSG_CMSG_CLOEXEC);
        if (got == 0 || (got < 0 && errno != EINTR))
            _exit(0);
        if (got > 0)
            close_all(&message);
    }
}

int undertaker_start(struct undertaker *undertaker, struct err *err)
{
    pid_t pid;
    int socket;
    if (child_start(work, NULL, &pid, &socket, err) < 0)
        return -1;
    *undertaker = (struct undertaker){.pid = pid, .socket = socket};
    return 0;
}

bool undertaker_flush(struct undertaker *undertaker)
{
    union control control = {0};
    char byte = 0;
    size_t size = sizeof(int) * undertaker->count;
    if (undertaker->count == 0)
        return false;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = CMSG_SPACE(size)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(head), undertaker->fds, size);
    /* One that is too slow, or gone, is not waited for: then closing here is what is left. */
    (void)sendmsg(undertaker->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (undertaker->count > 0)
        fd_close(&undertaker->fds[--undertaker->count]);
    return true;
}

void undertaker_take(struct undertaker *undertaker, int *fd)
{
    if (undertaker->socket <= 0 || *fd < 0) {
        fd_close(fd);
        return;
    }
    undertaker->fds[undertaker->count++] = fd_take(fd);
    if (undertaker->count == UNDERTAKER_BATCH)
        (void)undertaker_flush(undertaker);
}

void undertaker_stop(struct undertaker *undertaker)
{
    if (undertaker->socket <= 0)
        return;
    (void)undertaker_flush(undertaker);
    child_stop(undertaker->pid, &undertaker->socket);
    *undertaker = (struct undertaker){0};
}
