/* grep and glob over 100,000 small files, beside ripgrep, grep, fd and find on one thread each.
 *
 * The peers are programs: their start counts, a few milliseconds of it. The tree lies in memory
 * (/dev/shm) where there is room, so that the disk's mood stays out of the figures. */

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "bench.h"
#include "files/files.h"
#include "files/grep.h"

enum { DIRS = 1000, FILES_EACH = 100, SAMPLES = 10 };

static char root[64];
static struct files *files;

static void need(int result, const struct err *err)
{
    if (result >= 0)
        return;
    (void)fprintf(stderr, "bench: %s\n", err->msg);
    abort();
}

/* About thirty lines of something like code; one file in a thousand holds the needle. */
static void fill(struct buf *text, int number)
{
    buf_clear(text);
    for (int i = 0; i < 30; i++)
        buf_printf(text, "    value_%d = compute(input[%d], \"name %d\");\n", i, i * 7, number);
    if (number % 1000 == 0)
        buf_put_cstr(text, "    raise NeedleError(\"found 4711\")\n");
}

static void make_tree(void)
{
    AUTO_BUF struct buf text = {0};
    struct err err;
    (void)snprintf(root, sizeof root, "%s/sandglass-bench-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(root) == NULL)
        abort();
    need(files_open(root, NULL, &files, &err), &err);
    struct files_write_options quick = {.no_sync = true, .make_parents = true};
    for (int i = 0; i < DIRS * FILES_EACH; i++) {
        char path[64];
        bool created;
        (void)snprintf(path, sizeof path, "d%d/e%d/f%d.%s", i % 20, i % DIRS, i,
                       i % 10 == 0 ? "py" : "js");
        fill(&text, i);
        need(files_write(files, str_of(path), buf_str(&text), &quick, &created, &err), &err);
    }
}

static void grep_with(const char *pattern, unsigned threads)
{
    AUTO_ARENA struct arena arena = {0};
    struct err err;
    struct files_grep found;
    struct files_grep_options options = {.limit = 1000, .cpu_ms = 60000, .threads = threads};
    need(files_grep(files, STR("."), str_of(pattern), &options, &arena, &found, &err), &err);
    if (found.count != 100 || found.truncated)
        abort();
}

static void glob_with(const char *pattern, size_t expected)
{
    AUTO_ARENA struct arena arena = {0};
    struct err err;
    struct files_glob found;
    struct files_glob_options options = {.limit = 200000};
    need(files_glob(files, STR("."), str_of(pattern), &options, &arena, &found, &err), &err);
    if (found.count != expected)
        abort();
}

static void run_program(void *ctx)
{
    char *const *argv = ctx;
    pid_t pid;
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    extern char **environ;
    if (posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ) != 0)
        abort();
    (void)posix_spawn_file_actions_destroy(&actions);
    int status;
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) > 1)
        abort();
}

static void run_grep(void *ctx)
{
    grep_with(ctx, 1);
}

static void run_grep_threads(void *ctx)
{
    grep_with(ctx, 2);
}

static void run_glob(void *ctx)
{
    glob_with(ctx, (size_t)DIRS * FILES_EACH / 10);
}

int main(int argc, char **argv)
{
    static char literal[] = "NeedleError", regex[] = "[A-Z]\\w+Error\\(\"\\w+ \\d{4}\"",
                glob[] = "**/*.py";
    make_tree();
    const char *rg_literal[] = {"rg", "-uuu", "-j1", "-n", literal, root, NULL};
    const char *rg_regex[] = {"rg", "-uuu", "-j1", "-n", regex, root, NULL};
    const char *rg_threads[] = {"rg", "-uuu", "-j2", "-n", literal, root, NULL};
    const char *grep_literal[] = {"grep", "-rn", literal, root, NULL};
    const char *fd_argv[] = {"fdfind", "-u", "-j1", "--type", "f", "--glob", "*.py", root, NULL};
    const char *find_argv[] = {"find", root, "-type", "f", "-name", "*.py", NULL};
    const struct bench_case cases[] = {
        {.name = "grep_100k",
         .peer = "ripgrep_100k",
         .run = run_grep,
         .ctx = literal,
         .note = "a word"},
        {.name = "ripgrep_100k", .run = run_program, .ctx = (void *)rg_literal, .note = "-uuu -j1"},
        {.name = "gnu_grep_100k", .run = run_program, .ctx = (void *)grep_literal},
        {.name = "grep_regex_100k", .peer = "ripgrep_regex_100k", .run = run_grep, .ctx = regex},
        {.name = "ripgrep_regex_100k", .run = run_program, .ctx = (void *)rg_regex},
        {.name = "grep_2_threads_100k",
         .peer = "ripgrep_2_threads_100k",
         .run = run_grep_threads,
         .ctx = literal},
        {.name = "ripgrep_2_threads_100k", .run = run_program, .ctx = (void *)rg_threads},
        {.name = "glob_100k", .peer = "fd_100k", .run = run_glob, .ctx = glob, .note = "sorted"},
        {.name = "fd_100k", .run = run_program, .ctx = (void *)fd_argv, .note = "-u -j1"},
        {.name = "find_100k", .run = run_program, .ctx = (void *)find_argv},
    };
    struct bench *bench = bench_begin("files");
    bench_interleaved(bench, cases, countof(cases), SAMPLES);
    struct err err;
    struct files_delete_result deleted;
    need(files_delete(files, STR("."), true, &deleted, &err), &err);
    (void)rmdir(root);
    files = files_free(files);
    return bench_end(bench, argc, argv);
}
