#include "egress/gateway/post.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/fd_pass.h"
#include "base/sys.h"

enum { SEND_BUFFER = 1 << 20 };

struct head {
    uint32_t type, number;
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
    assert(post->fd_count <= POST_FDS_MAX && post->bytes.len <= POST_MAX - sizeof head);
    if (fd_send(fd, parts, countof(parts), post->fds, post->fd_count, 0) < 0)
        return err_sys(err, errno, "send to the gateway");
    return 0;
}

int post_receive(int fd, char *space, struct post *ret_post, struct err *err)
{
    struct head head = {0};
    struct iovec parts[] = {{.iov_base = &head, .iov_len = sizeof head},
                            {.iov_base = space, .iov_len = POST_MAX - sizeof head}};
    struct post post = {0};
    ssize_t got =
        fd_recv(fd, parts, countof(parts), post.fds, POST_FDS_MAX, &post.fd_count, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return 0;
    if (got < 0 && errno == EMSGSIZE)
        return err_set(err, ERR_INTERNAL, "a gateway packet exceeded the buffer");
    if (got < 0)
        return err_sys(err, errno, "receive from the gateway");
    if (got == 0)
        return err_set(err, ERR_GONE, "the other end of the gateway's socket is closed");
    if ((size_t)got < sizeof head) {
        post_close_fds(&post);
        return err_set(err, ERR_INTERNAL, "a gateway packet is too short");
    }
    post.type = head.type;
    post.number = head.number;
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
