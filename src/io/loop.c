#include "io/loop.h"

#include <pthread.h>
#include <uv.h>

#include "base/err.h"
#include "base/sys.h"

struct loop {
    uv_loop_t uv;
    uv_async_t wake;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the two below */
    struct loop_task *first, *last;
    size_t holds;
};

struct timer {
    uv_timer_t uv; /* first: libuv gives us this pointer back */
    void (*call)(void *ctx);
    void *ctx;
};

struct watch {
    uv_poll_t uv;
    void (*call)(void *ctx, int events);
    void *ctx;
    int uv_events; /* asked for now */
};

struct signal_watch {
    uv_signal_t uv;
    void (*call)(void *ctx, int signo);
    void *ctx;
};

static int uv_failed(struct err *err, int code, const char *what)
{
    return err_sys(err, -code, "%s", what);
}

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

static void close_handle(void *handle)
{
    if (handle != NULL && !uv_is_closing(handle))
        uv_close(handle, free_handle);
}

/* Takes the whole list at once, so that a task that posts itself again waits for the next turn. */
void loop_run_posted(struct loop *loop)
{
    loop_assert(loop);
    (void)pthread_mutex_lock(&loop->lock);
    struct loop_task *task = loop->first;
    loop->first = loop->last = NULL;
    (void)pthread_mutex_unlock(&loop->lock);
    while (task != NULL) {
        struct loop_task *next = task->next;
        task->next = NULL;
        task->run(task);
        task = next;
    }
}

static void on_wake(uv_async_t *wake)
{
    loop_run_posted(wake->data);
}

int loop_open(struct loop **ret_loop, struct err *err)
{
    struct loop *loop = mem_alloc(sizeof *loop);
    int code = SYS(uv_loop_init(&loop->uv));
    if (code < 0) {
        free(loop);
        return uv_failed(err, code, "open the event loop");
    }
    code = SYS(uv_async_init(&loop->uv, &loop->wake, on_wake));
    if (code < 0) {
        (void)uv_loop_close(&loop->uv);
        free(loop);
        return uv_failed(err, code, "open the event loop's waker");
    }
    loop->wake.data = loop;
    loop->thread = pthread_self();
    (void)pthread_mutex_init(&loop->lock, NULL);
    /* The wake-up handle of other threads does not keep loop_run running. */
    uv_unref((uv_handle_t *)&loop->wake);
    *ret_loop = loop;
    return 0;
}

static void close_leftover(uv_handle_t *handle, void *ctx)
{
    struct loop *loop = ctx;
    if (handle == (uv_handle_t *)&loop->wake)
        uv_close(handle, NULL);
    else
        close_handle(handle);
}

struct loop *loop_free(struct loop *loop)
{
    if (loop == NULL)
        return NULL;
    loop_assert(loop);
    loop_run_posted(loop);
    uv_walk(&loop->uv, close_leftover, loop);
    /* A stop that was not handled would end the first run before anything is closed. */
    while (uv_run(&loop->uv, UV_RUN_DEFAULT) != 0)
        ;
    int code = uv_loop_close(&loop->uv);
    assert(code == 0);
    (void)pthread_mutex_destroy(&loop->lock);
    free(loop);
    return NULL;
}

void loop_assert(const struct loop *loop)
{
    assert(pthread_equal(loop->thread, pthread_self()) != 0);
}

