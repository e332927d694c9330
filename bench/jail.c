/* Jails beside other ways to run a program fenced off. Each sample creates, runs /bin/true and
 * destroys: the answer comes when every process of the jail is gone. */

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "bench.h"
#include "jail/client/jail.h"
#include "jail_floor.h"
#include "jail_peers.h"
#include "waiting.h"

enum {
    SAMPLES = 288,
    BLOCK = 48, /* fits into the pool */
    RARE = 200,
    POOL = 64,
    SETTLE_MS = 80, /* the pool is full again */
    RARE_MS = 20,
    BURST = 100,
    BURSTS = 5,
    RATE_MS = 1500,
    RATE_ROUNDS = 3,
    WORKERS = 2,
};

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

/* Keeps a processor awake while the pool fills and what the last case left is put away: after a
 * sleep everything on this kind of machine takes up to twice as long. */
static void settle(void)
{
    for (int64_t until = clock_now_ms() + SETTLE_MS; clock_now_ms() < until;)
        ;
}

/* How many a second, each worker with a warden of its own. */
static int64_t rate_of_jails(void)
{
    struct err err = {0};
    struct warden_link *own = NULL;
    int64_t count = 0;
    check(warden_start(&own, &err), &err);
    check(warden_pool(own, &(struct jail_plan){0}, POOL, 0, &err), &err);
    for (int64_t until = clock_now_ms() + RATE_MS; clock_now_ms() < until; count++)
        run_jail(&own);
    (void)warden_free(own);
    return count;
}

static int64_t rate_of_fences(void)
{
    return jail_floor_run(RATE_MS);
}

static void NORETURN rate_worker(int64_t (*work)(void), int out)
{
    /* What is measured may close descriptors, but not these. */
    enum { HIGH = 200 };
    int high = fcntl(out, F_DUPFD_CLOEXEC, HIGH);
    int64_t count = work();
    _exit(write(high, &count, sizeof count) == sizeof count ? 0 : 1);
}

struct rate {
    double per_second,
        cpu_us; /* each, of all its processes; what the kernel does later is not in it */
};

static double children_us(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_CHILDREN, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static struct rate measure_rate(int64_t (*work)(void))
{
    int pair[2];
    int64_t total = 0, count;
    double before_us = children_us();
    if (pipe2(pair, O_CLOEXEC) < 0)
        exit(1);
    for (int i = 0; i < WORKERS; i++)
        if (fork() == 0)
            rate_worker(work, pair[1]);
    for (int i = 0; i < WORKERS; i++) {
        if (read(pair[0], &count, sizeof count) != sizeof count)
            exit(1);
        total += count;
    }
    for (int i = 0; i < WORKERS; i++)
        (void)wait(NULL);
    (void)close(pair[0]);
    (void)close(pair[1]);
    return (struct rate){.per_second = (double)total * 1000 / RATE_MS,
                         .cpu_us = (children_us() - before_us) / (double)total};
}

/* In turns: the machine's pace changes within seconds. */
static void measure_rates(struct bench *bench)
{
    struct rate jails = {0}, fences = {0};
    for (int i = 0; i < RATE_ROUNDS; i++) {
        struct rate jail = measure_rate(rate_of_jails), fence = measure_rate(rate_of_fences);
        jails.per_second += jail.per_second / RATE_ROUNDS;
        jails.cpu_us += jail.cpu_us / RATE_ROUNDS;
        fences.per_second += fence.per_second / RATE_ROUNDS;
        fences.cpu_us += fence.cpu_us / RATE_ROUNDS;
    }
    bench_figure(bench, "jail_rate", "1/s", jails.per_second, "floor_rate",
                 "create, true, destroy; 2 workers");
    bench_figure(bench, "floor_rate", "1/s", fences.per_second, NULL,
                 "clone, the same fence, true; nothing else");
    bench_figure(bench, "jail_cpu", "us", jails.cpu_us, "floor_cpu",
                 "processor time of each; the pool is in it");
    bench_figure(bench, "floor_cpu", "us", fences.cpu_us, NULL, NULL);
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
    (void)usleep(300000); /* the pool fills */
}

static size_t list_cases(struct bench_case *cases)
{
    size_t count = 0;
    cases[count++] = (struct bench_case){"jail_true_pooled", "bwrap_true", run_jail, &pooled, 0,
                                         "from a pool of 64"};
    cases[count++] = (struct bench_case){"jail_true_cold",    "bwrap_true", run_jail, &cold, 0,
                                         "nothing made ahead"};
    cases[count++] = (struct bench_case){"jail_cmd_roundtrip",   "spawn_true", run_command, NULL, 0,
                                         "true in a living jail"};
    return count + jail_peers(cases + count);
}

/* The same after a pause of 20 ms each: caches are cold, the machine has to wake. */
static void measure_rare(struct bench *bench, struct bench_case *cases, size_t count)
{
    static const struct {
        const char *of, *name, *peer;
    } rows[] = {{"jail_true_pooled", "jail_true_rare", "bwrap_true_rare"},
                {"bwrap_true", "bwrap_true_rare", NULL}};
    for (size_t r = 0; r < countof(rows); r++)
        for (size_t c = 0; c < count; c++) {
            static double times[RARE];
            if (strcmp(cases[c].name, rows[r].of) != 0)
                continue;
            for (int i = 0; i < RARE; i++) {
                (void)usleep(RARE_MS * 1000);
                int64_t begin = clock_now_ns();
                cases[c].run(cases[c].ctx);
                times[i] = (double)(clock_now_ns() - begin) / 1e3;
            }
            bench_samples(bench, rows[r].name, "us", times, RARE, rows[r].peer, "one each 20 ms");
        }
}

static void measure_bursts(struct bench *bench)
{
    double bursts[BURSTS];
    for (int i = 0; i < BURSTS; i++) {
        (void)usleep(100000);
        bursts[i] = measure_burst(pooled);
    }
    bench_samples(bench, "jail_burst_100", "ms", bursts, BURSTS, NULL,
                  "pool of 64; a failure ends the run");
}

int main(int argc, char **argv)
{
    struct bench_case cases[3 + JAIL_PEERS_MAX];
    start_wardens();
    struct bench *bench = bench_begin("jail");
    size_t count = list_cases(cases);
    bench_blocks(bench, cases, count, SAMPLES, BLOCK, settle);
    measure_rare(bench, cases, count);
    bench_figure(bench, "jail_idle_pss", "KiB", pss_kib(pid_of(jail_pidfd(living))), NULL,
                 "init of an idle jail");
    bench_figure(bench, "warden_pss", "KiB", pss_kib(warden_pid(pooled)), NULL, NULL);
    measure_bursts(bench);
    (void)jail_free(living);
    (void)warden_free(cold);
    (void)warden_free(pooled);
    jail_peers_done();
    measure_rates(bench);
    return bench_end(bench, argc, argv);
}
