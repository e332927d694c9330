/* Jails beside other ways to run a program fenced off. Each sample creates, runs /bin/true and
 * destroys, until the last process is gone. */

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "bench.h"
#include "jail/jail.h"
#include "layers_rows.h"

enum { SAMPLES = 300, POOL = 16, BURST = 100, BURSTS = 5, RATE_MS = 2000, WORKERS = 2 };

static int null_fd;
static struct warden_link *pooled, *cold;
static struct jail *living;

static void check(int done, const struct err *err)
{
    if (done >= 0)
        return;
    (void)fprintf(stderr, "bench: %s\n", err->msg);
    exit(1);
}

static const char *const true_argv[] = {"/bin/true", NULL};

static void start_true(struct jail *jail)
{
    struct err err = {0};
    uint32_t id;
    struct jail_command command = {.argv = true_argv, .cwd = "/"};
    check(jail_start(jail, &command, (int[]){null_fd, null_fd, null_fd}, &id, NULL, &err), &err);
}

static void wait_true(struct jail *jail)
{
    struct err err = {0};
    struct jail_exit ended;
    check(jail_wait(jail, 10000, &ended, &err), &err);
    if (ended.code != 0 || ended.signal != 0)
        exit(1);
}

static struct jail *make(struct warden_link *warden)
{
    struct err err = {0};
    struct jail *jail = NULL;
    check(jail_make(warden, &(struct jail_plan){0}, &jail, &err), &err);
    return jail;
}

static void run_jail(void *ctx)
{
    struct jail *jail = make(*(struct warden_link **)ctx);
    start_true(jail);
    wait_true(jail);
    (void)jail_free(jail);
}

static void run_command(void *ctx)
{
    (void)ctx;
    start_true(living);
    wait_true(living);
}

static const char *const plain_argv[] = {"/bin/true", NULL};
static const char *const unshare_argv[] = {
    "unshare", "--user", "--map-root-user", "--pid",        "--fork", "--mount",
    "--ipc",   "--net",  "--uts",           "--mount-proc", "true",   NULL};
static const char *const bwrap_argv[] = {"bwrap",
                                         "--unshare-all",
                                         "--die-with-parent",
                                         "--new-session",
                                         "--ro-bind",
                                         "/usr",
                                         "/usr",
                                         "--symlink",
                                         "usr/bin",
                                         "/bin",
                                         "--symlink",
                                         "usr/lib",
                                         "/lib",
                                         "--symlink",
                                         "usr/lib64",
                                         "/lib64",
                                         "--proc",
                                         "/proc",
                                         "--dev",
                                         "/dev",
                                         "--tmpfs",
                                         "/tmp",
                                         "--tmpfs",
                                         "/workspace",
                                         "--cap-drop",
                                         "ALL",
                                         "/bin/true",
                                         NULL};

extern char **environ;

static int spawn(const char *const *argv)
{
    pid_t pid;
    int status = -1;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ) != 0)
        return -1;
    (void)waitpid(pid, &status, 0);
    return status;
}

static void run_peer(void *ctx)
{
    if (spawn(ctx) != 0)
        exit(1);
}

/* How many a second, each worker with a warden of its own. */
static void rate_worker(int out)
{
    struct err err = {0};
    struct warden_link *own = NULL;
    int64_t count = 0;
    check(warden_start(&own, &err), &err);
    check(warden_pool(own, &(struct jail_plan){0}, POOL, 0, &err), &err);
    for (int64_t until = clock_now_ms() + RATE_MS; clock_now_ms() < until; count++)
        run_jail(&own);
    (void)warden_free(own);
    exit(write(out, &count, sizeof count) == sizeof count ? 0 : 1);
}

static double measure_rate(void)
{
    int pair[2];
    int64_t total = 0, count;
    if (pipe2(pair, O_CLOEXEC) < 0)
        exit(1);
    for (int i = 0; i < WORKERS; i++)
        if (fork() == 0)
            rate_worker(pair[1]);
    for (int i = 0; i < WORKERS; i++) {
        if (read(pair[0], &count, sizeof count) != sizeof count)
            exit(1);
        total += count;
        (void)wait(NULL);
    }
    return (double)total * 1000 / RATE_MS;
}

/* A hundred at once from one caller: all are made, then all answer. */
static double measure_burst(struct warden_link *warden)
{
    static struct jail *jails[BURST];
    int64_t begin = clock_now_ns();
    for (int i = 0; i < BURST; i++) {
        jails[i] = make(warden);
        start_true(jails[i]);
    }
    for (int i = 0; i < BURST; i++)
        wait_true(jails[i]);
    double ms = (double)(clock_now_ns() - begin) / 1e6;
    for (int i = 0; i < BURST; i++)
        (void)jail_free(jails[i]);
    return ms;
}

static double pss_kib(pid_t pid)
{
    char path[64], line[256];
    long kib = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Pss: %ld", &kib) == 1)
            break;
    if (file != NULL)
        (void)fclose(file);
    return (double)kib;
}

static pid_t pid_of(int pidfd)
{
    char path[64], line[128];
    int pid = -1;
    (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        (void)!sscanf(line, "Pid: %d", &pid);
    if (file != NULL)
        (void)fclose(file);
    return pid;
}

static void start_wardens(void)
{
    struct err err = {0};
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    check(warden_start(&pooled, &err), &err);
    check(warden_start(&cold, &err), &err);
    check(warden_pool(pooled, &(struct jail_plan){0}, POOL, 0, &err), &err);
    living = make(cold);
    (void)usleep(200000); /* the pool fills */
}

int main(int argc, char **argv)
{
    start_wardens();
    struct bench *bench = bench_begin("jail");
    struct bench_case cases[8] = {
        {"jail_true_pooled", "bwrap_true", run_jail, &pooled, 0, "from a pool of 16"},
        {"jail_true_cold", "bwrap_true", run_jail, &cold, 0, "no jail made ahead"},
        {"spawn_true", NULL, run_peer, (void *)(uintptr_t)plain_argv, 0, "no fence"},
        {"jail_cmd_roundtrip", "spawn_true", run_command, NULL, 0, "true in a living jail"},
    };
    size_t count = 4;
    if (spawn(bwrap_argv) == 0)
        cases[count++] = (struct bench_case){"bwrap_true",
                                             NULL,
                                             run_peer,
                                             (void *)(uintptr_t)bwrap_argv,
                                             0,
                                             "namespaces alone: no cgroup, filter, Landlock"};
    if (spawn(unshare_argv) == 0)
        cases[count++] = (struct bench_case){
            "unshare_true", NULL, run_peer, (void *)(uintptr_t)unshare_argv, 0, NULL};
    bench_interleaved(bench, cases, count, SAMPLES);
    bench_figure(bench, "jail_idle_pss", "KiB", pss_kib(pid_of(jail_pidfd(living))), NULL,
                 "init of an idle jail");
    bench_figure(bench, "warden_pss", "KiB", pss_kib(warden_pid(pooled)), NULL, NULL);
    double bursts[BURSTS];
    for (int i = 0; i < BURSTS; i++) {
        bursts[i] = measure_burst(pooled);
        (void)usleep(100000);
    }
    bench_samples(bench, "jail_burst_100", "ms", bursts, BURSTS, NULL, "pool of 16");
    (void)jail_free(living);
    (void)warden_free(cold);
    (void)warden_free(pooled);
    bench_figure(bench, "jail_rate", "1/s", measure_rate(), NULL,
                 "create, true, destroy; 2 workers");
    layers_rows_in_store(bench, layers_rows_measure);
    return bench_end(bench, argc, argv);
}
