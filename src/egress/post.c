#include "egress/post.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"

enum { SEND_BUFFER = 1 << 20 };

struct head {
    uint32_t type, number;
};

union control {
    char space[CMSG_SPACE(sizeof(int) * POST_FDS_MAX)];
    struct cmsghdr align;
};

int post_pair(int ret_fds[2], struct err *err)
{
    int pair[2], size = SEND_BUFFER;
    if (SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair)) < 0)
        return err_sys(err, errno, "socketpair");
    for (int i = 0; i < 2; i++)
        (void)setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    memcpy(ret_fds, pair, sizeof pair);
    return 0;
}

int post_send(int fd, const struct post *post, struct err *err)
{
    struct head head = {post->type, post->number};
    struct iovec parts[] = {
        {.iov_base = &head, .iov_len = sizeof head},
        {.iov_base = (void *)(uintptr_t)post->bytes.ptr, .iov_len = post->bytes.len}};
    union control control = {0};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = countof(parts)};
    assert(post->fd_count <= POST_FDS_MAX && post->bytes.len <= POST_MAX - sizeof head);
    if (post->fd_count > 0) {
        size_t size = sizeof(int) * post->fd_count;
        message.msg_control = control.space;
        message.msg_controllen = CMSG_SPACE(size);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(size);
        memcpy(CMSG_DATA(rights), post->fds, size);
    }
    if (SYS(sendmsg(fd, &message, MSG_NOSIGNAL)) < 0)
        return err_sys(err, errno, "send to the gateway");
    return 0;
}

static void take_fds(struct msghdr *message, struct post *post)
{
    struct cmsghdr *head = CMSG_FIRSTHDR(message);
    if (head == NULL || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
        return;
    post->fd_count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(post->fds, CMSG_DATA(head), post->fd_count * sizeof(int));
}

int post_receive(int fd, char *space, struct post *ret_post, struct err *err)
{
    struct head head = {0};
    struct iovec parts[] = {{.iov_base = &head, .iov_len = sizeof head},
                            {.iov_base = space, .iov_len = POST_MAX - sizeof head}};
    union control control = {0};
    struct msghdr message = {.msg_iov = parts,
                             .msg_iovlen = countof(parts),
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    ssize_t got = SYS(recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT));
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got < 0)
        return err_sys(err, errno, "receive from the gateway");
    if (got == 0)
        return err_set(err, ERR_GONE, "the gateway's other end is gone");
    struct post post = {.type = head.type, .number = head.number};
    take_fds(&message, &post);
    if ((size_t)got < sizeof head || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
        post_close_fds(&post);
        return err_set(err, ERR_INTERNAL, "a packet of the gateway was cut");
    }
    post.bytes = str_n(space, (size_t)got - sizeof head);
    *ret_post = post;
    return 1;
}

void post_close_fds(struct post *post)
{
    for (size_t i = 0; i < post->fd_count; i++)
        fd_close(&post->fds[i]);
    post->fd_count = 0;
}
