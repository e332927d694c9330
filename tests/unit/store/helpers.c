#include "helpers.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/fd.h"

void bench_dir(struct bench *bench)
{
    static int count;
    struct err err = {0};
    (void)snprintf(bench->dir, sizeof bench->dir, "%s/store%d", test_tmpdir(), count++);
    CHECK_OK(fd_make_dirs(bench->dir, 0700, &err));
}

int bench_open(struct bench *bench, struct err *err)
{
    if (bench->loop == NULL && loop_open(&bench->loop, err) < 0)
        return -1;
    return store_open(bench->loop, bench->dir, &bench->store, err);
}

void bench_close(struct bench *bench)
{
    bench->store = store_free(bench->store);
    bench->loop = loop_free(bench->loop);
}

void bench_answer(void *ctx, const struct err *why)
{
    struct bench *bench = ctx;
    bench->answers++;
    if (why != NULL) {
        bench->failures++;
        bench->why = *why;
    }
}

void bench_wait(struct bench *bench, int answers)
{
    while (bench->answers < answers)
        (void)loop_step(bench->loop);
}

struct store_sandbox bench_sandbox(const char *id, int64_t ord)
{
    return (struct store_sandbox){
        .id = str_of(id),
        .tenant = STR("one"),
        .ord = ord,
        .tier = STR("memory"),
        .runtime = STR("none"),
        .state = STR("running"),
        .spec = STR("{}"),
        .created_ms = 1000 + ord,
    };
}

int bench_put(struct bench *bench, const char *id, int64_t ord, enum store_strength strength)
{
    struct store_sandbox row = bench_sandbox(id, ord);
    struct store_batch *batch = store_begin(bench->store);
    store_put(batch, &store_sandboxes, &row);
    int failures = bench->failures, answers = bench->answers;
    store_commit(batch, strength, bench_answer, bench);
    bench_wait(bench, answers + 1);
    return bench->failures == failures ? 0 : -1;
}

static void count_row(void *ctx, UNUSED const void *row)
{
    ++*(int *)ctx;
}

int bench_count(struct bench *bench)
{
    struct err err = {0};
    int count = 0;
    CHECK_OK(store_each(bench->store, &store_sandboxes, count_row, &count, &err));
    return count;
}
