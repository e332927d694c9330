#include "io/stream.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sys.h"
#include "test.h"

struct side {
    struct loop *loop;
    struct stream *stream;
    struct buf got;
    int take_max; /* bytes taken per call, 0 for all */
    int data_calls, end_calls, drain_calls, closed_calls;
    struct err end, closed;
    bool free_on_data;
};

static void on_data(void *ctx, struct buf *in)
{
    struct side *side = ctx;
    side->data_calls++;
    size_t count = side->take_max > 0 ? MIN((size_t)side->take_max, in->len) : in->len;
    buf_put(&side->got, str_n(in->ptr, count));
    buf_consume(in, count);
    if (side->free_on_data)
        side->stream = stream_free(side->stream);
}

static void on_end(void *ctx, const struct err *why)
{
    struct side *side = ctx;
    side->end_calls++;
    if (why != NULL)
        side->end = *why;
    loop_stop(side->loop);
}

static void on_drain(void *ctx)
{
    struct side *side = ctx;
    side->drain_calls++;
    loop_stop(side->loop);
}

static void on_closed(void *ctx, const struct err *why)
{
    struct side *side = ctx;
    side->closed_calls++;
    if (why != NULL)
        side->closed = *why;
    loop_stop(side->loop);
}

static const struct stream_calls calls = {on_data, on_end, on_drain, on_closed};

static void make_pair(struct loop *loop, struct side *side, int *ret_other)
{
    struct err err = {0};
    int ends[2];
    (void)signal(SIGPIPE, SIG_IGN);
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    side->loop = loop;
    CHECK_OK(stream_open(loop, ends[0], &calls, side, &side->stream, &err));
    *ret_other = ends[1];
}

static void step_until(struct side *side, size_t got)
{
    while (side->got.len < got)
        (void)loop_step(side->loop);
}

TEST(bytes_arrive_and_the_end_is_reported)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    struct side side = {0};
    int other;
    make_pair(loop, &side, &other);
    CHECK_INT(write(other, "hello", 5), 5);
    (void)close(other);
    loop_run(loop);
    CHECK_STR(buf_str(&side.got), "hello");
    CHECK_INT(side.end_calls, 1);
    CHECK_INT(side.end.code, ERR_NONE);
    side.stream = stream_free(side.stream);
    buf_done(&side.got);
}

TEST(untaken_bytes_are_offered_again_and_pause_stops_the_sender)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    struct side side = {.take_max = 2};
    int other;
    make_pair(loop, &side, &other);
    CHECK_INT(write(other, "abcdef", 6), 6);
    step_until(&side, 2);
    CHECK_STR(buf_str(&side.got), "ab");
    stream_resume(side.stream);
    step_until(&side, 4);
    CHECK_STR(buf_str(&side.got), "abcd");

    stream_pause(side.stream);
    CHECK_INT(write(other, "gh", 2), 2);
    (void)loop_step(loop);
    CHECK_STR(buf_str(&side.got), "abcd");
    side.take_max = 0;
    stream_resume(side.stream);
    step_until(&side, 8);
    CHECK_STR(buf_str(&side.got), "abcdefgh");
    side.stream = stream_free(side.stream);
    buf_done(&side.got);
    (void)close(other);
}

TEST(reading_stops_by_itself_when_nobody_takes)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    struct side side = {.take_max = 0};
    int other;
    make_pair(loop, &side, &other);
    side.take_max = 1;
    CHECK_INT(fcntl(other, F_SETFL, O_NONBLOCK), 0);
    static char block[8192];
    size_t sent = 0;
    for (int idle = 0; idle < 3;) {
        ssize_t count = write(other, block, sizeof block);
        idle = count > 0 ? 0 : idle + 1;
        sent += count > 0 ? (size_t)count : 0;
        (void)loop_step(loop);
    }
    CHECK(sent > STREAM_IN_MAX);
    CHECK(sent < STREAM_IN_MAX + (2 << 20)); /* the rest sits in the kernel's buffer */
    side.stream = stream_free(side.stream);
    buf_done(&side.got);
    (void)close(other);
}

