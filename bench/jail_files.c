/* Files and streams of a living jail, through its init, beside the same work without a jail.
 *
 * The plain rows do the work in this process or with the usual program, on a tree in memory like
 * the jail's own: the difference is what the way through the wall costs. */

#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "bench.h"
#include "jail/client/files.h"
#include "waiting.h"

enum { SAMPLES = 2000, TREE_FILES = 10000, TREE_SAMPLES = 5, SMALL = 4096, STDOUT_MIB = 1024 };

static struct jail *jail;
static struct files *plain;
static char root[64];
static char small[SMALL];
static int archive_fd, null_fd;

static void need(int result, const struct err *err)
{
    if (result >= 0)
        return;
    (void)fprintf(stderr, "bench: %s\n", err->msg);
    exit(1);
}

static void ask(const struct jail_file *question, int data_fd)
{
    struct err err = {0};
    struct jail_file_answer answer;
    need(jail_file(jail, question, data_fd, &answer, &err), &err);
}

static void run_stat(void *ctx)
{
    (void)ctx;
    ask(&(struct jail_file){.verb = JAIL_FILE_STAT, .path = STR("/workspace/small")}, -1);
}

static void run_read(void *ctx)
{
    struct err err = {0};
    AUTO_BUF struct buf bytes = {0};
    struct files_content content;
    (void)ctx;
    need(jail_file_read(jail, STR("/workspace/small"), NULL, &bytes, &content, &err), &err);
    if (bytes.len != SMALL)
        exit(1);
}

static void run_write(void *ctx)
{
    (void)ctx;
    ask(&(struct jail_file){.verb = JAIL_FILE_WRITE,
                            .path = STR("/workspace/small"),
                            .bytes = str_n(small, sizeof small)},
        -1);
}

static void run_list(void *ctx)
{
    struct err err = {0};
    AUTO_ARENA struct arena arena = {0};
    struct files_list list;
    (void)ctx;
    need(jail_file_list(jail, STR("/workspace/hundred"), NULL, &arena, &list, &err), &err);
    if (list.count != 100)
        exit(1);
}

static void run_grep(void *ctx)
{
    struct err err = {0};
    AUTO_ARENA struct arena arena = {0};
    struct files_grep grep;
    (void)ctx;
    need(jail_file_grep(jail, STR("/workspace/hundred"), STR("no[a-z]such"), NULL, &arena, &grep,
                        &err),
         &err);
}

static void run_plain_read(void *ctx)
{
    struct err err = {0};
    AUTO_BUF struct buf bytes = {0};
    struct files_content content;
    (void)ctx;
    need(files_read(plain, STR("small"), NULL, &bytes, &content, &err), &err);
}

static void run_plain_write(void *ctx)
{
    struct err err = {0};
    bool created;
    struct files_write_options options = {.no_sync = true};
    (void)ctx;
    need(files_write(plain, STR("small"), str_n(small, sizeof small), &options, &created, &err),
         &err);
}

/* --- archives --- */

extern char **environ;

static void spawn(const char *const *argv)
{
    pid_t pid;
    int status = -1;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ) != 0 ||
        waitpid(pid, &status, 0) < 0 || status != 0) {
        (void)fprintf(stderr, "bench: %s failed\n", argv[0]);
        exit(1);
    }
}

static void make_plain_tree(void)
{
    struct err err = {0};
    struct files_write_options quick = {.no_sync = true, .make_parents = true};
    for (int i = 0; i < TREE_FILES; i++) {
        char path[64];
        bool created;
        (void)snprintf(path, sizeof path, "tree/d%d/f%d.txt", i % 100, i);
        need(files_write(plain, str_of(path), str_n(small, 1000), &quick, &created, &err), &err);
    }
}

static void plain_tar(const char *flag, const char *dir)
{
    char archive[96], place[96];
    (void)snprintf(archive, sizeof archive, "%s/archive.tar", root);
    (void)snprintf(place, sizeof place, "%s/%s", root, dir);
    const char *argv[] = {"tar", flag, archive, "-C", place, ".", NULL};
    spawn(argv);
}

static void run_plain_tar_out(void *ctx)
{
    (void)ctx;
    plain_tar("-cf", "tree");
}

static void run_plain_tar_in(void *ctx)
{
    char place[96];
    (void)ctx;
    (void)snprintf(place, sizeof place, "%s/again", root);
    const char *remove[] = {"rm", "-rf", place, NULL};
    spawn(remove);
    if (mkdir(place, 0755) < 0)
        exit(1);
    plain_tar("-xf", "again");
}

static void run_tar_in(void *ctx)
{
    (void)ctx;
    if (lseek(archive_fd, 0, SEEK_SET) < 0)
        exit(1);
    ask(&(struct jail_file){.verb = JAIL_FILE_TAR_IN,
                            .path = STR("/workspace/tree"),
                            .place = FILES_TAR_REPLACE},
        archive_fd);
}

static void run_tar_out(void *ctx)
{
    AUTO_CLOSE int out = memfd_create("archive", MFD_CLOEXEC);
    (void)ctx;
    ask(&(struct jail_file){.verb = JAIL_FILE_TAR_OUT, .path = STR("/workspace/tree")}, out);
}

/* --- a gigabyte through standard output --- */

static const char *const flood[] = {"/bin/dd",     "if=/dev/zero", "bs=64k",
                                    "count=16384", "status=none",  NULL};

static double drain_mbps(int fd, int64_t start_ns)
{
    static char space[1 << 16];
    uint64_t total = 0;
    for (;;) {
        ssize_t got = read(fd, space, sizeof space);
        if (got <= 0)
            break;
        total += (uint64_t)got;
    }
    if (total != (uint64_t)STDOUT_MIB << 20)
        exit(1);
    return (double)total / 1e6 / ((double)(clock_now_ns() - start_ns) / 1e9);
}

