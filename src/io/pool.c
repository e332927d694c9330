#include "io/pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "base/err.h"
#include "base/sys.h"

struct pool {
    struct loop *loop;
    pthread_mutex_t lock; /* guards the queue and `closing` */
    pthread_cond_t work;
    struct job *first, *last;
    size_t waiting, queue_max;
    bool closing;
    size_t pending; /* the loop thread's own count */
    size_t thread_count;
    pthread_t threads[];
};

/* Under the lock. */
static struct job *take_first(struct pool *pool)
{
    struct job *job = pool->first;
    pool->first = job->next;
    if (pool->first == NULL)
        pool->last = NULL;
    job->next = NULL;
    pool->waiting--;
    return job;
}

static struct job *wait_for_job(struct pool *pool)
{
    struct job *job = NULL;
    (void)pthread_mutex_lock(&pool->lock);
    while (pool->first == NULL && !pool->closing)
        (void)pthread_cond_wait(&pool->work, &pool->lock);
    if (pool->first != NULL)
        job = take_first(pool);
    (void)pthread_mutex_unlock(&pool->lock);
    return job;
}

static void *work(void *arg)
{
    struct pool *pool = arg;
    for (struct job *job; (job = wait_for_job(pool)) != NULL;) {
        job->was_canceled = job_is_canceled(job);
        if (!job->was_canceled)
            job->run(job);
        loop_post(pool->loop, &job->task);
    }
    return NULL;
}

static void hand_back(struct loop_task *task)
{
    struct job *job = CONTAINER_OF(task, struct job, task);
    job->pool->pending--;
    loop_release(job->pool->loop);
    job->done(job, job->was_canceled);
}

/* Signals are the loop's business: a worker that took one could be in the middle of anything. */
static int start_thread(struct pool *pool, pthread_t *ret_thread)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(ret_thread, NULL, work, pool);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

int pool_open(struct loop *loop, int threads, size_t queue_max, struct pool **ret_pool,
              struct err *err)
{
    loop_assert(loop);
    assert(threads > 0 && threads <= 256);
    struct pool *pool = mem_alloc(sizeof *pool + (size_t)threads * sizeof(pthread_t));
    pool->loop = loop;
    pool->queue_max = queue_max;
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->work, NULL);
    while (pool->thread_count < (size_t)threads) {
        int code = SYS(start_thread(pool, &pool->threads[pool->thread_count]));
        if (code != 0) {
            (void)pool_free(pool);
            return err_sys(err, code > 0 ? code : EAGAIN, "start a worker thread");
        }
        pool->thread_count++;
    }
    *ret_pool = pool;
    return 0;
}

struct pool *pool_free(struct pool *pool)
{
    if (pool == NULL)
        return NULL;
    loop_assert(pool->loop);
    (void)pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    for (struct job *job = pool->first; job != NULL; job = job->next)
        atomic_store(&job->cancel, true);
    (void)pthread_cond_broadcast(&pool->work);
    (void)pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->thread_count; i++)
        (void)pthread_join(pool->threads[i], NULL);
    while (pool->pending > 0)
        loop_run_posted(pool->loop);
    (void)pthread_cond_destroy(&pool->work);
    (void)pthread_mutex_destroy(&pool->lock);
    free(pool);
    return NULL;
}

static bool enqueue(struct pool *pool, struct job *job)
{
    (void)pthread_mutex_lock(&pool->lock);
    bool fits = pool->waiting < pool->queue_max && !pool->closing;
    if (fits) {
        if (pool->last == NULL)
            pool->first = job;
        else
            pool->last->next = job;
        pool->last = job;
        pool->waiting++;
        pool->pending++;
        loop_hold(pool->loop);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    /* A worker that is woken while the lock is held would wait for it at once. */
    if (fits)
        (void)pthread_cond_signal(&pool->work);
    return fits;
}

int pool_submit(struct pool *pool, struct job *job, struct err *err)
{
    loop_assert(pool->loop);
    job->pool = pool;
    job->next = NULL;
    job->task = (struct loop_task){.run = hand_back};
    job->was_canceled = false;
    atomic_store(&job->cancel, false);
    if (!enqueue(pool, job))
        return err_set(err, ERR_LIMIT, "%zu jobs are already waiting; try again later",
                       pool->queue_max);
    return 0;
}

bool job_is_canceled(const struct job *job)
{
    return atomic_load(&job->cancel);
}