TEST(writer_learns_when_to_wait_and_when_to_continue)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    struct side side = {0};
    int other;
    make_pair(loop, &side, &other);
    static char block[64 << 10], sink[64 << 10];
    while (!stream_is_full(side.stream))
        CHECK_OK(stream_write(side.stream, str_n(block, sizeof block), &err));
    CHECK(stream_unsent(side.stream) >= STREAM_HIGH_WATER);
    CHECK_INT(side.drain_calls, 0);
    CHECK_INT(fcntl(other, F_SETFL, O_NONBLOCK), 0);
    while (side.drain_calls == 0) {
        while (read(other, sink, sizeof sink) > 0)
            continue;
        (void)loop_step(loop);
    }
    CHECK(stream_unsent(side.stream) <= STREAM_LOW_WATER);

    while (stream_write(side.stream, str_n(block, sizeof block), &err) == 0)
        continue;
    CHECK_INT(err.code, ERR_TOO_LARGE);
    CHECK(stream_unsent(side.stream) <= STREAM_OUT_MAX);
    side.stream = stream_free(side.stream);
    (void)close(other);
}

TEST(finish_sends_all_then_shuts)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    struct side side = {0};
    int other;
    make_pair(loop, &side, &other);
    CHECK_OK(stream_write(side.stream, STR("bye"), &err));
    stream_finish(side.stream);
    CHECK_ERR(stream_write(side.stream, STR("more"), &err), ERR_UNAVAILABLE);
    CHECK_INT(side.closed_calls, 0); /* never from within our own call */
    loop_run(loop);
    CHECK_INT(side.closed_calls, 1);
    CHECK_INT(side.closed.code, ERR_NONE);
    char bytes[8];
    CHECK_INT(read(other, bytes, sizeof bytes), 3);
    CHECK_INT(read(other, bytes, sizeof bytes), 0);
    CHECK_INT(write(other, "ok", 2), 2); /* the other direction still works */
    step_until(&side, 2);
    CHECK_STR(buf_str(&side.got), "ok");
    side.stream = stream_free(side.stream);
    buf_done(&side.got);
    (void)close(other);
}

TEST(vanished_reader_is_reported_once)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    struct side side = {0};
    int other;
    make_pair(loop, &side, &other);
    (void)close(other);
    CHECK_OK(stream_write(side.stream, STR("x"), &err));
    while (side.closed_calls == 0 || side.end_calls == 0)
        (void)loop_step(loop);
    CHECK_INT(side.closed.code, ERR_UNAVAILABLE);
    CHECK_ERR(stream_write(side.stream, STR("x"), &err), ERR_UNAVAILABLE);
    (void)loop_step(loop);
    CHECK_INT(side.closed_calls, 1);
    side.stream = stream_free(side.stream);
}

TEST(stream_may_be_freed_by_its_own_call)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    struct side side = {.free_on_data = true};
    int other;
    make_pair(loop, &side, &other);
    CHECK_INT(write(other, "x", 1), 1);
    loop_run(loop);
    CHECK(side.stream == NULL);
    CHECK_INT(side.data_calls, 1);
    char byte;
    CHECK_INT(read(other, &byte, 1), 0);
    buf_done(&side.got);
    (void)close(other);
}

#ifdef SG_FAULTS
TEST(failing_read_and_write_are_reported)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    struct side side = {0};
    int other;
    make_pair(loop, &side, &other);
    CHECK_INT(write(other, "x", 1), 1);
    (void)sys_fail_at(1);
    loop_run(loop);
    CHECK_INT(side.end_calls, 1);
    CHECK_INT(side.end.code, ERR_INTERNAL);
    (void)sys_fail_at(1);
    CHECK_OK(stream_write(side.stream, STR("x"), &err));
    (void)sys_fail_at(0);
    loop_run(loop);
    CHECK_INT(side.closed.code, ERR_INTERNAL);
    side.stream = stream_free(side.stream);
    (void)close(other);
}
#endif
