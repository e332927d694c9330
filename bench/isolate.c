/* Isolates beside what else can run a line of JavaScript apart from the rest of a program. */

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/format/json.h"
#include "isolate/spawner/spawner.h"
#include "isolate_rows.h"

enum { FRESH = 5000, COPIES = 1000, COMPUTE = 10, ALIVE = 1000, RATE_MS = 1000 };

static struct isolate_engine *engine;
static struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
static struct worker *worker;
static struct isolate *holder; /* of about 1 MB of objects */
static struct buf packed;

static void check(const struct isolate_result *result, const char *json)
{
    if (result->status == ISOLATE_OK && strcmp(buf_cstr(&result->json), json) == 0)
        return;
    (void)fprintf(stderr, "wrong result: %s %s\n", buf_cstr(&result->json),
                  buf_cstr(&result->error_stack));
    exit(1);
}

static void engine_fresh(void *ctx)
{
    (void)ctx;
    struct isolate *isolate = NULL;
    AUTO_RESULT struct isolate_result result = {0};
    const struct isolate_call call = {.code = STR("1+1")};
    MUST(isolate_new(engine, &limits, &isolate, &err));
    MUST(isolate_run(isolate, &call, NULL, &result, &err));
    check(&result, "2");
    (void)isolate_free(isolate);
}

static struct str sum_code = STR("1+1"), log_code = STR("console.log({a: [1, 2]}, 'x')");

static void worker_fresh(void *ctx)
{
    const struct isolate_call call = {.code = *(struct str *)ctx};
    AUTO_RESULT struct isolate_result result = {0};
    MUST(worker_run(worker, 0, &limits, &call, NULL, &result, &err));
    if (result.status != ISOLATE_OK)
        check(&result, "");
}

static void pause_to(void *ctx)
{
    struct buf *out = ctx;
    buf_clear(out);
    MUST(isolate_pause(holder, out, &err));
}

static void resume_from(void *ctx)
{
    struct isolate *copy = NULL;
    MUST(isolate_resume(engine, buf_str(ctx), &limits, &copy, &err));
    (void)isolate_free(copy);
}

static void fill_holder(void)
{
    const struct isolate_call call = {
        .code = STR("globalThis.rows = Array.from({length: 4340}, (_, i) => "
                    "({id: i, name: 'item number ' + i, tags: [i, i + 1]})); rows.length")};
    AUTO_RESULT struct isolate_result result = {0};
    MUST(isolate_new(engine, &limits, &holder, &err));
    MUST(isolate_run(holder, &call, NULL, &result, &err));
    check(&result, "4340");
    pause_to(&packed);
}

/* --- Compute --- */

struct compute {
    char *code;
};

static void compute_run(void *ctx)
{
    struct compute *job = ctx;
    struct isolate_limits roomy = limits;
    roomy.memory_bytes = 256 << 20;
    roomy.timeout_ms = 60000;
    struct isolate *isolate = NULL;
    AUTO_RESULT struct isolate_result result = {0};
    const struct isolate_call call = {.code = str_of(job->code)};
    MUST(isolate_new(engine, &roomy, &isolate, &err));
    MUST(isolate_run(isolate, &call, NULL, &result, &err));
    if (result.status != ISOLATE_OK)
        check(&result, "");
    (void)isolate_free(isolate);
}

static void compute(struct bench *bench)
{
    AUTO_BUF struct buf text = {0};
    AUTO_JSON struct json_t *cases = NULL;
    isolate_read_file("bench/isolate_compute.json", &text);
    MUST(json_parse(buf_str(&text), &cases, &err));
    struct str name, code;
    struct json_t *value;
    for (void *iter = NULL; json_next(cases, &iter, &name, &value);) {
        struct compute job = {0};
        if (!json_to_str(value, &code))
            exit(1);
        char row_name[64], peer[64];
        (void)snprintf(row_name, sizeof row_name, "isolate_%.*s", STR_ARG(name));
        (void)snprintf(peer, sizeof peer, "quickjs_wasi_%.*s", STR_ARG(name));
        job.code = mem_dup_cstr(code.ptr);
        /* The suite keeps names until its end. */
        const struct bench_case row = {.name = mem_dup_cstr(row_name),
                                       .peer = mem_dup_cstr(peer),
                                       .run = compute_run,
                                       .ctx = &job};
        bench_interleaved(bench, &row, 1, COMPUTE);
        free(job.code);
    }
}

/* --- From the spawner --- */

static struct spawner *spawner;

static struct worker *make_worker(void)
{
    struct worker *made = NULL;
    int got = 0;
    MUST(spawner_ask(spawner, &err));
    while (got == 0) {
        struct pollfd poller = {.fd = spawner_fd(spawner), .events = POLLIN};
        (void)poll(&poller, 1, -1);
        MUST(got = spawner_next(spawner, &made, &err));
    }
    return made;
}

