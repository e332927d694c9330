/* Checkpoint, rollback and fork of a sandbox's files, and what it costs to limit a directory's
 * size. */

#include "jail/layers.h"
#include "base/clock.h"
#include "base/err.h"
#include "bench.h"
#include "layers_rows.h"

enum { QUOTAS = 60 };

static const struct {
    enum quota_method method;
    bool ephemeral;
    const char *create_row, *destroy_row;
} ways[] = {
    {QUOTA_PROJECT, false, "quota_project_create", "quota_project_destroy"},
    {QUOTA_IMAGE, false, "quota_image_create", "quota_image_destroy"},
    {QUOTA_IMAGE, true, "quota_image_ephemeral_create", "quota_image_ephemeral_destroy"},
    {QUOTA_MEMORY, true, "quota_memory_create", "quota_memory_destroy"},
};

static double since_us(int64_t begin)
{
    return (double)(clock_now_ns() - begin) / 1e3;
}

static void measure_quota(struct bench *bench, struct layers *layers, size_t way)
{
    static double taken[2][QUOTAS];
    struct err err = {0};
    struct quota_limit limit = {.bytes = 1LL << 30,
                                .inodes = 200000,
                                .ephemeral = ways[way].ephemeral,
                                .method = ways[way].method};
    for (int i = 0; i < QUOTAS; i++) {
        int64_t begin = clock_now_ns();
        if (layers_create(layers, "limited-one", NULL, &limit, &err) < 0) {
            (void)fprintf(stderr, "bench: no row %s: %s\n", ways[way].create_row, err.msg);
            return;
        }
        taken[0][i] = since_us(begin);
        begin = clock_now_ns();
        layers_rows_check(layers_destroy(layers, "limited-one", &err), err.msg);
        taken[1][i] = since_us(begin);
        layers_rows_check(layers_reclaim(layers, NULL, &err), err.msg);
    }
    bench_samples(bench, ways[way].create_row, "us", taken[0], QUOTAS, "layers_create",
                  "sandbox of 1 GiB");
    bench_samples(bench, ways[way].destroy_row, "us", taken[1], QUOTAS, NULL, NULL);
}

static void measure(struct bench *bench, struct layers *layers)
{
    layers_rows_measure(bench, layers);
    for (size_t i = 0; i < countof(ways); i++)
        measure_quota(bench, layers, i);
}

int main(int argc, char **argv)
{
    struct bench *bench = bench_begin("layers");
    layers_rows_in_store(bench, measure);
    return bench_end(bench, argc, argv);
}
