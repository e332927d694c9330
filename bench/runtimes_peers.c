/* Python as people start it without us. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "bench.h"
#include "runtimes_rows.h"

enum { PEERS_MAX = 64, NEXT = 200, STARTS = 3 };

#define PYTHON "/usr/bin/python3"
#define COLD_CODE "import numpy, pandas\nprint(numpy.arange(3).sum(), flush=True)"
#define WAIT_CODE                                                                                  \
    "import json, numpy, pandas, matplotlib, matplotlib.pyplot, sys\n"                             \
    "print(numpy.arange(3).sum(), flush=True)\nsys.stdin.read()"

/* --- memory --- */

static int64_t pss_of(pid_t pid)
{
    char path[64], line[256];
    long value = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Pss: %ld", &value) == 1)
            break;
    if (file != NULL)
        (void)fclose(file);
    return value;
}

static pid_t parent_of(pid_t pid)
{
    char path[64], text[512];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[got > 0 ? got : 0] = '\0';
    const char *end = strrchr(text, ')');
    int parent = 0;
    return end != NULL && sscanf(end, ") %*c %d", &parent) == 1 ? parent : 0;
}

int64_t runtimes_pss_kb(pid_t root, int *ret_count)
{
    int64_t total = pss_of(root);
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        int64_t pid;
        if (!str_to_i64(str_of(entry->d_name), 2, INT32_MAX, &pid))
            continue;
        pid_t up = parent_of((pid_t)pid);
        while (up > 1 && up != root)
            up = parent_of(up);
        if (up != root)
            continue;
        total += pss_of((pid_t)pid);
        if (ret_count != NULL)
            ++*ret_count;
    }
    if (dir != NULL)
        (void)closedir(dir);
    return total;
}

/* --- processes --- */

static pid_t start(const char *const argv[], int *ret_in, int *ret_out)
{
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        (void)unsetenv("PYTHONUNBUFFERED"); /* a line and its end would be two writes */
        (void)setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1", 1);
        (void)dup2(in[0], STDIN_FILENO);
        (void)dup2(out[1], STDOUT_FILENO);
        (void)execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    *ret_in = in[1];
    *ret_out = out[0];
    return pid;
}

void runtimes_cold(struct bench *bench, int samples)
{
    static double times[PEERS_MAX];
    const char *argv[] = {PYTHON, "-c", COLD_CODE, NULL};
    for (int i = -1; i < samples; i++) { /* the first fills the page cache */
        int in, out;
        char byte;
        int64_t begin = clock_now_ns();
        pid_t pid = start(argv, &in, &out);
        bool said = read(out, &byte, 1) == 1;
        if (i >= 0)
            times[i] = (double)(clock_now_ns() - begin) / 1000;
        (void)close(in);
        (void)close(out);
        (void)waitpid(pid, NULL, 0);
        if (!said) {
            (void)fprintf(stderr, "bench: " PYTHON " has no numpy or pandas\n");
            return;
        }
    }
    bench_samples(bench, "python_cold", "us", times, (size_t)samples, NULL,
                  "python3 -c 'import numpy, pandas' to its first output");
}

void runtimes_plain_memory(struct bench *bench, int count)
{
    static int ins[PEERS_MAX], outs[PEERS_MAX];
    static pid_t pids[PEERS_MAX];
    const char *argv[] = {PYTHON, "-c", WAIT_CODE, NULL};
    int64_t total = 0;
    for (int i = 0; i < count; i++) {
        char byte;
        pids[i] = start(argv, &ins[i], &outs[i]);
        if (read(outs[i], &byte, 1) != 1)
            (void)fprintf(stderr, "bench: a plain interpreter did not start\n");
    }
    for (int i = 0; i < count; i++)
        total += pss_of(pids[i]);
    for (int i = 0; i < count; i++) {
        (void)close(ins[i]);
        (void)close(outs[i]);
        (void)waitpid(pids[i], NULL, 0);
    }
    bench_figure(bench, "python_plain_memory", "MB", (double)total / 1024 / count, NULL,
                 "PSS of each of 20 plain interpreters with the same imports");
}

/* --- Jupyter --- */

void runtimes_ipykernel(struct bench *bench)
{
    static double times[NEXT];
    const char *argv[] = {PYTHON, "bench/runtimes_ipykernel.py", NULL};
    AUTO_BUF struct buf text = {0};
    struct err err = {0};
    int in, out;
    size_t starts = 0, nexts = 0;
    static double begun[STARTS];
    pid_t pid = start(argv, &in, &out);
    (void)close(in);
    int done = buf_read_all(&text, out, &err);
    (void)close(out);
    (void)waitpid(pid, NULL, 0);
    struct str rest = buf_str(&text), line;
    while (done == 0 && str_split(&rest, '\n', &line)) {
        double value;
        char row[64];
        (void)snprintf(row, sizeof row, "%.*s", STR_ARG(line));
        if (sscanf(row, "start %lf", &value) == 1 && starts < STARTS)
            begun[starts++] = value;
        else if (sscanf(row, "next %lf", &value) == 1 && nexts < NEXT)
            times[nexts++] = value;
    }
    if (starts == 0 || nexts == 0) {
        (void)fprintf(stderr, "ipykernel: left out; packages python3-ipykernel and "
                              "python3-jupyter-client\n");
        return;
    }
    bench_samples(bench, "ipykernel_start", "us", begun, starts, NULL,
                  "a Jupyter kernel to the first output with numpy and pandas");
    bench_samples(bench, "ipykernel_next", "us", times, nexts, NULL,
                  "1 + 1 through jupyter_client, until idle");
}
