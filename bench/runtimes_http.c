/* Python through the server's own path: a sandbox is made and its first code runs, with a kernel
 * that waited and with one that is forked on demand. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench.h"
#include "http_rig.h"
#include "runtimes_rows.h"

enum { LIVES = 60, WARM = 8, SETTLE_MS = 40, ZYGOTE_MS = 30000 };

#define CODE                                                                                       \
    "{\"runtime\":\"python3\",\"files\":false,"                                                    \
    "\"code\":\"import numpy, pandas\\nprint(numpy.arange(3).sum())\"}"
/* What a finished jail cannot be given is made on demand. */
#define POOLED "{\"tier\":\"jail\",\"runtime\":\"python3\"}"
#define FORKED "{\"tier\":\"jail\",\"runtime\":\"python3\",\"limits\":{\"pids\":200}}"

static double since_us(int64_t begin_ns)
{
    return (double)(clock_now_ns() - begin_ns) / 1000;
}

/* Create and run, each with its time; then delete. */
static bool live(int fd, const char *spec, double *ret_all_us, double *ret_run_us)
{
    char body[RIG_ANSWER_MAX], id[64], path[160];
    int64_t begin = clock_now_ns();
    if (rig_ask(fd, "POST", "/v1/sandboxes", spec, body) != 201 || !rig_id(body, id))
        return false;
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s/run_code", id);
    int64_t made = clock_now_ns();
    bool good = rig_ask(fd, "POST", path, CODE, body) == 200 && strstr(body, "\"3\\n\"") != NULL;
    *ret_run_us = since_us(made);
    *ret_all_us = since_us(begin);
    *strrchr(path, '/') = '\0';
    (void)rig_ask(fd, "DELETE", path, NULL, NULL);
    return good;
}

/* Until kernels come from the zygote: the first ones take as long as an import. */
static bool warm_up(int fd)
{
    double all, run;
    int quick = 0;
    for (int64_t until = clock_now_ms() + ZYGOTE_MS; clock_now_ms() < until && quick < WARM;) {
        if (!live(fd, POOLED, &all, &run))
            return false;
        quick += run < 50000;
        (void)usleep(100000);
    }
    return quick == WARM;
}

static bool measure(struct bench *bench, int fd, const char *spec, const char *all_row,
                    const char *run_row, const char *note)
{
    static double all[LIVES], run[LIVES];
    for (int i = 0; i < LIVES; i++) {
        (void)usleep(SETTLE_MS * 1000);
        if (!live(fd, spec, &all[i], &run[i]))
            return false;
    }
    bench_samples(bench, all_row, "us", all, LIVES, "python_cold", note);
    bench_samples(bench, run_row, "us", run, LIVES, NULL, "of that only the run");
    return true;
}

void runtimes_http(struct bench *bench)
{
    const char *program = getenv("SANDGLASS_BIN");
    if (program == NULL || mkdtemp(rig_dir) == NULL)
        return;
    (void)signal(SIGPIPE, SIG_IGN);
    pid_t server = rig_start(program);
    int fd = rig_connect(RIG_PORT);
    if (fd < 0 || !warm_up(fd) ||
        !measure(bench, fd, POOLED, "python_http_pooled", "python_http_pooled_run",
                 "over HTTP: sandbox made and first output, the kernel waited") ||
        !measure(bench, fd, FORKED, "python_http_forked", "python_http_forked_run",
                 "the same, jail made and kernel forked on demand"))
        (void)fprintf(stderr, "bench: the server's path was not measured\n");
    if (fd >= 0)
        (void)close(fd);
    rig_end(server);
    const char *const clean[] = {"rm", "-rf", rig_dir, NULL};
    AUTO_BUF struct buf nothing = {0};
    (void)!rig_output(clean, &nothing);
}
