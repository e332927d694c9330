#include "test.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/ports/tunnel.h"
#include "base/fd.h"
#include "io/loop.h"

struct rig {
    struct loop *loop;
    struct tunnel *tunnel;
    int left, right; /* the far ends */
    int moved, closed;
};

static void on_bytes(void *ctx)
{
    struct rig *rig = ctx;
    rig->moved++;
}

static void on_closed(void *ctx)
{
    struct rig *rig = ctx;
    rig->closed++;
    rig->tunnel = tunnel_free(rig->tunnel);
}

static const struct tunnel_calls calls = {on_bytes, on_closed};

static void rig_open(struct rig *rig)
{
    struct err err = {0};
    int left[2], right[2];
    *rig = (struct rig){0};
    (void)signal(SIGPIPE, SIG_IGN);
    CHECK_OK(loop_open(&rig->loop, &err));
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, left), 0);
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, right), 0);
    rig->left = left[0];
    rig->right = right[0];
    CHECK_OK(tunnel_open(rig->loop, left[1], right[1], STR("for left"), STR("for right"), &calls,
                         rig, &rig->tunnel, &err));
}

static void rig_close(struct rig *rig)
{
    rig->tunnel = tunnel_free(rig->tunnel);
    fd_close(&rig->left);
    fd_close(&rig->right);
    rig->loop = loop_free(rig->loop);
}

static void settle(struct rig *rig)
{
    for (int i = 0; i < 50; i++)
        (void)loop_step(rig->loop);
}

static void check_read(int fd, const char *want)
{
    char bytes[64] = "";
    CHECK_INT(read(fd, bytes, sizeof bytes - 1), (int)strlen(want));
    CHECK_CSTR(bytes, want);
}

TEST(tunnel_joins_and_passes_ends_on)
{
    struct rig rig;
    rig_open(&rig); /* a first loop leaves descriptors of the library's own */
    rig_close(&rig);
    int before = test_open_fds();
    rig_open(&rig);
    settle(&rig);
    check_read(rig.left, "for left");
    check_read(rig.right, "for right");
    CHECK_INT(write(rig.left, "ping", 4), 4);
    settle(&rig);
    check_read(rig.right, "ping");
    CHECK_INT(rig.moved, 1);
    /* Half an end: the other direction goes on. */
    CHECK_INT(shutdown(rig.left, SHUT_WR), 0);
    settle(&rig);
    check_read(rig.right, "");
    CHECK_INT(write(rig.right, "pong", 4), 4);
    settle(&rig);
    check_read(rig.left, "pong");
    CHECK_INT(rig.closed, 0);
    fd_close(&rig.right);
    settle(&rig);
    CHECK_INT(rig.closed, 1);
    rig_close(&rig);
    CHECK_INT(test_open_fds(), before);
}

TEST(tunnel_waits_for_the_slower_side)
{
    static char block[64 << 10];
    struct rig rig;
    size_t sent = 0, got = 0;
    rig_open(&rig);
    settle(&rig);
    check_read(rig.right, "for right");
    for (;;) { /* until nobody takes any more */
        ssize_t count = write(rig.left, block, sizeof block);
        if (count > 0)
            sent += (size_t)count;
        settle(&rig);
        if (count <= 0 && write(rig.left, block, 1) != 1)
            break;
        sent += count <= 0;
    }
    CHECK(sent < 4 << 20); /* bounded: the sender was stopped */
    for (int quiet = 0; quiet < 3; quiet++) {
        ssize_t count;
        while ((count = read(rig.right, block, sizeof block)) > 0) {
            got += (size_t)count;
            quiet = 0;
        }
        settle(&rig);
    }
    CHECK_INT(got, sent);
    rig_close(&rig);
}

TEST(tunnel_ends_when_a_side_breaks)
{
    struct rig rig;
    rig_open(&rig);
    settle(&rig);
    fd_close(&rig.left);
    CHECK_INT(write(rig.right, "x", 1), 1);
    settle(&rig);
    CHECK_INT(write(rig.right, "y", 1), rig.closed == 1 ? -1 : 1);
    settle(&rig);
    CHECK_INT(rig.closed, 1);
    rig_close(&rig);
}
