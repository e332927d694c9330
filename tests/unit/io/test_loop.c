#include "io/loop.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sys.h"
#include "test.h"

struct seen {
    struct loop *loop;
    struct timer *timer;
    struct watch *watch;
    int calls, events, signo;
};

static void on_timer(void *ctx)
{
    struct seen *seen = ctx;
    if (++seen->calls == 3)
        seen->timer = timer_free(seen->timer);
}

TEST(timer_repeats_until_freed_by_its_own_call)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    struct seen seen = {.loop = loop};
    seen.timer = timer_new(loop, on_timer, &seen);
    CHECK(!timer_is_set(seen.timer));
    timer_set(seen.timer, 1, 1);
    CHECK(timer_is_set(seen.timer));
    loop_run(loop);
    CHECK_INT(seen.calls, 3);
    CHECK(seen.timer == NULL);
}

TEST(cleared_timer_is_silent_and_does_not_hold_the_loop)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    struct seen seen = {.loop = loop};
    seen.timer = timer_new(loop, on_timer, &seen);
    timer_set(seen.timer, 1, 0);
    timer_clear(seen.timer);
    loop_run(loop);
    CHECK_INT(seen.calls, 0);
}

static void on_ready(void *ctx, int events)
{
    struct seen *seen = ctx;
    seen->calls++;
    seen->events = events;
    loop_stop(seen->loop);
}

TEST(watch_tells_readable_writable_and_hangup)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    int ends[2];
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    struct seen seen = {.loop = loop};
    CHECK_OK(watch_new(loop, ends[0], WATCH_WRITE, on_ready, &seen, &seen.watch, &err));
    CHECK((fcntl(ends[0], F_GETFL) & O_NONBLOCK) != 0);
    loop_run(loop);
    CHECK_INT(seen.events, WATCH_WRITE);

    watch_set(seen.watch, WATCH_READ);
    CHECK_INT(write(ends[1], "x", 1), 1);
    loop_run(loop);
    CHECK_INT(seen.events, WATCH_READ);

    watch_set(seen.watch, 0);
    (void)loop_step(loop);
    CHECK_INT(seen.calls, 2);

    watch_set(seen.watch, WATCH_READ);
    (void)close(ends[1]);
    loop_run(loop);
    CHECK((seen.events & WATCH_HANGUP) != 0);
    seen.watch = watch_free(seen.watch);
    (void)close(ends[0]);
}

TEST(watch_refuses_what_cannot_be_waited_for)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    struct watch *watch = NULL;
    CHECK_ERR(watch_new(loop, 9999, WATCH_READ, on_ready, NULL, &watch, &err), ERR_INTERNAL);
    CHECK_MSG("watch a descriptor");
    CHECK(watch == NULL);
}

static void on_signal(void *ctx, int signo)
{
    struct seen *seen = ctx;
    seen->signo = signo;
    loop_stop(seen->loop);
}

TEST(signals_arrive_on_the_loop)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    struct seen seen = {.loop = loop};
    struct signal_watch *watch = NULL;
    CHECK_OK(signal_watch_new(loop, SIGUSR1, on_signal, &seen, &watch, &err));
    CHECK_INT(raise(SIGUSR1), 0);
    loop_run(loop);
    CHECK_INT(seen.signo, SIGUSR1);
    CHECK_ERR(signal_watch_new(loop, SIGKILL, on_signal, &seen, &watch, &err), ERR_INVALID);
}

enum { POSTS = 1000, THREADS = 4 };
struct post {
    struct loop_task task;
    int *sum;
};
struct poster {
    struct loop *loop;
    struct post posts[POSTS];
};

static void on_post(struct loop_task *task)
{
    (*((struct post *)task)->sum)++;
}

static void *post_all(void *arg)
{
    struct poster *poster = arg;
    for (int i = 0; i < POSTS; i++)
        loop_post(poster->loop, &poster->posts[i].task);
    return NULL;
}

TEST(posts_from_threads_all_run_on_the_loop)
{
    static struct poster posters[THREADS];
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    int sum = 0;
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) {
        posters[t].loop = loop;
        for (int i = 0; i < POSTS; i++)
            posters[t].posts[i] = (struct post){{.run = on_post}, &sum};
        CHECK_INT(pthread_create(&threads[t], NULL, post_all, &posters[t]), 0);
    }
    loop_hold(loop);
    while (sum < POSTS * THREADS)
        (void)loop_step(loop);
    loop_release(loop);
    for (int t = 0; t < THREADS; t++)
        CHECK_INT(pthread_join(threads[t], NULL), 0);
    CHECK_INT(sum, POSTS * THREADS);
}

TEST(free_closes_what_is_left_and_leaks_nothing)
{
    struct err err = {0};
    int ends[2];
    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    /* libuv keeps its signal pipe for the life of the process. */
    struct loop *first = NULL;
    CHECK_OK(loop_open(&first, &err));
    first = loop_free(first);
    int before = test_open_fds();
    struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    struct seen seen = {.loop = loop};
    timer_set(timer_new(loop, on_timer, &seen), 60000, 0);
    CHECK_OK(watch_new(loop, ends[0], WATCH_READ, on_ready, &seen, &seen.watch, &err));
    loop = loop_free(loop);
    CHECK_INT(test_open_fds(), before);
    CHECK_INT(seen.calls, 0);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

#ifdef SG_FAULTS
TEST(free_closes_what_is_left_after_a_stop_that_nobody_heard)
{
    struct err err = {0};
    struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    struct seen seen = {.loop = loop};
    seen.timer = timer_new(loop, on_timer, &seen);
    timer_set(seen.timer, 1000, 0);
    loop_stop(loop);
    CHECK(loop_free(loop) == NULL);
}

TEST(each_failing_call_is_reported_and_leaks_nothing)
{
    int ends[2];
    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    int before = test_open_fds();
    for (int n = 1;; n++) {
        struct err err = {0};
        struct loop *loop = NULL;
        struct seen seen = {0};
        struct signal_watch *signals = NULL;
        (void)sys_fail_at(n);
        int done = loop_open(&loop, &err);
        if (done == 0)
            done = watch_new(loop, ends[0], 0, on_ready, &seen, &seen.watch, &err);
        if (done == 0)
            done = signal_watch_new(loop, SIGUSR2, on_signal, &seen, &signals, &err);
        int64_t calls = sys_fail_at(0);
        loop = loop_free(loop);
        CHECK_INT(test_open_fds(), before);
        if (calls < n) {
            CHECK_OK(done);
            CHECK(n > 4);
            (void)close(ends[0]);
            (void)close(ends[1]);
            return;
        }
        CHECK(done < 0 && err.msg[0] != '\0');
    }
}
#endif
