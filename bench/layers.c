/* Checkpoint, rollback and fork of a sandbox's files, with its jail at rest and running, and what
 * it costs to limit a directory's size. */

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/tree.h"
#include "bench.h"
#include "jail/layers_live.h"

enum { SAMPLES = 300, QUOTAS = 60 };

static char root[] = "/tmp/sandglass-bench-XXXXXX";
static struct layers *layers;
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

/* What the peer does: a copy of the tree, here 1,000 small files in 50 directories. */
static void fill_tree(const char *dir)
{
    char path[256];
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(path, sizeof path, "%s/d%d", dir, i % 50);
        (void)mkdir(path, 0755);
        (void)snprintf(path, sizeof path, "%s/d%d/f%d", dir, i % 50, i);
        AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0 || write(fd, root, sizeof root) < 0)
            exit(1);
    }
}

static void measure_files(struct bench *bench)
{
    static double taken[4][SAMPLES];
    uint32_t base, number;
    check(layers_create(layers, "files-at-rest", NULL, NULL, &err));
    char dir[256];
    (void)snprintf(dir, sizeof dir, "%s/sandboxes/files-at-rest/layers/1-0/upper", root);
    fill_tree(dir);
    check(layers_checkpoint(layers, "files-at-rest", &base, &err));
    for (int i = 0; i < SAMPLES; i++) {
        char twin[32];
        (void)snprintf(twin, sizeof twin, "twin-%06d", i);
        /* What the daemon does when there is time. */
        check(layers_stock(layers, 2, &err));
        check(layers_reclaim(layers, "files-at-rest", &err));
        int64_t begin = clock_now_ns();
        check(layers_checkpoint(layers, "files-at-rest", &number, &err));
        taken[0][i] = since_us(begin);
        begin = clock_now_ns();
        check(layers_fork(layers, "files-at-rest", number, twin, NULL, &err));
        taken[1][i] = since_us(begin);
        check(layers_destroy(layers, twin, &err));
        check(layers_reclaim(layers, "files-at-rest", &err));
        begin = clock_now_ns();
        check(layers_rollback(layers, "files-at-rest", base, &err));
        taken[2][i] = since_us(begin);
        begin = clock_now_ns();
        check(layers_create(layers, twin, NULL, NULL, &err));
        taken[3][i] = since_us(begin);
        check(layers_destroy(layers, twin, &err));
        if (i % 50 == 0)
            check(layers_reclaim(layers, NULL, &err));
    }
    static const char *const names[] = {"jail_checkpoint", "jail_fork", "jail_rollback",
                                        "layers_create"};
    for (int i = 0; i < 4; i++)
        bench_samples(bench, names[i], "us", taken[i], SAMPLES, NULL, "1,000 files; jail at rest");
}

static void measure_live(struct bench *bench)
{
    static double taken[2][SAMPLES];
    uint32_t base, number;
    AUTO_WARDEN struct warden_link *warden = NULL;
    AUTO_JAIL struct jail *jail = NULL;
    AUTO_ARENA struct arena arena = {0};
    struct jail_plan plan = {0};
    check(warden_start(&warden, &err));
    if (warden_host(warden)->no_memory[0] != '\0')
        plan.limits.memory_bytes = plan.limits.cpu_milli = JAIL_UNLIMITED;
    check(layers_create(layers, "files-in-use", NULL, NULL, &err));
    check(layers_plan(layers, "files-in-use", &arena, &plan, &err));
    check(jail_make(warden, &plan, &jail, &err));
    check(layers_checkpoint_live(layers, "files-in-use", jail, &plan, &base, &err));
    for (int i = 0; i < SAMPLES; i++) {
        check(layers_reclaim(layers, "files-in-use", &err));
        int64_t begin = clock_now_ns();
        check(layers_checkpoint_live(layers, "files-in-use", jail, &plan, &number, &err));
        taken[0][i] = since_us(begin);
        check(layers_reclaim(layers, "files-in-use", &err));
        begin = clock_now_ns();
        check(layers_rollback_live(layers, "files-in-use", base, jail, &plan, &err));
        taken[1][i] = since_us(begin);
    }
    bench_samples(bench, "jail_checkpoint_live", "us", taken[0], SAMPLES, NULL, "jail running");
    bench_samples(bench, "jail_rollback_live", "us", taken[1], SAMPLES, NULL, "jail running");
}

static void measure_quota(struct bench *bench, enum quota_method method, const char *create_row,
                          const char *destroy_row, bool ephemeral)
{
    static double taken[2][QUOTAS];
    struct quota_limit limit = {
        .bytes = 1LL << 30, .inodes = 200000, .ephemeral = ephemeral, .method = method};
    for (int i = 0; i < QUOTAS; i++) {
        int64_t begin = clock_now_ns();
        if (layers_create(layers, "limited-one", NULL, &limit, &err) < 0) {
            (void)fprintf(stderr, "bench: no row %s: %s\n", create_row, err.msg);
            return;
        }
        taken[0][i] = since_us(begin);
        begin = clock_now_ns();
        check(layers_destroy(layers, "limited-one", &err));
        taken[1][i] = since_us(begin);
        check(layers_reclaim(layers, NULL, &err));
    }
    bench_samples(bench, create_row, "us", taken[0], QUOTAS, "layers_create", "sandbox of 1 GiB");
    bench_samples(bench, destroy_row, "us", taken[1], QUOTAS, NULL, NULL);
}

int main(int argc, char **argv)
{
    if (mkdtemp(root) == NULL)
        return 1;
    check(layers_open(root, &layers, &err));
    struct bench *bench = bench_begin("layers");
    measure_files(bench);
    measure_live(bench);
    measure_quota(bench, QUOTA_PROJECT, "quota_project_create", "quota_project_destroy", false);
    measure_quota(bench, QUOTA_IMAGE, "quota_image_create", "quota_image_destroy", false);
    measure_quota(bench, QUOTA_IMAGE, "quota_image_ephemeral_create",
                  "quota_image_ephemeral_destroy", true);
    measure_quota(bench, QUOTA_MEMORY, "quota_memory_create", "quota_memory_destroy", true);
    layers = layers_free(layers);
    AUTO_CLOSE int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int trash = -1;
    char bin[] = "/tmp/sandglass-bench-XXXXXX";
    if (mkdtemp(bin) == NULL || (trash = open(bin, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return 1;
    check(tree_discard(tmp, root + 5, trash, &err));
    check(tree_reclaim(trash, &err));
    (void)rmdir(bin);
    return bench_end(bench, argc, argv);
}
