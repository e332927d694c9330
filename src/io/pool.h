#pragma once

/* Worker threads for what blocks: SQLite, git, file trees, hashing.
 *
 * A job is handed over whole and handed back whole: between pool_submit and `done` the loop's
 * thread must not access the job's data. `run` happens on a worker, `done` on the
 * loop's thread, exactly once for each submitted job. A pool of one thread runs its jobs in the
 * order in which they came. */

#include <stdatomic.h>

#include "io/loop.h"

struct pool;

struct job {
    void (*run)(struct job *job);
    /* `canceled`: `run` was never called. */
    void (*done)(struct job *job, bool canceled);
    /* Its owner may set it once it is submitted: a waiting job is not run any more, a running one
     * can check job_is_canceled. `done` is called later in both cases. */
    atomic_bool cancel;

    /* The pool's. */
    struct loop_task task;
    struct pool *pool;
    struct job *next;
    bool was_canceled;
};

/* `queue_max` jobs may wait; running ones do not count. */
int pool_open(struct loop *loop, int threads, size_t queue_max, struct pool **ret_pool,
              struct err *err) MUST_USE;
/* Cancels what waits, lets running jobs end, calls every `done`, then returns. */
struct pool *pool_free(struct pool *pool);
DEFINE_FREEP(pool)
#define AUTO_POOL AUTO(pool_freep)

/* LIMIT when the queue is full: the job stays the caller's and `done` is not called. */
int pool_submit(struct pool *pool, struct job *job, struct err *err) MUST_USE;
/* For `run`, on the worker. */
bool job_is_canceled(const struct job *job);
