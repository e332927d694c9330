/* The two confined processes as they run: what the kernel says about them. */

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "io/loop.h"
#include "io/proc.h"
#include "search/embed/embedder_internal.h"
#include "search/reader_internal.h"
#include "test.h"

enum { PATIENCE_MS = 240000 };

static struct loop *loop;

static void give_up(void *ctx UNUSED)
{
    fail_msg("nothing happened for %d ms", PATIENCE_MS);
}

static void wait_for(bool (*is_met)(const void *ctx), const void *ctx)
{
    struct timer *limit = timer_new(loop, give_up, NULL);
    timer_set(limit, PATIENCE_MS, 0);
    while (!is_met(ctx)) {
        (void)loop_step(loop);
        (void)usleep(1000);
    }
    limit = timer_free(limit);
}

static const char *program(void)
{
    const char *path = getenv("SANDGLASS_BIN");
    if (path == NULL)
        SKIP("SANDGLASS_BIN names no sandglass");
    return path;
}

/* ---- what the kernel says ---- */

static void read_text(const char *path, struct buf *out)
{
    struct err err = {0};
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail_msg("cannot open %s", path);
    CHECK_OK(buf_read_all(out, fd, &err));
}

/* Of the child of this process that gave itself this name. */
static int child_named(const char *name)
{
    AUTO_BUF struct buf text = {0};
    read_text("/proc/thread-self/children", &text);
    struct str rest = str_trim(buf_str(&text)), number;
    while (str_split(&rest, ' ', &number)) {
        AUTO_BUF struct buf comm = {0};
        char path[64];
        int64_t pid = 0;
        CHECK(str_to_i64(number, 2, INT32_MAX, &pid));
        (void)snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
        read_text(path, &comm);
        if (str_eq(str_trim(buf_str(&comm)), str_of(name)))
            return (int)pid;
    }
    fail_msg("there is no child '%s'", name);
    return -1;
}

static void check_has(const struct buf *text, const char *line)
{
    if (str_find(buf_str(text), str_of(line)) == text->len)
        fail_msg("'%.*s' is missing", STR_ARG(str_trim(str_of(line))));
}

/* Every thread: a filter belongs to one. */
static int check_threads(int pid)
{
    static const char *const lines[] = {
        "\nSeccomp:\t2\n", "\nNoNewPrivs:\t1\n", "\nCapEff:\t0000000000000000\n",
        "\nCapPrm:\t0000000000000000\n", "\nCapInh:\t0000000000000000\n"};
    static const char *const of_root[] = {"\nUid:\t65534\t65534\t65534\t65534\n",
                                          "\nGid:\t65534\t65534\t65534\t65534\n",
                                          "\nCapBnd:\t0000000000000000\n", "\nGroups:\t \n"};
    char path[320];
    int count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    CHECK(tasks != NULL);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        AUTO_BUF struct buf status = {0};
        if (task->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof path, "/proc/%d/task/%s/status", pid, task->d_name);
        read_text(path, &status);
        for (size_t i = 0; i < countof(lines); i++)
            check_has(&status, lines[i]);
        for (size_t i = 0; geteuid() == 0 && i < countof(of_root); i++)
            check_has(&status, of_root[i]);
        count++;
    }
    (void)closedir(tasks);
    return count;
}

static void check_limit(int pid, const char *name, const char *value)
{
    AUTO_BUF struct buf limits = {0};
    char path[64], line[64];
    (void)snprintf(path, sizeof path, "/proc/%d/limits", pid);
    (void)snprintf(line, sizeof line, "%-25s %-20s %-20s", name, value, value);
    read_text(path, &limits);
    check_has(&limits, line);
}

