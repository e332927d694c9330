/* Python kernels beside the ways people start Python: a fresh sandbox to the first output of code
 * that uses numpy and pandas, the next run, memory of many, throughput of output. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "bench.h"
#include "jail/jail_fork.h"
#include "runtime/kernel.h"
#include "runtime/runtimes.h"
#include "runtimes_rows.h"

enum {
    SAMPLES = 100,
    BLOCK = 10,
    POOL = 24,
    SETTLE_MS = 150,
    COLD = 8,
    NEXT = 1000,
    MANY = 100,
    OUTPUT_MB = 100,
};

#define IMPORTS "json,numpy,pandas,matplotlib"
#define FIRST "import numpy, pandas\nprint(numpy.arange(3).sum())"

static struct warden_link *warden;

static const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/sandbox",
                                  "LANG=C.UTF-8", NULL};

static struct place fork_one(const struct jail_plan *plan)
{
    struct err err = {0};
    struct place place = {0};
    int inner[3];
    struct jail_command command = {.env = env};
    uint32_t id;
    runtimes_step("a jail is made, a kernel forked into it and its first code run");
    runtimes_check(jail_make(warden, plan, &place.jail, &err), &err);
    runtimes_check(kernel_open(&place.kernel, inner, &err), &err);
    runtimes_check(jail_ask_fork(place.jail, &command, inner, &id, &err), &err);
    for (int i = 0; i < 3; i++)
        fd_close(&inner[i]);
    return place;
}

static void run(struct place *place, const char *code, enum kernel_event_type until)
{
    (void)runtimes_run(place, code, STR("python"), until);
}

/* Keeps a processor awake while the pool fills. */
static void settle(void)
{
    for (int64_t until = clock_now_ms() + SETTLE_MS; clock_now_ms() < until;)
        ;
}

/* From the question for a sandbox to the first byte of output; its end is not counted. */
static void fresh(struct bench *bench, const char *name, const struct jail_plan *plan,
                  const char *note)
{
    static double samples[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        if (i % BLOCK == 0)
            settle();
        int64_t begin = clock_now_ns();
        struct place place = fork_one(plan);
        run(&place, FIRST, KERNEL_STDOUT);
        samples[i] = runtimes_since_us(begin);
        runtimes_place_done(&place);
    }
    bench_samples(bench, name, "us", samples, SAMPLES, "python_cold", note);
}

/* The same with kernels that were forked into their jails ahead and have run a cell. */
static void pooled(struct bench *bench)
{
    static double samples[SAMPLES];
    static struct place ready[BLOCK];
    for (int i = 0; i < SAMPLES; i++) {
        for (int j = 0; i % BLOCK == 0 && j < BLOCK; j++) {
            ready[j] = fork_one(&(struct jail_plan){0});
            run(&ready[j], "import numpy, pandas\nx = pandas.DataFrame({'a': [1]})", KERNEL_DONE);
        }
        if (i % BLOCK == 0)
            settle();
        int64_t begin = clock_now_ns();
        run(&ready[i % BLOCK], FIRST, KERNEL_STDOUT);
        samples[i] = runtimes_since_us(begin);
        runtimes_place_done(&ready[i % BLOCK]);
    }
    bench_samples(bench, "python_fresh_pooled", "us", samples, SAMPLES, "python_cold",
                  "a jail with a kernel in it, both made ahead by the caller");
}

static void next(struct bench *bench)
{
    static double samples[NEXT];
    struct place place = fork_one(&(struct jail_plan){0});
    run(&place, FIRST, KERNEL_DONE);
    for (int i = 0; i < NEXT; i++) {
        int64_t begin = clock_now_ns();
        run(&place, "1 + 1", KERNEL_DONE);
        samples[i] = runtimes_since_us(begin);
    }
    bench_samples(bench, "python_next", "us", samples, NEXT, "ipykernel_next",
                  "1 + 1 in a live kernel, until its end is told");
    int64_t begin = clock_now_ns();
    size_t bytes = runtimes_run(&place,
                                "import sys\nx = 'a' * 1023 + '\\n'\n"
                                "for _ in range(100 * 1024): sys.stdout.write(x)",
                                STR("python"), KERNEL_DONE);
    bench_figure(bench, "python_output", "MB/s", (double)bytes / runtimes_since_us(begin), NULL,
                 "100 MB of lines through the kernel's pipe");
    runtimes_place_done(&place);
}

static void memory(struct bench *bench)
{
    static struct place places[MANY];
    int64_t before = runtimes_pss_kb(warden_pid(warden), NULL);
    for (int i = 0; i < MANY; i++) {
        places[i] = fork_one(&(struct jail_plan){0});
        run(&places[i], FIRST, KERNEL_DONE);
    }
    int64_t after = runtimes_pss_kb(warden_pid(warden), NULL);
    bench_figure(bench, "python_memory", "MB", (double)(after - before) / 1024 / MANY,
                 "python_plain_memory", "PSS of each of 100 kernels that ran, with its jail");
    for (int i = 0; i < MANY; i++)
        runtimes_place_done(&places[i]);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    char missing[96];
    struct bench *bench = bench_begin("runtimes");
    runtimes_step("the warden starts and makes its template");
    runtimes_check(warden_start(&warden, &err), &err);
    AUTO_CLOSE int program = runtime_program("kernel-python", &err);
    runtimes_check(program, &err);
    runtimes_check(warden_template(warden, program, IMPORTS, missing, &err), &err);
    if (missing[0] != '\0')
        (void)fprintf(stderr, "bench: without %s\n", missing);
    fresh(bench, "python_fresh_unpooled", &(struct jail_plan){0},
          "jail made and kernel forked on demand");
    runtimes_check(warden_pool(warden, &(struct jail_plan){0}, POOL, 0, &err), &err);
    fresh(bench, "python_fresh_forked", &(struct jail_plan){0},
          "a jail of the pool, the kernel forked on demand");
    pooled(bench);
    runtimes_step("plain interpreters start");
    runtimes_cold(bench, COLD);
    next(bench);
    runtimes_step("Jupyter's kernels start and run");
    runtimes_ipykernel(bench);
    memory(bench);
    runtimes_step("plain interpreters wait, to be measured");
    runtimes_plain_memory(bench, MANY / 5);
    runtimes_step("the server runs code over HTTP");
    warden = warden_free(warden);
    runtimes_http(bench);
    runtimes_node(bench);
    return bench_end(bench, argc, argv);
}
