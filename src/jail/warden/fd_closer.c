#include "jail/warden/fd_closer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/fd_pass.h"
#include "base/sys.h"
#include "jail/warden/child.h"
#include "jail/wire/linux.h"

enum { NICE = 5, SOCKET_FD = 3 };

/* Holds nothing but its socket, and leaves when that is closed. */
static void fd_closer_work(UNUSED const void *ctx, int socket)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    (void)prctl(PR_SET_NAME, "fd_closer", 0, 0, 0);
    (void)setpriority(PRIO_PROCESS, 0, NICE);
    if (dup2(socket, SOCKET_FD) < 0 || k_close_range(SOCKET_FD + 1, ~0u, 0) < 0)
        _exit(1);
    for (;;) {
        char byte;
        struct iovec part = {.iov_base = &byte, .iov_len = 1};
        int fds[FD_CLOSER_BATCH];
        size_t count = 0;
        ssize_t got = fd_recv(SOCKET_FD, &part, 1, fds, FD_CLOSER_BATCH, &count, 0);
        if (got <= 0)
            _exit(0);
        while (count > 0)
            fd_close(&fds[--count]);
    }
}

int fd_closer_start(struct fd_closer *fd_closer, struct err *err)
{
    pid_t pid;
    int socket;
    if (child_start(fd_closer_work, NULL, &pid, &socket, err) < 0)
        return -1;
    *fd_closer = (struct fd_closer){.pid = pid, .socket = socket};
    return 0;
}

bool fd_closer_flush(struct fd_closer *fd_closer)
{
    char byte = 0;
    if (fd_closer->count == 0)
        return false;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    /* One that is too slow, or gone, is not waited for: then closing here is what is left. */
    (void)!fd_send(fd_closer->socket, &part, 1, fd_closer->fds, fd_closer->count, MSG_DONTWAIT);
    while (fd_closer->count > 0)
        fd_close(&fd_closer->fds[--fd_closer->count]);
    return true;
}

void fd_closer_take(struct fd_closer *fd_closer, int *fd)
{
    if (fd_closer->socket <= 0 || *fd < 0) {
        fd_close(fd);
        return;
    }
    fd_closer->fds[fd_closer->count++] = fd_take(fd);
    if (fd_closer->count == FD_CLOSER_BATCH)
        (void)fd_closer_flush(fd_closer);
}

void fd_closer_stop(struct fd_closer *fd_closer)
{
    if (fd_closer->socket <= 0)
        return;
    (void)fd_closer_flush(fd_closer);
    child_stop(fd_closer->pid, &fd_closer->socket);
    *fd_closer = (struct fd_closer){0};
}