/* Exactly 0 to `last`, the first three of them /dev/null. Only root may look. */
static void check_descriptors(int pid, int last)
{
    char path[320], target[64];
    int count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *fds = geteuid() == 0 ? opendir(path) : NULL;
    for (struct dirent *fd; fds != NULL && (fd = readdir(fds)) != NULL;) {
        int64_t number = 0;
        if (fd->d_name[0] == '.')
            continue;
        CHECK(str_to_i64(str_of(fd->d_name), 0, last, &number));
        (void)snprintf(path, sizeof path, "/proc/%d/fd/%s", pid, fd->d_name);
        ssize_t len = readlink(path, target, sizeof target - 1);
        CHECK(len > 0);
        if (number <= STDERR_FILENO)
            CHECK_STR(str_n(target, (size_t)len), "/dev/null");
        count++;
    }
    CHECK_INT(count, fds == NULL ? 0 : last + 1);
    if (fds != NULL)
        (void)closedir(fds);
}

/* Files of a process in /proc are root's when its memory may not be read by its own user. */
static void check_undumpable(int pid)
{
    char path[64];
    struct stat status = {0};
    (void)snprintf(path, sizeof path, "/proc/%d/environ", pid);
    CHECK_INT(stat(path, &status), 0);
    CHECK_INT(status.st_uid, 0);
}

/* ---- the processes ---- */

static void on_exit_seen(void *ctx, struct proc_exit how)
{
    *(bool *)ctx = true;
    (void)how;
}

/* What was written into the pipe has been read. */
static bool is_drained(const void *ctx)
{
    int left = 0;
    CHECK_INT(ioctl(*(const int *)ctx, FIONREAD, &left), 0);
    return left == 0;
}

/* It reads to the end of its input, so it waits as long as ours stays open. */
TEST(a_reader_that_reads_is_confined)
{
    static const char *const argv[] = {READER_PROGRAM, NULL};
    struct err err = {0};
    struct proc *proc = NULL;
    bool has_ended = false;
    int ends[2] = {-1, -1};
    AUTO_CLOSE int out = open("/dev/null", O_WRONLY | O_CLOEXEC);
    const char *path = program();
    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    CHECK_OK(loop_open(&loop, &err));
    struct proc_fd fds[] = {{ends[0], READER_IN}, {out, READER_OUT}};
    struct proc_options options = {
        .program = path, .argv = argv, .fds = fds, .fd_count = countof(fds)};
    CHECK_OK(proc_start(loop, &options, on_exit_seen, &has_ended, &proc, &err));
    CHECK_INT(write(ends[1], "x", 1), 1);
    wait_for(is_drained, &ends[0]);
    int pid = child_named("reader");
    CHECK_INT(check_threads(pid), 1);
    check_descriptors(pid, READER_OUT);
    check_limit(pid, "Max core file size", "0");
    check_limit(pid, "Max cpu time", "10");
    check_undumpable(pid);
    CHECK(!has_ended);
    proc = proc_free(proc);
    (void)close(ends[0]);
    (void)close(ends[1]);
    loop = loop_free(loop);
}

static void on_vector(void *ctx, const float *vectors, const struct err *err)
{
    CHECK(vectors != NULL && err == NULL);
    *(bool *)ctx = true;
}

static bool is_true(const void *ctx)
{
    return *(const bool *)ctx;
}

TEST(an_embedder_that_waits_is_confined)
{
    struct err err = {0};
    struct embedder *embedder = NULL;
    bool is_answered = false;
    struct str text = STR("a text");
    struct embedder_options options = {
        .model_dir = getenv("SG_MODEL"), .program = program(), .threads = 2};
    if (options.model_dir == NULL || access(options.model_dir, R_OK) < 0)
        SKIP("SG_MODEL names no model; run tools/deps test");
    CHECK_OK(loop_open(&loop, &err));
    CHECK_OK(embedder_open(loop, &options, &embedder, &err));
    CHECK_OK(embedder_embed(embedder, &text, 1, EMBED_QUERY, on_vector, &is_answered, &err));
    wait_for(is_true, &is_answered);
    int pid = child_named("embedder");
    CHECK_INT(check_threads(pid), 2);
    check_descriptors(pid, EMBEDDER_SOCKET);
    check_limit(pid, "Max core file size", "0");
    check_limit(pid, "Max open files", "8");
    check_undumpable(pid);
    embedder = embedder_close(embedder);
    loop = loop_free(loop);
}
