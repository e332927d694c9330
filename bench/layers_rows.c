#include "layers_rows.h"

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

enum { SAMPLES = 300 };

static char root[] = "/tmp/sandglass-bench-XXXXXX";
static struct err err;

void layers_rows_check(int done, const char *message)
{
    if (done >= 0)
        return;
    (void)fprintf(stderr, "bench: %s\n", message);
    exit(1);
}

static void check(int done)
{
    layers_rows_check(done, err.msg);
}

static double since_us(int64_t begin)
{
    return (double)(clock_now_ns() - begin) / 1e3;
}

/* 1,000 small files in 50 directories: what a copy would have to move. */
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

static void measure_files(struct bench *bench, struct layers *layers)
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

static void measure_live(struct bench *bench, struct layers *layers)
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
    measure_freeze(bench, warden, jail);
}

/* As the daemon does it: the layer lies in memory, and is copied to disk behind this. */
static void measure_memory(struct bench *bench)
{
    static double taken[SAMPLES];
    AUTO_WARDEN struct warden_link *warden = NULL;
    AUTO_JAIL struct jail *jail = NULL;
    AUTO_CLOSE int last = -1;
    struct jail_plan plan = {.overlay = true};
    check(warden_start(&warden, &err));
    if (warden_host(warden)->no_memory[0] != '\0')
        plan.limits.memory_bytes = plan.limits.cpu_milli = JAIL_UNLIMITED;
    check(jail_make(warden, &plan, &jail, &err));
    for (int i = 0; i < SAMPLES; i++) {
        int64_t begin = clock_now_ns();
        int sealed = jail_seal(jail, &plan, 0, INT64_MAX, &err);
        check(sealed);
        taken[i] = since_us(begin);
        if (last >= 0)
            check(tree_reclaim(last, &err));
        fd_close(&last);
        last = sealed;
    }
    bench_samples(bench, "jail_checkpoint_memory", "us", taken, SAMPLES, NULL,
                  "jail running; as the daemon does it");
}

void layers_rows_measure(struct bench *bench, struct layers *layers)
{
    measure_files(bench, layers);
    measure_live(bench, layers);
    measure_memory(bench);
}

static void remove_store(void)
{
    char bin[] = "/tmp/sandglass-bench-XXXXXX";
    AUTO_CLOSE int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int trash = -1;
    if (mkdtemp(bin) == NULL || (trash = open(bin, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        exit(1);
    check(tree_discard(tmp, root + strlen("/tmp/"), trash, &err));
    check(tree_reclaim(trash, &err));
    (void)rmdir(bin);
}

void layers_rows_in_store(struct bench *bench,
                          void (*measure)(struct bench *bench, struct layers *layers))
{
    struct layers *layers = NULL;
    if (mkdtemp(root) == NULL)
        exit(1);
    check(layers_open(root, &layers, &err));
    measure(bench, layers);
    layers = layers_free(layers);
    remove_store();
}
