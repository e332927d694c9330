#include "search/embed/workers.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sys.h"

/* About 20 microseconds: longer than the single-threaded parts between two jobs. */
enum { SPINS = 2000 };

struct worker_thread {
    struct workers *workers;
    pthread_t thread;
    int number;
};

/* A job is published by a new `round`. `busy` counts the threads that have not finished it; the
 * caller returns when it is 0, so a thread can never see half of the next job. */
struct workers {
    int count; /* with the caller */
    struct worker_thread *threads;
    int started;
    void (*item)(void *ctx, size_t index, int worker);
    void *ctx;
    size_t items;
    atomic_size_t next;
    atomic_uint round, busy;
    atomic_bool is_ending;
};

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Until `*at` is not `value`. */
static void wait_change(atomic_uint *at, unsigned value)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(at, memory_order_acquire) != value)
            return;
        pause_briefly();
    }
    while (atomic_load_explicit(at, memory_order_acquire) == value)
        (void)syscall(SYS_futex, at, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(atomic_uint *at)
{
    (void)syscall(SYS_futex, at, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

static void take_items(struct workers *self, int number)
{
    for (;;) {
        size_t index = atomic_fetch_add_explicit(&self->next, 1, memory_order_relaxed);
        if (index >= self->items)
            return;
        self->item(self->ctx, index, number);
    }
}

static void *serve(void *arg)
{
    const struct worker_thread *thread = arg;
    struct workers *self = thread->workers;
    for (unsigned round = 0;; round++) {
        wait_change(&self->round, round);
        if (atomic_load(&self->is_ending))
            return NULL;
        take_items(self, thread->number);
        if (atomic_fetch_sub_explicit(&self->busy, 1, memory_order_acq_rel) == 1)
            wake(&self->busy);
    }
}

static void begin_round(struct workers *self)
{
    (void)atomic_fetch_add_explicit(&self->round, 1, memory_order_release);
    wake(&self->round);
}

void workers_run(struct workers *workers, void (*item)(void *ctx, size_t index, int worker),
                 void *ctx, size_t count)
{
    if (workers->started == 0 || count < 2) {
        for (size_t i = 0; i < count; i++)
            item(ctx, i, 0);
        return;
    }
    workers->item = item;
    workers->ctx = ctx;
    workers->items = count;
    atomic_store(&workers->next, 0);
    atomic_store(&workers->busy, (unsigned)workers->started);
    begin_round(workers);
    take_items(workers, 0);
    for (unsigned busy; (busy = atomic_load(&workers->busy)) != 0;)
        wait_change(&workers->busy, busy);
}

static int start_threads(struct workers *self, struct err *err)
{
    /* Signals are for the thread that started them. */
    sigset_t every, before;
    (void)sigfillset(&every);
    (void)pthread_sigmask(SIG_SETMASK, &every, &before);
    int failed = 0;
    for (int i = 1; i < self->count && failed == 0; i++) {
        struct worker_thread *thread = &self->threads[i];
        *thread = (struct worker_thread){.workers = self, .number = i};
        failed = pthread_create(&thread->thread, NULL, serve, thread);
        self->started += failed == 0;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed == 0 ? 0 : err_sys(err, failed, "start a thread");
}

static void do_nothing(void *ctx UNUSED, size_t index UNUSED, int worker UNUSED)
{
}

int workers_start(int threads, struct workers **ret_workers, struct err *err)
{
    assert(threads >= 1);
    struct workers *self = mem_alloc(sizeof *self);
    self->count = threads;
    self->threads = mem_alloc((size_t)threads * sizeof *self->threads);
    if (start_threads(self, err) < 0) {
        (void)workers_stop(self);
        return -1;
    }
    /* Returns when each thread has come to its loop: a thread that still starts makes system calls
     * which a filter of the caller would not allow any more. */
    workers_run(self, do_nothing, NULL, 2);
    *ret_workers = self;
    return 0;
}

struct workers *workers_stop(struct workers *workers)
{
    if (workers == NULL)
        return NULL;
    atomic_store(&workers->is_ending, true);
    begin_round(workers);
    for (int i = 1; i <= workers->started; i++)
        (void)pthread_join(workers->threads[i].thread, NULL);
    free(workers->threads);
    free(workers);
    return NULL;
}

int workers_count(const struct workers *workers)
{
    return workers->count;
}