void loop_run(struct loop *loop)
{
    loop_assert(loop);
    (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
}

bool loop_step(struct loop *loop)
{
    loop_assert(loop);
    return uv_run(&loop->uv, UV_RUN_NOWAIT) != 0;
}

void loop_stop(struct loop *loop)
{
    loop_assert(loop);
    uv_stop(&loop->uv);
}

void loop_post(struct loop *loop, struct loop_task *task)
{
    assert(task->next == NULL);
    (void)pthread_mutex_lock(&loop->lock);
    if (loop->last == NULL)
        loop->first = task;
    else
        loop->last->next = task;
    loop->last = task;
    /* Under the lock: once it is free the loop may take the task and go away with it. */
    (void)uv_async_send(&loop->wake);
    (void)pthread_mutex_unlock(&loop->lock);
}

void loop_hold(struct loop *loop)
{
    loop_assert(loop);
    if (loop->holds++ == 0)
        uv_ref((uv_handle_t *)&loop->wake);
}

void loop_release(struct loop *loop)
{
    loop_assert(loop);
    assert(loop->holds > 0);
    if (--loop->holds == 0)
        uv_unref((uv_handle_t *)&loop->wake);
}

static void loop_on_timer(uv_timer_t *uv)
{
    struct timer *timer = (struct timer *)uv;
    timer->call(timer->ctx);
}

static struct loop *loop_of(const uv_loop_t *uv)
{
    return (struct loop *)uv; /* uv is the first member */
}

struct timer *timer_new(struct loop *loop, void (*call)(void *ctx), void *ctx)
{
    loop_assert(loop);
    struct timer *timer = mem_alloc(sizeof *timer);
    (void)uv_timer_init(&loop->uv, &timer->uv); /* cannot fail */
    timer->call = call;
    timer->ctx = ctx;
    return timer;
}

struct timer *timer_free(struct timer *timer)
{
    close_handle(timer);
    return NULL;
}

void timer_set(struct timer *timer, int64_t delay_ms, int64_t repeat_ms)
{
    assert(delay_ms >= 0 && repeat_ms >= 0);
    loop_assert(loop_of(timer->uv.loop));
    /* libuv counts from the start of the turn, which may be long ago in a busy one. */
    uv_update_time(timer->uv.loop);
    (void)uv_timer_start(&timer->uv, loop_on_timer, (uint64_t)delay_ms, (uint64_t)repeat_ms);
}

void timer_clear(struct timer *timer)
{
    loop_assert(loop_of(timer->uv.loop));
    (void)uv_timer_stop(&timer->uv);
}

bool timer_is_set(const struct timer *timer)
{
    return uv_is_active((const uv_handle_t *)&timer->uv) != 0;
}

static void on_poll(uv_poll_t *uv, int status, int uv_events)
{
    struct watch *watch = (struct watch *)uv;
    int events = 0;
    if ((uv_events & UV_READABLE) != 0)
        events |= WATCH_READ;
    if ((uv_events & UV_WRITABLE) != 0)
        events |= WATCH_WRITE;
    /* The next read or write reports the error, so also call back a watcher that only writes. */
    if (status < 0) {
        events |= WATCH_WRITE;
        watch->uv_events = 0; /* libuv has stopped */
    }
    if (status < 0 || (uv_events & UV_DISCONNECT) != 0)
        events |= WATCH_READ | WATCH_HANGUP;
    watch->call(watch->ctx, events);
}

void watch_set(struct watch *watch, int events)
{
    loop_assert(loop_of(watch->uv.loop));
    int uv_events = 0;
    if ((events & WATCH_READ) != 0)
        uv_events |= UV_READABLE | UV_DISCONNECT;
    if ((events & WATCH_WRITE) != 0)
        uv_events |= UV_WRITABLE;
    /* libuv takes a descriptor out and in again for what stands already. */
    if (uv_events == watch->uv_events)
        return;
    watch->uv_events = uv_events;
    if (uv_events == 0)
        (void)uv_poll_stop(&watch->uv);
    else
        (void)uv_poll_start(&watch->uv, uv_events, on_poll); /* fails only while closing */
}

int watch_new(struct loop *loop, int fd, int events, void (*call)(void *ctx, int events), void *ctx,
              struct watch **ret_watch, struct err *err)
{
    loop_assert(loop);
    struct watch *watch = mem_alloc(sizeof *watch);
    int code = SYS(uv_poll_init(&loop->uv, &watch->uv, fd));
    if (code < 0) {
        free(watch);
        return uv_failed(err, code, "watch a descriptor");
    }
    watch->call = call;
    watch->ctx = ctx;
    watch_set(watch, events);
    *ret_watch = watch;
    return 0;
}

struct watch *watch_free(struct watch *watch)
{
    close_handle(watch);
    return NULL;
}

static void loop_on_signal(uv_signal_t *uv, int signo)
{
    struct signal_watch *watch = (struct signal_watch *)uv;
    watch->call(watch->ctx, signo);
}

int signal_watch_new(struct loop *loop, int signo, void (*call)(void *ctx, int signo), void *ctx,
                     struct signal_watch **ret_watch, struct err *err)
{
    loop_assert(loop);
    struct signal_watch *watch = mem_alloc(sizeof *watch);
    int code = SYS(uv_signal_init(&loop->uv, &watch->uv));
    if (code < 0) {
        free(watch);
        return uv_failed(err, code, "watch a signal");
    }
    watch->call = call;
    watch->ctx = ctx;
    code = SYS(uv_signal_start(&watch->uv, loop_on_signal, signo));
    if (code < 0) {
        close_handle(watch);
        return uv_failed(err, code, "watch a signal");
    }
    *ret_watch = watch;
    return 0;
}
