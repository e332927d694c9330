#include "search/embed/workers.h"

#include <stdatomic.h>

#include "test.h"

enum { ITEMS = 1000, ROUNDS = 300, THREADS = 4 };

struct counts {
    atomic_int items[ITEMS];
    atomic_int busy[THREADS];
};

static void count_item(void *ctx, size_t index, int worker)
{
    struct counts *counts = ctx;
    /* No two items of one number at a time: memory of a worker is used without a lock. */
    CHECK_INT(atomic_fetch_add(&counts->busy[worker], 1), 0);
    (void)atomic_fetch_add(&counts->items[index], 1);
    (void)atomic_fetch_sub(&counts->busy[worker], 1);
}

static void check_rounds(int threads)
{
    static struct counts counts;
    struct err err = {0};
    struct workers *workers = NULL;
    memset(&counts, 0, sizeof counts);
    CHECK_OK(workers_start(threads, &workers, &err));
    CHECK_INT(workers_count(workers), threads);
    for (int i = 0; i < ROUNDS; i++) {
        size_t count = (size_t)i % ITEMS;
        workers_run(workers, count_item, &counts, count);
        /* All are done when it returns. */
        for (size_t k = 0; k < ITEMS; k++)
            CHECK_INT(atomic_exchange(&counts.items[k], 0), k < count);
    }
    workers = workers_stop(workers);
}

TEST(every_item_is_done_once)
{
    check_rounds(1);
    check_rounds(2);
    check_rounds(THREADS);
}

TEST(workers_stop_without_any_work)
{
    struct err err = {0};
    struct workers *workers = NULL;
    CHECK_OK(workers_start(THREADS, &workers, &err));
    CHECK(workers_stop(workers) == NULL);
    CHECK(workers_stop(NULL) == NULL);
}