/* Asked for, forked, locked, warmed, used once, ended. */
static void run_in_new_worker(void *ctx)
{
    struct worker *usual = worker;
    worker = make_worker();
    worker_fresh(ctx);
    (void)worker_free(worker);
    worker = usual;
}

static void stay_on_one_cpu(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    (void)sched_setaffinity(0, sizeof set, &set);
}

static void from_spawner(struct bench *bench)
{
    const struct spawner_options options = {0};
    MUST(spawner_start(&options, &spawner, &err));
    stay_on_one_cpu();
    const struct bench_case made = {.name = "worker_made",
                                    .peer = "node_e",
                                    .run = run_in_new_worker,
                                    .ctx = &sum_code,
                                    .note = "a new worker from the spawner and its first run"};
    bench_interleaved(bench, &made, 1, COPIES);
    spawner = spawner_free(spawner);
}

/* --- Memory --- */

static double resident_kb(int pid)
{
    char path[64];
    long pages = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL || fscanf(file, "%*s %ld", &pages) != 1)
        pages = 0;
    if (file != NULL)
        (void)fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1024;
}

static void memory(struct bench *bench)
{
    double before = resident_kb(worker_pid(worker));
    for (int i = 0; i < ALIVE; i++) {
        uint32_t isolate = 0;
        AUTO_RESULT struct isolate_result result = {0};
        const struct isolate_call call = {.code = STR("globalThis.x = {a: 1}; 1"),
                                          .is_session = true};
        MUST(worker_open(worker, &limits, &isolate, &err));
        MUST(worker_run(worker, isolate, &limits, &call, NULL, &result, &err));
    }
    bench_figure(bench, "isolate_memory", "KB", (resident_kb(worker_pid(worker)) - before) / ALIVE,
                 NULL, "each of 1,000 alive");
}

static void rate(struct bench *bench)
{
    int64_t until = clock_now_ms() + RATE_MS, count = 0;
    for (; clock_now_ms() < until; count++)
        engine_fresh(NULL);
    bench_figure(bench, "engine_rate", "1/s", (double)count * 1000 / RATE_MS, NULL,
                 "fresh isolates, one core");
}

static void copies(struct bench *bench)
{
    fill_holder();
    const struct bench_case rows[] = {
        {.name = "isolate_pause",
         .run = pause_to,
         .ctx = &packed,
         .note = "1 MB of objects, to bytes for a disk"},
        {.name = "isolate_resume", .run = resume_from, .ctx = &packed},
    };
    bench_interleaved(bench, rows, countof(rows), COPIES / 10);
    bench_figure(bench, "isolate_image", "KB", (double)packed.len / 1024, NULL,
                 "1 MB of objects, by zstd");
}

static void fresh(struct bench *bench)
{
    const struct bench_case rows[] = {
        {.name = "isolate_fresh",
         .peer = "node_vm_fresh",
         .run = worker_fresh,
         .ctx = &sum_code,
         .note = "create, 1+1, destroy, in a locked worker"},
        {.name = "engine_fresh",
         .peer = "quickjs_wasi_fresh",
         .run = engine_fresh,
         .note = "only the engine"},
        {.name = "isolate_console",
         .run = worker_fresh,
         .ctx = &log_code,
         .note = "a fresh one that logs an object"},
    };
    bench_interleaved(bench, rows, countof(rows), FRESH);
}

int main(int argc, char **argv)
{
    static const char *const ivm_flags[] = {"--no-node-snapshot", NULL}; /* isolated-vm needs it */
    static const char *const jitless_flags[] = {"--jitless", "--no-warnings", NULL};
    static const char *const fresh_args[] = {"fresh", NULL}, *const node_args[] = {"compute", NULL},
                             *const wasi_args[] = {"compute-wasi", NULL},
                             *const jitless_args[] = {"compute", "node_jitless", NULL};
    cpu_set_t all;
    (void)sched_getaffinity(0, sizeof all, &all);
    struct bench *bench = bench_begin("isolate");
    isolate_peers(bench, ivm_flags, fresh_args, NULL);
    isolate_processes(bench);
    from_spawner(bench);

    stay_on_one_cpu();
    const struct worker_options options = {0};
    MUST(worker_start(&options, &worker, &err));
    MUST(isolate_engine_new(NULL, &engine, &err));
    fresh(bench);
    rate(bench);
    copies(bench);
    memory(bench);
    compute(bench);
    (void)sched_setaffinity(0, sizeof all, &all);
    isolate_peers(bench, NULL, wasi_args, NULL);
    isolate_peers(bench, jitless_flags, jitless_args, NULL);
    isolate_peers(bench, NULL, node_args, NULL);
    isolate_strip(bench);
    return bench_end(bench, argc, argv);
}
