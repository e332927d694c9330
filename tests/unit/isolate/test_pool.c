#include "test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "isolate/nursery.h"
#include "isolate/pool.h"

/* Workers from the nursery, and who gets which. */

enum { WAIT_MS = 5000 };

static struct isolate_pool *make(struct isolate_pool_options options)
{
    struct err err = {0};
    struct isolate_pool *pool = NULL;
    CHECK_OK(isolate_pool_new(&options, &pool, &err));
    return pool;
}

/* Until the pool has nothing left to do. */
static void settle(struct isolate_pool *pool, size_t ready)
{
    struct err err = {0};
    int64_t until = clock_now_ms() + WAIT_MS;
    while (isolate_pool_ready(pool) < ready && clock_now_ms() < until) {
        struct pollfd poller = {.fd = isolate_pool_fd(pool), .events = POLLIN};
        (void)poll(&poller, 1, isolate_pool_due_ms(pool) >= 0 ? 1 : 100);
        CHECK_OK(isolate_pool_step(pool, &err));
    }
    CHECK_INT(isolate_pool_ready(pool), ready);
}

static struct worker *take(struct isolate_pool *pool, const char *tenant)
{
    struct err err = {0};
    struct worker *worker = NULL;
    CHECK_OK(isolate_pool_take(pool, str_of(tenant), WAIT_MS, &worker, &err));
    return worker;
}

static void run(struct worker *worker, uint32_t isolate, const char *code, const char *json)
{
    struct err err = {0};
    struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
    struct isolate_call call = {.code = str_of(code), .is_session = isolate != 0};
    AUTO_RESULT struct isolate_result result = {0};
    CHECK_OK(worker_run(worker, isolate, &limits, &call, NULL, &result, &err));
    CHECK_CSTR(buf_cstr(&result.json), json);
}

/* One run for the tenant; gives the process that did it. */
static int pid_of(struct isolate_pool *pool, const char *tenant)
{
    struct worker *worker = take(pool, tenant);
    run(worker, 0, "1+1", "2");
    int pid = worker_pid(worker);
    isolate_pool_give(pool, worker);
    return pid;
}

TEST(pool_keeps_tenants_apart)
{
    AUTO_POOL struct isolate_pool *pool =
        make((struct isolate_pool_options){.warm = 2, .workers_max = 4});
    settle(pool, 2);
    int a = pid_of(pool, "a"), b = pid_of(pool, "b");
    CHECK(a != b);
    CHECK_INT(pid_of(pool, "a"), a);
    CHECK_INT(isolate_pool_ready(pool), 0);
    settle(pool, 2);
    CHECK_INT(isolate_pool_taken(pool), 2);
}

TEST(pool_gives_a_tenant_more_workers_while_it_uses_them)
{
    struct err err = {0};
    AUTO_POOL struct isolate_pool *pool =
        make((struct isolate_pool_options){.workers_max = 4, .tenant_max = 2});
    struct worker *first = take(pool, "a"), *second = take(pool, "a"), *third = NULL;
    CHECK(first != second);
    CHECK_INT(isolate_pool_in_use(pool), 2);
    CHECK_ERR(isolate_pool_take(pool, STR("a"), 0, &third, &err), ERR_LIMIT);
    struct worker *other = take(pool, "b");
    isolate_pool_give(pool, second);
    CHECK(take(pool, "a") == second);
    isolate_pool_give(pool, first);
    isolate_pool_give(pool, second);
    isolate_pool_give(pool, other);
    CHECK_INT(isolate_pool_in_use(pool), 0);
}

TEST(pool_never_hands_a_worker_on)
{
    AUTO_POOL struct isolate_pool *pool = make((struct isolate_pool_options){.workers_max = 2});
    int a = pid_of(pool, "a"), b = pid_of(pool, "b");
    int c = pid_of(pool, "c"); /* a was idle longest and had to go */
    CHECK(c != a && c != b);
    CHECK(isolate_pool_taken(pool) <= 2);
    CHECK(pid_of(pool, "a") != a);
    b = pid_of(pool, "b");
    isolate_pool_drop(pool, STR("b"));
    CHECK(pid_of(pool, "b") != b);
}