static long resident_kib(void)
{
    long pages = 0, ignored;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL || fscanf(file, "%ld %ld", &ignored, &pages) != 2)
        exit(1);
    (void)fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static double jail_stdout(long *ret_growth_kib)
{
    struct err err = {0};
    int out[2];
    uint32_t id;
    struct jail_exit exited;
    long before = resident_kib();
    if (pipe2(out, O_CLOEXEC) < 0)
        exit(1);
    AUTO_CLOSE int reader = out[0];
    int64_t start_ns = clock_now_ns();
    need(jail_start(jail, &(struct jail_command){.argv = flood, .cwd = "/"},
                    (int[]){null_fd, out[1], null_fd}, &id, NULL, &err),
         &err);
    (void)close(out[1]);
    double rate = drain_mbps(reader, start_ns);
    need(jail_wait(jail, 10000, &exited, &err), &err);
    *ret_growth_kib = resident_kib() - before;
    return rate;
}

static double plain_stdout(void)
{
    int out[2];
    pid_t pid;
    posix_spawn_file_actions_t actions;
    if (pipe2(out, O_CLOEXEC) < 0)
        exit(1);
    AUTO_CLOSE int reader = out[0];
    int64_t start_ns = clock_now_ns();
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    if (posix_spawn(&pid, flood[0], &actions, NULL, (char *const *)(uintptr_t)flood, environ) != 0)
        exit(1);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(out[1]);
    double rate = drain_mbps(reader, start_ns);
    (void)waitpid(pid, NULL, 0);
    return rate;
}

static void measure_stdout(struct bench *bench)
{
    double inside[3], outside[3];
    long growth = 0;
    for (size_t i = 0; i < countof(inside); i++) {
        outside[i] = plain_stdout();
        inside[i] = jail_stdout(&growth);
    }
    bench_samples(bench, "plain_stdout_mbps", "MB/s", outside, countof(outside), NULL,
                  "1 GiB of dd");
    bench_samples(bench, "jail_stdout_mbps", "MB/s", inside, countof(inside), "plain_stdout_mbps",
                  "1 GiB of dd");
    bench_figure(bench, "jail_stdout_growth", "KiB", (double)growth, NULL,
                 "resident memory of the reader, 1 GiB later");
}

/* --- the whole --- */

static void prepare(struct warden_link *warden)
{
    struct err err = {0};
    struct jail_plan plan = {0};
    const struct jail_host *host = warden_host(warden);
    plan.limits.memory_bytes = host->no_memory[0] == '\0' ? 1 << 30 : JAIL_UNLIMITED;
    if (host->no_cpu[0] != '\0')
        plan.limits.cpu_milli = JAIL_UNLIMITED;
    need(jail_make(warden, &plan, &jail, &err), &err);
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    memset(small, 'x', sizeof small);
    (void)snprintf(root, sizeof root, "%s/sandglass-bench-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(root) == NULL)
        exit(1);
    need(files_open(root, NULL, &plain, &err), &err);
    run_write(NULL);
    run_plain_write(NULL);
    for (int i = 0; i < 100; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "/workspace/hundred/f%d", i);
        ask(&(struct jail_file){.verb = JAIL_FILE_WRITE,
                                .path = str_of(path),
                                .bytes = str_n(small, sizeof small),
                                .parents = true},
            -1);
    }
    make_plain_tree();
    run_plain_tar_out(NULL);
    char archive[96];
    (void)snprintf(archive, sizeof archive, "%s/archive.tar", root);
    archive_fd = open(archive, O_RDONLY | O_CLOEXEC);
    run_tar_in(NULL);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    struct warden_link *warden = NULL;
    need(warden_start(&warden, &err), &err);
    prepare(warden);
    struct bench *bench = bench_begin("jail_files");
    static const struct bench_case small_cases[] = {
        {"plain_file_read_4k", NULL, run_plain_read, NULL, 0, "the same code, no jail"},
        {"jail_file_read_4k", "plain_file_read_4k", run_read, NULL, 0, "in a living jail"},
        {"plain_file_write_4k", NULL, run_plain_write, NULL, 0, "the same code, no jail"},
        {"jail_file_write_4k", "plain_file_write_4k", run_write, NULL, 0, "atomic, not synced"},
        {"jail_file_stat", NULL, run_stat, NULL, 0, NULL},
        {"jail_file_list_100", NULL, run_list, NULL, 0, "100 entries"},
    };
    bench_interleaved(bench, small_cases, countof(small_cases), SAMPLES);
    static const struct bench_case grep_case = {
        "jail_file_grep_100", NULL, run_grep, NULL, 0, "100 files of 4 KiB; starts the helper"};
    bench_interleaved(bench, &grep_case, 1, 200);
    static const struct bench_case tree_cases[] = {
        {"plain_tar_in_10k", NULL, run_plain_tar_in, NULL, 0, "rm -rf, tar -xf"},
        {"jail_tar_in_10k", "plain_tar_in_10k", run_tar_in, NULL, 0, "replaces the tree"},
        {"plain_tar_out_10k", NULL, run_plain_tar_out, NULL, 0, "tar -cf"},
        {"jail_tar_out_10k", "plain_tar_out_10k", run_tar_out, NULL, 0, NULL},
    };
    bench_interleaved(bench, tree_cases, countof(tree_cases), TREE_SAMPLES);
    measure_stdout(bench);
    (void)jail_free(jail);
    (void)warden_free(warden);
    (void)files_free(plain);
    const char *remove[] = {"rm", "-rf", root, NULL};
    spawn(remove);
    return bench_end(bench, argc, argv);
}
