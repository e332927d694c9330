/* What a running jail notices of a checkpoint and of a pause, and what it costs to limit a
 * directory's size. Checkpoints as a caller of the server sees them are rows of the suite http. */

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/tree.h"
#include "bench.h"
#include "jail/disk/quota.h"
#include "waiting.h"

enum { SAMPLES = 300, QUOTAS = 60 };

static const struct {
    enum disk_quota_method method;
    bool ephemeral;
    const char *create_row, *destroy_row;
} ways[] = {
    {DISK_QUOTA_PROJECT, false, "quota_project_create", "quota_project_destroy"},
    {DISK_QUOTA_IMAGE, false, "quota_image_create", "quota_image_destroy"},
    {DISK_QUOTA_IMAGE, true, "quota_image_ephemeral_create", "quota_image_ephemeral_destroy"},
    {DISK_QUOTA_MEMORY, true, "quota_memory_create", "quota_memory_destroy"},
};

static struct err err;

static void check(int done)
{
    if (done >= 0)
        return;
    (void)fprintf(stderr, "bench: %s\n", err.msg);
    exit(1);
}

static double since_us(int64_t begin)
{
    return (double)(clock_now_ns() - begin) / 1e3;
}

static void measure_seal(struct bench *bench, struct jail *jail, const struct jail_plan *plan)
{
    static double taken[SAMPLES];
    AUTO_CLOSE int last = -1;
    for (int i = 0; i < SAMPLES; i++) {
        int64_t begin = clock_now_ns();
        int sealed = jail_seal(jail, plan, 0, INT64_MAX, &err);
        check(sealed);
        taken[i] = since_us(begin);
        if (last >= 0)
            check(tree_reclaim(last, &err));
        fd_close(&last);
        last = sealed;
    }
    bench_samples(bench, "jail_seal", "us", taken, SAMPLES, NULL,
                  "layers in memory; what a sandbox notices of a checkpoint");
}

static void measure_freeze(struct bench *bench, struct warden_link *warden, struct jail *jail)
{
    static double taken[2][SAMPLES];
    if (warden_host(warden)->no_freeze[0] != '\0')
        return;
    for (int i = 0; i < SAMPLES; i++) {
        int64_t begin = clock_now_ns();
        check(jail_freeze(jail, true, &err));
        taken[0][i] = since_us(begin);
        begin = clock_now_ns();
        check(jail_freeze(jail, false, &err));
        taken[1][i] = since_us(begin);
    }
    bench_samples(bench, "jail_freeze", "us", taken[0], SAMPLES, NULL, NULL);
    bench_samples(bench, "jail_thaw", "us", taken[1], SAMPLES, NULL, NULL);
}

static void measure_jail(struct bench *bench)
{
    AUTO_WARDEN struct warden_link *warden = NULL;
    AUTO_JAIL struct jail *jail = NULL;
    struct jail_plan plan = {.overlay = true};
    check(warden_start(&warden, &err));
    if (warden_host(warden)->no_memory[0] != '\0')
        plan.limits.memory_bytes = plan.limits.cpu_milli = JAIL_UNLIMITED;
    check(jail_make(warden, &plan, &jail, &err));
    measure_seal(bench, jail, &plan);
    measure_freeze(bench, warden, jail);
}

static void measure_quota(struct bench *bench, int box_fd, size_t way)
{
    static double taken[2][QUOTAS];
    enum disk_quota_method method;
    struct disk_quota_limit limit = {.bytes = 1LL << 30,
                                     .inodes = 200000,
                                     .ephemeral = ways[way].ephemeral,
                                     .method = ways[way].method};
    for (int i = 0; i < QUOTAS; i++) {
        int64_t begin = clock_now_ns();
        if (disk_quota_attach(box_fd, "data", box_fd, &limit, &method, &err) < 0) {
            (void)fprintf(stderr, "bench: no row %s: %s\n", ways[way].create_row, err.msg);
            return;
        }
        taken[0][i] = since_us(begin);
        begin = clock_now_ns();
        check(disk_quota_detach(box_fd, "data", &err));
        taken[1][i] = since_us(begin);
        /* An owner throws them away with the whole directory. */
        (void)unlinkat(box_fd, "disk.img", 0);
        (void)unlinkat(box_fd, "quota", 0);
    }
    bench_samples(bench, ways[way].create_row, "us", taken[0], QUOTAS, NULL, "1 GiB");
    bench_samples(bench, ways[way].destroy_row, "us", taken[1], QUOTAS, NULL, NULL);
}

static void measure_quotas(struct bench *bench)
{
    char dir[] = "/tmp/sandglass-bench-XXXXXX";
    if (mkdtemp(dir) == NULL)
        exit(1);
    AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || mkdirat(fd, "data", 0755) < 0)
        exit(1);
    for (size_t i = 0; i < countof(ways); i++)
        measure_quota(bench, fd, i);
    check(tree_reclaim(fd, &err));
    (void)rmdir(dir);
}

int main(int argc, char **argv)
{
    struct bench *bench = bench_begin("layers");
    measure_jail(bench);
    measure_quotas(bench);
    return bench_end(bench, argc, argv);
}