TEST(pool_says_when_it_is_full)
{
    struct err err = {0};
    AUTO_POOL struct isolate_pool *pool = make((struct isolate_pool_options){.workers_max = 1});
    struct worker *worker = take(pool, "a"), *none = NULL;
    CHECK_ERR(isolate_pool_take(pool, STR("b"), 0, &none, &err), ERR_LIMIT);
    isolate_pool_give(pool, worker);
    CHECK_ERR(isolate_pool_take(pool, STR("b"), 0, &none, &err), ERR_BUSY); /* a's is ended */
    isolate_pool_give(pool, take(pool, "b"));
}

TEST(pool_replaces_old_and_dead_workers)
{
    AUTO_POOL struct isolate_pool *pool =
        make((struct isolate_pool_options){.warm = 1, .workers_max = 3, .runs_max = 2});
    int first = pid_of(pool, "a");
    CHECK_INT(pid_of(pool, "a"), first);
    int second = pid_of(pool, "a"); /* the third run is another worker's */
    CHECK(second != first);
    CHECK_INT(kill(second, SIGKILL), 0);
    struct worker *worker = take(pool, "a");
    if (worker_pid(worker) == second) { /* not seen yet */
        struct err err = {0};
        struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
        struct isolate_call call = {.code = STR("1")};
        AUTO_RESULT struct isolate_result result = {0};
        if (worker_run(worker, 0, &limits, &call, NULL, &result, &err) == 0)
            CHECK_INT(result.status, ISOLATE_CRASH);
    }
    isolate_pool_give(pool, worker);
    CHECK(pid_of(pool, "a") != second);

    AUTO_POOL struct isolate_pool *aging =
        make((struct isolate_pool_options){.workers_max = 2, .age_max_ms = 1});
    int young = pid_of(aging, "a");
    (void)usleep(5000);
    CHECK(pid_of(aging, "a") != young);
}

TEST(pool_keeps_workers_with_isolates_in_them)
{
    struct err err = {0};
    struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
    AUTO_POOL struct isolate_pool *pool =
        make((struct isolate_pool_options){.workers_max = 1, .runs_max = 1});
    struct worker *worker = take(pool, "a"), *none = NULL;
    uint32_t isolate = 0;
    CHECK_OK(worker_open(worker, &limits, &isolate, &err));
    run(worker, isolate, "globalThis.n = 1", "1");
    uint64_t number = isolate_pool_keep(pool, worker);
    CHECK_ERR(isolate_pool_take_kept(pool, number, &none, &err), ERR_BUSY);
    isolate_pool_give(pool, worker);
    CHECK_OK(isolate_pool_step(pool, &err));
    CHECK_ERR(isolate_pool_take(pool, STR("b"), 0, &none, &err), ERR_LIMIT);
    CHECK_OK(isolate_pool_take_kept(pool, number, &worker, &err));
    run(worker, isolate, "n", "1");
    isolate_pool_release(pool, worker);
    isolate_pool_give(pool, worker);
    CHECK_OK(isolate_pool_step(pool, &err)); /* it is worn, and nothing holds it any more */
    CHECK_ERR(isolate_pool_take_kept(pool, number, &none, &err), ERR_GONE);
}

TEST(pool_refuses_impossible_sizes)
{
    struct err err = {0};
    struct isolate_pool *pool = NULL;
    struct isolate_pool_options options = {.warm = 3, .workers_max = 2};
    CHECK_ERR(isolate_pool_new(&options, &pool, &err), ERR_INVALID);
}

/* --- The nursery --- */

static struct worker *next(struct nursery *nursery)
{
    struct err err = {0};
    struct worker *worker = NULL;
    struct pollfd poller = {.fd = nursery_fd(nursery), .events = POLLIN};
    CHECK_OK(nursery_ask(nursery, &err));
    CHECK_INT(poll(&poller, 1, WAIT_MS), 1);
    CHECK_INT(nursery_next(nursery, &worker, &err), 1);
    return worker;
}

static bool has_line(int pid, const char *file, const char *wanted)
{
    char path[64], line[256];
    bool found = false;
    (void)snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    FILE *text = fopen(path, "re");
    CHECK(text != NULL);
    while (fgets(line, sizeof line, text) != NULL)
        found = found || strcmp(line, wanted) == 0;
    (void)fclose(text);
    return found;
}

