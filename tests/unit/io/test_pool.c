#include "io/pool.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/sys.h"
#include "test.h"

struct work {
    struct job job;
    int input, output;
    int *done_count, *canceled_count;
    int gate[2]; /* `run` waits for a byte on it when gate[1] is set */
    int order;
};

static void run(struct job *job)
{
    struct work *work = (struct work *)job;
    char byte;
    if (work->gate[1] > 0)
        assert(read(work->gate[0], &byte, 1) == 1);
    work->output = work->input * 2;
}

static void done(struct job *job, bool canceled)
{
    struct work *work = (struct work *)job;
    work->order = (*work->done_count)++;
    if (canceled)
        (*work->canceled_count)++;
}

TEST(jobs_come_back_on_the_loop_with_their_results)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    AUTO_POOL struct pool *pool = NULL;
    CHECK_OK(pool_open(loop, 4, 100, &pool, &err));
    static struct work works[100];
    int count = 0, canceled = 0;
    for (int i = 0; i < 100; i++) {
        works[i] = (struct work){{run, done}, i, 0, &count, &canceled};
        CHECK_OK(pool_submit(pool, &works[i].job, &err));
    }
    loop_run(loop); /* ends by itself once all are back */
    CHECK_INT(count, 100);
    CHECK_INT(canceled, 0);
    for (int i = 0; i < 100; i++)
        CHECK_INT(works[i].output, 2 * i);
}

TEST(one_thread_keeps_the_order)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    AUTO_POOL struct pool *pool = NULL;
    CHECK_OK(pool_open(loop, 1, 100, &pool, &err));
    static struct work works[50];
    int count = 0, canceled = 0;
    for (int i = 0; i < 50; i++) {
        works[i] = (struct work){{run, done}, i, 0, &count, &canceled};
        CHECK_OK(pool_submit(pool, &works[i].job, &err));
    }
    loop_run(loop);
    for (int i = 0; i < 50; i++)
        CHECK_INT(works[i].order, i);
}

TEST(full_queue_refuses_and_cancel_keeps_a_waiting_job_from_running)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    AUTO_POOL struct pool *pool = NULL;
    CHECK_OK(pool_open(loop, 1, 2, &pool, &err));
    int count = 0, canceled = 0;
    struct work busy = {{run, done}, 1, 0, &count, &canceled};
    CHECK_INT(pipe(busy.gate), 0);
    CHECK_OK(pool_submit(pool, &busy.job, &err));
    struct work first = {{run, done}, 2, 0, &count, &canceled};
    struct work second = {{run, done}, 3, 0, &count, &canceled};
    struct work third = {{run, done}, 4, 0, &count, &canceled};
    /* The worker takes the first job out of the queue at a moment of its own. */
    while (pool_submit(pool, &first.job, &err) < 0)
        (void)usleep(100);
    while (pool_submit(pool, &second.job, &err) < 0)
        (void)usleep(100);
    CHECK_ERR(pool_submit(pool, &third.job, &err), ERR_LIMIT);
    CHECK_MSG("2 jobs are already waiting");
    atomic_store(&first.job.cancel, true);
    CHECK_INT(write(busy.gate[1], "x", 1), 1);
    loop_run(loop);
    CHECK_INT(count, 3);
    CHECK_INT(canceled, 1);
    CHECK_INT(first.output, 0);
    CHECK_INT(second.output, 6);
    CHECK_INT(third.output, 0);
    (void)close(busy.gate[0]);
    (void)close(busy.gate[1]);
}

static void run_until_canceled(struct job *job)
{
    struct work *work = (struct work *)job;
    assert(write(work->gate[1], "x", 1) == 1);
    while (!job_is_canceled(job))
        (void)usleep(100);
    work->output = 7;
}

TEST(running_job_may_see_that_it_is_canceled)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    AUTO_POOL struct pool *pool = NULL;
    CHECK_OK(pool_open(loop, 1, 1, &pool, &err));
    int count = 0, canceled = 0;
    struct work work = {{run_until_canceled, done}, 0, 0, &count, &canceled};
    CHECK_INT(pipe(work.gate), 0);
    CHECK_OK(pool_submit(pool, &work.job, &err));
    char byte;
    CHECK_INT(read(work.gate[0], &byte, 1), 1);
    atomic_store(&work.job.cancel, true);
    loop_run(loop);
    CHECK_INT(work.output, 7);
    CHECK_INT(canceled, 0); /* it did run */
    (void)close(work.gate[0]);
    (void)close(work.gate[1]);
}

TEST(free_hands_every_job_back)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    struct pool *pool = NULL;
    CHECK_OK(pool_open(loop, 2, 100, &pool, &err));
    static struct work works[100];
    int count = 0, canceled = 0;
    for (int i = 0; i < 100; i++) {
        works[i] = (struct work){{run, done}, i, 0, &count, &canceled};
        CHECK_OK(pool_submit(pool, &works[i].job, &err));
    }
    pool = pool_free(pool);
    CHECK_INT(count, 100);
}

#ifdef SG_FAULTS
TEST(failing_thread_start_is_reported)
{
    struct err err = {0};
    AUTO_LOOP struct loop *loop = NULL;
    CHECK_OK(loop_open(&loop, &err));
    struct pool *pool = NULL;
    for (int n = 1; n <= 3; n++) {
        (void)sys_fail_at(n);
        CHECK_ERR(pool_open(loop, 3, 1, &pool, &err), ERR_LIMIT);
        CHECK(pool == NULL);
    }
    (void)sys_fail_at(0);
}
#endif
