/* Node kernels beside plain Node: started with their jail, started ahead, and the next run. */

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "bench.h"
#include "jail/jail.h"
#include "runtime/kernel.h"
#include "runtime/obtain.h"
#include "runtimes_rows.h"

enum { FRESH = 24, NEXT = 1000, MANY = 8, WARM = 20 };

#define FIRST "console.log(1 + 1)"

static struct warden_link *warden;
static const struct runtime *node;
static struct runtime_places places;

static void check(int done, const struct err *err)
{
    if (done >= 0)
        return;
    (void)fprintf(stderr, "bench: %s\n", err->msg);
    exit(1);
}

static void wait_for(struct kernel *kernel, enum kernel_event_type type)
{
    for (;;) {
        struct kernel_event event;
        int fds[3];
        struct pollfd polled[3];
        while (kernel_next(kernel, &event)) {
            if (event.type == type)
                return;
            if (event.type == KERNEL_GONE || event.type == KERNEL_ERROR) {
                (void)fprintf(stderr, "bench: the kernel failed: %.*s\n", STR_ARG(event.text));
                exit(1);
            }
        }
        kernel_fds(kernel, fds);
        for (int i = 0; i < 3; i++)
            polled[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
        if (kernel_wants_write(kernel))
            polled[0].events |= POLLOUT;
        (void)poll(polled, 3, -1);
    }
}

static struct place start(void)
{
    struct err err = {0};
    struct jail_plan plan = {0};
    struct place place = {0};
    struct jail_command command = {.argv = node->argv, .env = node->env};
    int inner[3];
    uint32_t id;
    runtime_places_plan(node, &places, &plan);
    check(jail_make(warden, &plan, &place.jail, &err), &err);
    check(kernel_open(&place.kernel, inner, &err), &err);
    check(jail_start(place.jail, &command, inner, &id, NULL, &err), &err);
    for (int i = 0; i < 3; i++)
        fd_close(&inner[i]);
    return place;
}

static void place_done(struct place *place)
{
    place->kernel = kernel_free(place->kernel);
    place->jail = jail_free(place->jail);
}

static void run_code(struct kernel *kernel, const char *code, enum kernel_event_type until)
{
    struct err err = {0};
    check(kernel_run(kernel, str_of(code), STR("javascript"), (struct str){0}, &err), &err);
    wait_for(kernel, until);
}

static double since_us(int64_t begin_ns)
{
    return (double)(clock_now_ns() - begin_ns) / 1000;
}

/* The program alone, without a jail, to the first byte of its output. */
static double plain(const char *program)
{
    const char *argv[] = {program, "-e", FIRST, NULL};
    posix_spawn_file_actions_t actions;
    int pair[2];
    pid_t pid;
    char byte;
    if (pipe2(pair, O_CLOEXEC) < 0)
        exit(1);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, pair[1], STDOUT_FILENO);
    int64_t begin = clock_now_ns();
    if (posix_spawn(&pid, program, &actions, NULL, (char *const *)argv, environ) != 0)
        exit(1);
    (void)close(pair[1]);
    if (read(pair[0], &byte, 1) != 1)
        exit(1);
    double us = since_us(begin);
    (void)close(pair[0]);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)waitpid(pid, NULL, 0);
    return us;
}

static void starts(struct bench *bench, const char *program)
{
    static double plains[FRESH], colds[FRESH], pooled[FRESH];
    (void)plain(program);
    for (int i = 0; i < FRESH; i++) {
        plains[i] = plain(program);
        int64_t begin = clock_now_ns();
        struct place place = start();
        run_code(place.kernel, FIRST, KERNEL_STDOUT);
        colds[i] = since_us(begin);
        place_done(&place);
        place = start();
        wait_for(place.kernel, KERNEL_READY);
        (void)usleep(20000); /* one that waits in a pool has come to rest */
        begin = clock_now_ns();
        run_code(place.kernel, FIRST, KERNEL_STDOUT);
        pooled[i] = since_us(begin);
        place_done(&place);
    }
    bench_samples(bench, "node_plain", "us", plains, FRESH, NULL, "node -e, no jail, first output");
    bench_samples(bench, "node_cold", "us", colds, FRESH, "node_plain",
                  "jail made and kernel started on demand, first output");
    bench_samples(bench, "node_fresh_pooled", "us", pooled, FRESH, "node_plain",
                  "a kernel that was started ahead, first output of its first run");
}

static void next(struct bench *bench)
{
    static double samples[NEXT];
    struct place place = start();
    for (int i = -WARM; i < NEXT; i++) {
        int64_t begin = clock_now_ns();
        run_code(place.kernel, "1 + 1", KERNEL_DONE);
        if (i >= 0)
            samples[i] = since_us(begin);
    }
    bench_samples(bench, "node_next", "us", samples, NEXT, NULL,
                  "1 + 1 in a live kernel, until its end is told");
    place_done(&place);
}

static void memory(struct bench *bench)
{
    struct place kept[MANY];
    int64_t before = runtimes_pss_kb(warden_pid(warden), NULL);
    for (int i = 0; i < MANY; i++) {
        kept[i] = start();
        run_code(kept[i].kernel, FIRST, KERNEL_DONE);
    }
    int64_t after = runtimes_pss_kb(warden_pid(warden), NULL);
    bench_figure(bench, "node_memory", "MB", (double)(after - before) / 1024 / MANY, NULL,
                 "PSS of each of 8 kernels that ran, with its jail");
    for (int i = 0; i < MANY; i++)
        place_done(&kept[i]);
}

void runtimes_node(struct bench *bench)
{
    char program[RUNTIME_PATH_MAX];
    const char *home = getenv("SG_RUNTIMES");
    struct err err = {0};
    runtimes_use(home == NULL ? "build/runtimes" : home);
    if (runtime_find(STR("node24"), &node, &err) < 0) {
        (void)fprintf(stderr, "bench: without Node: %s\n", err.msg);
        return;
    }
    char *absolute = realpath(home == NULL ? "build/runtimes" : home, NULL);
    if (absolute == NULL)
        return;
    check(runtime_places_make(node, absolute, &places, &err), &err);
    runtime_dir(node, absolute, program);
    free(absolute);
    (void)snprintf(program + strlen(program), sizeof program - strlen(program), "/%s",
                   node->program);
    check(warden_start(&warden, &err), &err);
    starts(bench, program);
    next(bench);
    memory(bench);
    warden = warden_free(warden);
}
