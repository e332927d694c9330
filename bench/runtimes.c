/* Python kernels beside the ways people start Python: a fresh sandbox to the first output of code
 * that uses numpy and pandas, the next run, memory of many, throughput of output. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "bench.h"
#include "jail/client/jail_fork.h"
#include "runtime/interpreter.h"
#include "runtime/runtimes.h"
#include "runtimes_rows.h"
#include "waiting.h"

enum {
    SAMPLES = 100,
    BLOCK = 10,
    POOL = 24,
    SETTLE_MS = 150,
    COLD = 8,
    NEXT = 1000,
    MANY = 100,
    OUTPUT_MB = 100,
    LIVE = 30,
    LIVE_MANY = 10,
    COPY_MIB = 1024,
};

#define IMPORTS "json,numpy,pandas,matplotlib"
#define FIRST "import numpy, pandas\nprint(numpy.arange(3).sum())"

static struct warden_link *warden;

static const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/sandbox",
                                  "LANG=C.UTF-8", NULL};

static struct place fork_from(const struct jail_plan *plan, int memory_fd, uint32_t zygote)
{
    struct err err = {0};
    struct place place = {0};
    int inner[3];
    struct jail_command command = {.env = env, .memory_fd = memory_fd, .zygote = zygote};
    uint32_t id;
    runtimes_step("a jail is made, a kernel forked into it and its first code run");
    runtimes_check(jail_make(warden, plan, &place.jail, &err), &err);
    runtimes_check(interpreter_open(&place.interpreter, inner, &err), &err);
    runtimes_check(jail_ask_fork(place.jail, &command, inner, &id, &err), &err);
    for (int i = 0; i < 3; i++)
        fd_close(&inner[i]);
    return place;
}

static struct place fork_one(const struct jail_plan *plan)
{
    return fork_from(plan, 0, 0);
}

static void run(struct place *place, const char *code, enum interpreter_event_type until)
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
        run(&place, FIRST, INTERPRETER_STDOUT);
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
            run(&ready[j], "import numpy, pandas\nx = pandas.DataFrame({'a': [1]})",
                INTERPRETER_DONE);
        }
        if (i % BLOCK == 0)
            settle();
        int64_t begin = clock_now_ns();
        run(&ready[i % BLOCK], FIRST, INTERPRETER_STDOUT);
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
    run(&place, FIRST, INTERPRETER_DONE);
    for (int i = 0; i < NEXT; i++) {
        int64_t begin = clock_now_ns();
        run(&place, "1 + 1", INTERPRETER_DONE);
        samples[i] = runtimes_since_us(begin);
    }
    bench_samples(bench, "python_next", "us", samples, NEXT, "ipykernel_next",
                  "1 + 1 in a live interpreter, until its end is reported");
    int64_t begin = clock_now_ns();
    size_t bytes = runtimes_run(&place,
                                "import sys\nx = 'a' * 1023 + '\\n'\n"
                                "for _ in range(100 * 1024): sys.stdout.write(x)",
                                STR("python"), INTERPRETER_DONE);
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
        run(&places[i], FIRST, INTERPRETER_DONE);
    }
    int64_t after = runtimes_pss_kb(warden_pid(warden), NULL);
    bench_figure(bench, "python_memory", "MB", (double)(after - before) / 1024 / MANY,
                 "python_plain_memory", "PSS of each of 100 kernels that ran, with its jail");
    for (int i = 0; i < MANY; i++)
        runtimes_place_done(&places[i]);
}

/* What a live kernel holds, in a file that others go on from. */
static int copy_of(struct place *place)
{
    struct err err = {0};
    int fd = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        runtimes_check(err_sys(&err, errno, "memfd"), &err);
    runtimes_check(interpreter_copy(place->interpreter, fd, COPY_MIB, &err), &err);
    (void)runtimes_wait(place, INTERPRETER_COPIED);
    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    return fd;
}

/* From the question to the source until the fork has said a value of the array; then the memory of
 * many forks of one copy that have all read all of it. */
static void live_fork(struct bench *bench)
{
    static double samples[LIVE], copies[LIVE];
    static struct place places[LIVE_MANY];
    struct err err = {0};
    struct jail_stats stats;
    struct place source = fork_one(&(struct jail_plan){0});
    run(&source,
        "import numpy, pandas\nimport matplotlib.pyplot as plt\n"
        "a = numpy.arange(100 << 17, dtype='f8')",
        INTERPRETER_DONE);
    runtimes_check(jail_stat(source.jail, &stats, &err), &err);
    for (int i = 0; i < LIVE; i++) {
        int64_t begin = clock_now_ns();
        AUTO_CLOSE int memory_fd = copy_of(&source);
        copies[i] = runtimes_since_us(begin);
        struct place place = fork_from(&(struct jail_plan){0}, memory_fd, stats.zygote);
        run(&place, "print(a[77])", INTERPRETER_STDOUT);
        samples[i] = runtimes_since_us(begin);
        runtimes_place_done(&place);
    }
    bench_samples(
        bench, "python_live_fork", "us", samples, LIVE, "python_cold",
        "a live kernel with an array of 100 MB, until its fork in another jail prints one");
    bench_samples(bench, "python_live_copy", "us", copies, LIVE, NULL,
                  "of that: until the source's memory is in a file, once for any number of forks");
    AUTO_CLOSE int memory_fd = copy_of(&source);
    int64_t before = runtimes_pss_kb(warden_pid(warden), NULL);
    for (int i = 0; i < LIVE_MANY; i++) {
        places[i] = fork_from(&(struct jail_plan){0}, memory_fd, stats.zygote);
        run(&places[i], "print(a.sum())", INTERPRETER_DONE);
    }
    int64_t after = runtimes_pss_kb(warden_pid(warden), NULL);
    bench_figure(bench, "python_live_fork_memory", "MB",
                 (double)(after - before) / 1024 / LIVE_MANY, NULL,
                 "PSS of each of 10 such forks, the file with the array shared by them");
    for (int i = 0; i < LIVE_MANY; i++)
        runtimes_place_done(&places[i]);
    runtimes_place_done(&source);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    char missing[96];
    struct bench *bench = bench_begin("runtimes");
    runtimes_step("the warden starts and makes its zygote");
    runtimes_check(warden_start(&warden, &err), &err);
    AUTO_CLOSE int program = runtime_program("kernel-python", &err);
    runtimes_check(program, &err);
    runtimes_check(warden_zygote(warden, program, IMPORTS, missing, &err), &err);
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
    live_fork(bench);
    runtimes_step("plain interpreters wait, to be measured");
    runtimes_plain_memory(bench, MANY / 5);
    runtimes_step("the server runs code over HTTP");
    warden = warden_free(warden);
    runtimes_http(bench);
    runtimes_node(bench);
    return bench_end(bench, argc, argv);
}
