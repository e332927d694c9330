#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fd_pass.h"

struct ends {
    int fds[2];
};

static struct ends make_ends(void)
{
    struct ends ends = {{-1, -1}};
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.fds), 0);
    return ends;
}

static int lowest_free(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    (void)close(fd);
    return fd;
}

static ssize_t send_copies(int socket, size_t count)
{
    int fds[FD_PASS_MAX];
    char bytes[] = "abc";
    struct iovec parts[] = {{bytes, 1}, {bytes + 1, 2}};
    for (size_t i = 0; i < count; i++)
        fds[i] = socket;
    return fd_send(socket, parts, countof(parts), fds, count, 0);
}

TEST(descriptors_arrive_with_their_bytes)
{
    struct ends ends = make_ends();
    AUTO_CLOSE int near = ends.fds[0], far = ends.fds[1];
    int fds[2] = {-1, -1};
    size_t count = 9;
    char first[2], second[2];
    struct iovec parts[] = {{first, 2}, {second, 2}};
    CHECK_INT(send_copies(near, 2), 3);
    CHECK_INT(fd_recv(far, parts, countof(parts), fds, 2, &count, 0), 3);
    CHECK_INT(count, 2);
    CHECK(first[0] == 'a' && first[1] == 'b' && second[0] == 'c');
    for (size_t i = 0; i < count; i++) {
        CHECK_INT(fcntl(fds[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        fd_close(&fds[i]);
    }
    CHECK_INT(send_copies(near, 0), 3);
    CHECK_INT(fd_recv(far, parts, countof(parts), fds, 2, &count, 0), 3);
    CHECK_INT(count, 0);
}

/* With an odd number of them the rounded space has room for one more. */
TEST(more_descriptors_than_wanted_are_refused_and_closed)
{
    struct ends ends = make_ends();
    AUTO_CLOSE int near = ends.fds[0], far = ends.fds[1];
    char bytes[8];
    struct iovec part = {bytes, sizeof bytes};
    for (size_t max = 0; max < 4; max++) {
        int fds[4] = {-1, -1, -1, -1}, free_before = lowest_free();
        size_t count = 9;
        CHECK_INT(send_copies(near, max + 1), 3);
        CHECK_INT(fd_recv(far, &part, 1, fds, max, &count, 0), -1);
        CHECK_INT(errno, EMSGSIZE);
        CHECK_INT(count, 9);
        CHECK_INT(lowest_free(), free_before);
    }
}

TEST(a_message_that_is_cut_leaves_no_descriptor)
{
    struct ends ends = make_ends();
    AUTO_CLOSE int near = ends.fds[0], far = ends.fds[1];
    char byte;
    struct iovec part = {&byte, 1};
    int fds[2] = {-1, -1}, free_before = lowest_free();
    size_t count = 0;
    CHECK_INT(send_copies(near, 2), 3);
    CHECK_INT(fd_recv(far, &part, 1, fds, 2, &count, 0), -1);
    CHECK_INT(errno, EMSGSIZE);
    CHECK_INT(lowest_free(), free_before);
    CHECK_INT(fd_recv(far, &part, 1, fds, 2, &count, MSG_DONTWAIT), -1);
    CHECK_INT(errno, EAGAIN);
}

TEST(the_most_that_the_kernel_takes)
{
    struct ends ends = make_ends();
    AUTO_CLOSE int near = ends.fds[0], far = ends.fds[1];
    int fds[FD_PASS_MAX];
    char bytes[8];
    struct iovec part = {bytes, sizeof bytes};
    size_t count = 0;
    CHECK_INT(send_copies(near, FD_PASS_MAX), 3);
    CHECK_INT(fd_recv(far, &part, 1, fds, FD_PASS_MAX, &count, 0), 3);
    CHECK_INT(count, FD_PASS_MAX);
    for (size_t i = 0; i < count; i++)
        fd_close(&fds[i]);
}