TEST(nursery_makes_locked_workers_without_privileges)
{
    struct err err = {0};
    AUTO_NURSERY struct nursery *nursery = NULL;
    CHECK_OK(nursery_start(&(struct nursery_options){0}, &nursery, &err));
    AUTO_WORKER struct worker *worker = next(nursery);
    run(worker, 0, "'ready'", "\"ready\"");
    int pids[] = {nursery_pid(nursery), worker_pid(worker)};
    for (size_t i = 0; i < countof(pids); i++) {
        CHECK(has_line(pids[i], "status", "CapEff:\t0000000000000000\n"));
        CHECK(has_line(pids[i], "status", "CapBnd:\t0000000000000000\n") || geteuid() != 0);
        CHECK(has_line(pids[i], "status", "NoNewPrivs:\t1\n"));
        CHECK(has_line(pids[i], "status", "Threads:\t1\n"));
        if (geteuid() == 0)
            CHECK(!has_line(pids[i], "status", "Uid:\t0\t0\t0\t0\n"));
    }
    CHECK(has_line(pids[1], "status", "Seccomp:\t2\n"));
}

TEST(nursery_workers_draw_their_own_numbers)
{
    struct err err = {0};
    AUTO_NURSERY struct nursery *nursery = NULL;
    CHECK_OK(nursery_start(&(struct nursery_options){0}, &nursery, &err));
    AUTO_BUF struct buf seen = {0};
    for (int i = 0; i < 4; i++) {
        AUTO_WORKER struct worker *worker = next(nursery);
        struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
        struct isolate_call call = {.code = STR("Math.random()")};
        AUTO_RESULT struct isolate_result result = {0};
        CHECK_OK(worker_run(worker, 0, &limits, &call, NULL, &result, &err));
        CHECK(str_find(buf_str(&seen), buf_str(&result.json)) == seen.len);
        buf_put(&seen, buf_str(&result.json));
    }
}

TEST(nursery_death_ends_its_workers)
{
    struct err err = {0};
    AUTO_NURSERY struct nursery *nursery = NULL;
    CHECK_OK(nursery_start(&(struct nursery_options){0}, &nursery, &err));
    AUTO_WORKER struct worker *worker = next(nursery);
    run(worker, 0, "1", "1");
    CHECK_INT(kill(nursery_pid(nursery), SIGKILL), 0);
    struct pollfd poller = {.fd = worker_fd(worker), .events = POLLIN};
    CHECK_INT(poll(&poller, 1, WAIT_MS), 1);
    CHECK(worker_has_gone(worker));
    struct worker *none = NULL;
    CHECK_ERR(nursery_next(nursery, &none, &err), ERR_UNAVAILABLE);
}

/* As the daemon does it: the program executes itself, and again when it has gone. */
TEST(pool_starts_the_nursery_again)
{
    struct err err = {0};
    const char *program = getenv("SANDGLASS_BIN");
    if (program == NULL)
        SKIP("SANDGLASS_BIN names no sandglass");
    static const char *const bridges[] = {"echo", "other", NULL};
    AUTO_POOL struct isolate_pool *pool = make((struct isolate_pool_options){
        .warm = 1, .workers_max = 3, .program = program, .bridges = bridges});
    struct worker *worker = take(pool, "a");
    run(worker, 0, "Object.getOwnPropertyNames(api).join()", "\"echo,other\"");
    isolate_pool_give(pool, worker);
    settle(pool, 1);
    char line[64];
    int parent = 0;
    (void)snprintf(line, sizeof line, "/proc/%d/status", worker_pid(worker));
    FILE *text = fopen(line, "re");
    CHECK(text != NULL);
    while (fgets(line, sizeof line, text) != NULL)
        if (sscanf(line, "PPid:\t%d", &parent) == 1)
            break;
    (void)fclose(text);
    CHECK(parent > 1 && kill(parent, SIGKILL) == 0);
    struct pollfd poller = {.fd = worker_fd(worker), .events = POLLIN};
    CHECK_INT(poll(&poller, 1, WAIT_MS), 1);
    /* A worker may be taken before its death is seen: then the run says so, and another is taken.
     */
    struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
    struct isolate_call call = {.code = STR("2")};
    AUTO_RESULT struct isolate_result result = {.status = ISOLATE_CRASH};
    int64_t until = clock_now_ms() + 2 * WAIT_MS;
    while (result.status == ISOLATE_CRASH && clock_now_ms() < until) {
        (void)usleep(1000);
        if (isolate_pool_take(pool, STR("a"), 100, &worker, &err) < 0)
            continue;
        if (worker_run(worker, 0, &limits, &call, NULL, &result, &err) < 0)
            CHECK_INT(err.code, ERR_GONE);
        isolate_pool_give(pool, worker);
    }
    CHECK_CSTR(buf_cstr(&result.json), "2");
}
