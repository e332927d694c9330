/* Messages: what goes in comes out, what is cut or too long does not. */

#include "test.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "jail/wire/warden.h"
#include "jail/wire/wire.h"

TEST(fields_come_back)
{
    AUTO_BUF struct buf out = buf_with_limit(WIRE_MAX);
    struct err sent = {0}, got = {0};
    (void)err_sys(&sent, ENOENT, "open 'x'");
    wire_begin(&out, 7, 9);
    wire_put_u32(&out, 5);
    wire_put_i64(&out, -3);
    wire_put_cstr(&out, "text");
    wire_put_cstr(&out, "");
    wire_put_cstr(&out, NULL);
    wire_put_err(&out, &sent);
    struct wire_head head;
    struct wire_in in = wire_open(buf_str(&out), &head);
    CHECK_INT(head.type, 7);
    CHECK_INT(head.id, 9);
    CHECK_INT(wire_get_u32(&in), 5);
    CHECK_INT(wire_get_i64(&in), -3);
    CHECK_CSTR(wire_get_cstr(&in), "text");
    CHECK_CSTR(wire_get_cstr(&in), "");
    CHECK(wire_get_cstr(&in) == NULL);
    wire_get_err(&in, &got);
    CHECK_CSTR(got.msg, sent.msg);
    CHECK_INT(got.sys, ENOENT);
    CHECK(wire_ended(&in));
}

TEST(every_cut_of_a_plan_is_refused)
{
    AUTO_BUF struct buf out = buf_with_limit(WIRE_MAX);
    struct err err = {0};
    struct jail_plan plan = {.workspace = "/srv/a", .mount_count = 1, .layer_count = 1}, got;
    plan.mounts[0] = (struct jail_mount){"/srv/b", "/mnt/b", true};
    plan.layers[0] = "/srv/c";
    jail_plan_fill(&plan);
    plan_put(&out, &plan);
    struct wire_in whole = {.rest = buf_str(&out)};
    CHECK_OK(plan_get(&whole, &got, &err));
    CHECK_CSTR(got.mounts[0].dst, "/mnt/b");
    CHECK(got.mounts[0].writable);
    CHECK_CSTR(got.layers[0], "/srv/c");
    CHECK_INT(got.limits.pids, 256);
    for (size_t len = 0; len < out.len; len++) {
        struct wire_in cut = {.rest = str_slice(buf_str(&out), 0, len)};
        CHECK_ERR(plan_get(&cut, &got, &err), ERR_INVALID);
    }
}

TEST(text_with_a_hole_is_refused)
{
    AUTO_BUF struct buf out = buf_with_limit(WIRE_MAX);
    wire_put_u32(&out, 3);
    buf_put(&out, str_n("a\0b\0", 4));
    struct wire_in in = {.rest = buf_str(&out)};
    CHECK(wire_get_cstr(&in) == NULL);
    CHECK(in.bad);
    buf_clear(&out);
    wire_put_u32(&out, 0xfffffff0);
    in = (struct wire_in){.rest = buf_str(&out)};
    CHECK(wire_get_cstr(&in) == NULL);
    CHECK(in.bad);
}

TEST(descriptors_travel_and_are_cloexec)
{
    int pair[2], fds[WIRE_FDS_MAX];
    struct err err = {0};
    static char space[WIRE_MAX];
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    int before = test_open_fds();
    CHECK_OK(wire_send(pair[0], STR("hello"), (int[]){0, 1}, 2, &err));
    CHECK_INT(wire_recv(pair[1], space, fds, true, &err), 5);
    CHECK(fds[0] >= 0 && fds[1] >= 0 && fds[2] == -1);
    wire_close_fds(fds);
    CHECK_INT(test_open_fds(), before);
    CHECK_ERR((int)wire_recv(pair[1], space, fds, false, &err), ERR_LIMIT);
    CHECK_INT(close(pair[0]), 0);
    CHECK_INT(wire_recv(pair[1], space, fds, true, &err), 0);
    CHECK_INT(close(pair[1]), 0);
}
