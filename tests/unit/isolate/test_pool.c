#include "test.h"

#include <signal.h>

#include "base/buf.h"
#include "isolate/pool.h"

static struct isolate_pool *make(size_t warm, size_t max, uint64_t runs_max)
{
    struct err err = {0};
    struct isolate_pool *pool = NULL;
    struct isolate_pool_options options = {
        .worker = {.cpu = -1}, .warm = warm, .workers_max = max, .runs_max = runs_max};
    CHECK_OK(isolate_pool_new(&options, &pool, &err));
    return pool;
}

static int pid_of(struct isolate_pool *pool, const char *tenant)
{
    struct err err = {0};
    struct worker *worker = NULL;
    CHECK_OK(isolate_pool_worker(pool, str_of(tenant), &worker, &err));
    struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
    struct isolate_call call = {.code = STR("1+1")};
    AUTO_RESULT struct isolate_result result = {0};
    CHECK_OK(worker_run(worker, 0, &limits, &call, NULL, &result, &err));
    CHECK_CSTR(buf_cstr(&result.json), "2");
    return worker_pid(worker);
}

TEST(pool_keeps_tenants_apart)
{
    struct err err = {0};
    AUTO_POOL struct isolate_pool *pool = make(2, 4, 0);
    CHECK_INT(isolate_pool_ready(pool), 2);
    int a = pid_of(pool, "a"), b = pid_of(pool, "b");
    CHECK(a != b);
    CHECK_INT(pid_of(pool, "a"), a);
    CHECK_INT(isolate_pool_ready(pool), 0);
    CHECK_OK(isolate_pool_refill(pool, &err));
    CHECK_INT(isolate_pool_ready(pool), 2);
    CHECK_INT(isolate_pool_taken(pool), 2);
}

TEST(pool_never_hands_a_worker_on)
{
    AUTO_POOL struct isolate_pool *pool = make(0, 2, 0);
    int a = pid_of(pool, "a"), b = pid_of(pool, "b");
    int c = pid_of(pool, "c"); /* a was idle longest and had to go */
    CHECK(c != a && c != b);
    CHECK_INT(isolate_pool_taken(pool), 2);
    CHECK_INT(pid_of(pool, "b"), b);
    CHECK(pid_of(pool, "a") != a);
    isolate_pool_drop(pool, STR("b"));
    CHECK(pid_of(pool, "b") != b);
}

TEST(pool_replaces_old_and_dead_workers)
{
    struct err err = {0};
    AUTO_POOL struct isolate_pool *pool = make(1, 3, 2);
    int first = pid_of(pool, "a");
    CHECK_INT(pid_of(pool, "a"), first);
    int second = pid_of(pool, "a"); /* the third run is another worker's */
    CHECK(second != first);
    CHECK_INT(kill(second, SIGKILL), 0);
    struct worker *worker = NULL;
    CHECK_OK(isolate_pool_worker(pool, STR("a"), &worker, &err));
    struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
    struct isolate_call call = {.code = STR("1")};
    AUTO_RESULT struct isolate_result result = {0};
    if (worker_run(worker, 0, &limits, &call, NULL, &result, &err) == 0)
        CHECK_INT(result.status, ISOLATE_CRASH);
    CHECK(pid_of(pool, "a") != second);
}

TEST(pool_refuses_impossible_sizes)
{
    struct err err = {0};
    struct isolate_pool *pool = NULL;
    struct isolate_pool_options options = {.warm = 3, .workers_max = 2};
    CHECK_ERR(isolate_pool_new(&options, &pool, &err), ERR_INVALID);
}
