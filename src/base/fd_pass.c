#include "base/fd_pass.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/sys.h"

union control {
    struct cmsghdr align;
    char space[CMSG_SPACE(sizeof(int) * FD_PASS_MAX)];
};

static struct iovec *as_given(const struct iovec *parts)
{
    return (struct iovec *)(uintptr_t)parts; /* struct msghdr has no const */
}

ssize_t fd_send(int socket, const struct iovec *parts, size_t part_count, const int *fds,
                size_t fd_count, int flags)
{
    union control control;
    struct msghdr message = {.msg_iov = as_given(parts)};
    message.msg_iovlen = (__typeof__(message.msg_iovlen))part_count;
    assert(fd_count <= FD_PASS_MAX);
    if (fd_count > 0) {
        size_t size = sizeof *fds * fd_count;
        memset(control.space, 0, CMSG_SPACE(size));
        message.msg_control = control.space;
        message.msg_controllen = (__typeof__(message.msg_controllen))CMSG_SPACE(size);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = (__typeof__(head->cmsg_len))CMSG_LEN(size);
        memcpy(CMSG_DATA(head), fds, size);
    }
    ssize_t sent;
    do {
        sent = SYS(sendmsg(socket, &message, MSG_NOSIGNAL | flags));
    } while (sent < 0 && errno == EINTR);
    return sent;
}

static size_t take_fds(struct msghdr *message, int *fds, size_t max)
{
    size_t taken = 0;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head != NULL;
         head = CMSG_NXTHDR(message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        assert(count <= max - taken); /* the space has room for no more */
        memcpy(fds + taken, CMSG_DATA(head), count * sizeof(int));
        taken += count;
    }
    return taken;
}

ssize_t fd_recv(int socket, const struct iovec *parts, size_t part_count, int *fds, size_t max,
                size_t *ret_count, int flags)
{
    union control control;
    struct msghdr message = {.msg_iov = as_given(parts), .msg_control = control.space};
    message.msg_iovlen = (__typeof__(message.msg_iovlen))part_count;
    assert(max <= FD_PASS_MAX);
    /* CMSG_SPACE rounds up: the kernel would put one more descriptor into what is left. */
    message.msg_controllen = (__typeof__(message.msg_controllen))CMSG_LEN(sizeof(int) * max);
    memset(control.space, 0, CMSG_SPACE(sizeof(int) * max));
    ssize_t got;
    do {
        got = SYS(recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags));
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return -1;
    size_t count = take_fds(&message, fds, max);
    if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
        while (count > 0)
            fd_close(&fds[--count]);
        errno = EMSGSIZE;
        return -1;
    }
    *ret_count = count;
    return got;
}
