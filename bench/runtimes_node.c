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
#include "jail/client/jail.h"
#include "runtime/interpreter.h"
#include "runtime/obtain.h"
#include "runtimes_rows.h"

enum { FRESH = 24, NEXT = 1000, MANY = 8, WARM = 20 };

#define FIRST "console.log(1 + 1)"

static struct warden_link *warden;
static const struct runtime *node;
static struct runtime_places places;

static struct place start(void)
{
    struct err err = {0};
    struct jail_plan plan = {0};
    struct place place = {0};
    struct jail_command command = {.argv = node->argv, .env = node->env};
    int inner[3];
    uint32_t id;
    runtimes_step("a kernel of Node starts in a jail");
    runtime_places_plan(node, &places, &plan);
    runtimes_check(jail_make(warden, &plan, &place.jail, &err), &err);
    runtimes_check(interpreter_open(&place.interpreter, inner, &err), &err);
    runtimes_check(jail_start(place.jail, &command, inner, &id, NULL, &err), &err);
    for (int i = 0; i < 3; i++)
        fd_close(&inner[i]);
    return place;
}

static void run(struct place *place, const char *code, enum interpreter_event_type until)
{
    (void)runtimes_run(place, code, STR("javascript"), until);
}

/* Only the program, without a jail, up to the first byte of its output. */
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
    double us = runtimes_since_us(begin);
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
        run(&place, FIRST, INTERPRETER_STDOUT);
        colds[i] = runtimes_since_us(begin);
        runtimes_place_done(&place);
        place = start();
        (void)runtimes_wait(&place, INTERPRETER_READY);
        (void)usleep(20000); /* one that waits in a pool has come to rest */
        begin = clock_now_ns();
        run(&place, FIRST, INTERPRETER_STDOUT);
        pooled[i] = runtimes_since_us(begin);
        runtimes_place_done(&place);
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
        run(&place, "1 + 1", INTERPRETER_DONE);
        if (i >= 0)
            samples[i] = runtimes_since_us(begin);
    }
    bench_samples(bench, "node_next", "us", samples, NEXT, NULL,
                  "1 + 1 in a live interpreter, until its end is reported");
    runtimes_place_done(&place);
}

static void memory(struct bench *bench)
{
    struct place kept[MANY];
    int64_t before = runtimes_pss_kb(warden_pid(warden), NULL);
    for (int i = 0; i < MANY; i++) {
        kept[i] = start();
        run(&kept[i], FIRST, INTERPRETER_DONE);
    }
    int64_t after = runtimes_pss_kb(warden_pid(warden), NULL);
    bench_figure(bench, "node_memory", "MB", (double)(after - before) / 1024 / MANY, NULL,
                 "PSS of each of 8 kernels that ran, with its jail");
    for (int i = 0; i < MANY; i++)
        runtimes_place_done(&kept[i]);
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
    runtimes_check(runtime_places_make(node, absolute, &places, &err), &err);
    runtime_dir(node, absolute, program);
    free(absolute);
    (void)snprintf(program + strlen(program), sizeof program - strlen(program), "/%s",
                   node->program);
    runtimes_check(warden_start(&warden, &err), &err);
    starts(bench, program);
    next(bench);
    memory(bench);
    warden = warden_free(warden);
}
