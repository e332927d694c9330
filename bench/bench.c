#include "bench.h"

#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/format/json.h"
#include "base/vec.h"

struct row {
    const char *name, *unit, *peer, *note;
    double p50, p99;
    size_t n;
};

struct bench {
    const char *suite;
    VEC(struct row) rows;
};

struct bench *bench_begin(const char *suite)
{
    struct bench *bench = mem_alloc(sizeof *bench);
    bench->suite = suite;
    return bench;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

void bench_samples(struct bench *bench, const char *name, const char *unit, double *samples,
                   size_t count, const char *peer, const char *note)
{
    assert(count > 0);
    qsort(samples, count, sizeof *samples, by_value);
    *vec_push(&bench->rows) = (struct row){
        .name = name,
        .unit = unit,
        .peer = peer,
        .note = note,
        .p50 = samples[count / 2],
        .p99 = samples[count * 99 / 100],
        .n = count,
    };
}

void bench_figure(struct bench *bench, const char *name, const char *unit, double value,
                  const char *peer, const char *note)
{
    bench_samples(bench, name, unit, &value, 1, peer, note);
}

static double sample_us(const struct bench_case *bench_case)
{
    size_t per_sample = MAX(bench_case->per_sample, (size_t)1);
    int64_t start_ns = clock_now_ns();
    bench_case->run(bench_case->ctx);
    return (double)(clock_now_ns() - start_ns) / 1000.0 / (double)per_sample;
}

void bench_interleaved(struct bench *bench, const struct bench_case *cases, size_t count,
                       size_t samples)
{
    AUTO_MEM double *times = mem_alloc(count * samples * sizeof *times);
    size_t warm_up = samples / 10;
    for (size_t i = 0; i < warm_up + samples; i++) {
        for (size_t c = 0; c < count; c++) {
            double us = sample_us(&cases[c]);
            if (i >= warm_up)
                times[c * samples + (i - warm_up)] = us;
        }
    }
    for (size_t c = 0; c < count; c++)
        bench_samples(bench, cases[c].name, "us", times + c * samples, samples, cases[c].peer,
                      cases[c].note);
}

static void take_block(const struct bench_case *bench_case, size_t block, double *times)
{
    for (size_t i = 0; i < block; i++) {
        double us = sample_us(bench_case);
        if (times != NULL)
            times[i] = us;
    }
}

void bench_blocks(struct bench *bench, const struct bench_case *cases, size_t count, size_t samples,
                  size_t block, void (*settle)(void))
{
    size_t rounds = (samples + block - 1) / block;
    size_t taken = rounds * block;
    AUTO_MEM double *times = mem_alloc(count * taken * sizeof *times);
    for (size_t round = 0; round <= rounds; round++)
        for (size_t c = 0; c < count; c++) {
            settle();
            /* The first round warms up. */
            take_block(&cases[c], block,
                       round == 0 ? NULL : times + c * taken + (round - 1) * block);
        }
    for (size_t c = 0; c < count; c++)
        bench_samples(bench, cases[c].name, "us", times + c * taken, taken, cases[c].peer,
                      cases[c].note);
}

/* This row's p50 over its peer's; 0 when it has none. */
static double ratio_of(struct bench *bench, const struct row *row)
{
    if (row->peer == NULL)
        return 0;
    VEC_EACH (other, &bench->rows)
        if (strcmp(other->name, row->peer) == 0 && other->p50 > 0)
            return row->p50 / other->p50;
    return 0;
}

static void print_table(struct bench *bench)
{
    printf("\n%s\n%-28s %12s %12s %8s %-6s %s\n", bench->suite, "name", "p50", "p99", "n", "unit",
           "ratio to peer");
    VEC_EACH (row, &bench->rows) {
        double ratio = ratio_of(bench, row);
        printf("%-28s %12.4g %12.4g %8zu %-6s", row->name, row->p50, row->p99, row->n, row->unit);
        if (ratio > 0)
            printf(" %.3g x %s", ratio, row->peer);
        if (row->note != NULL)
            printf("%s(%s)", ratio > 0 ? "  " : " ", row->note);
        printf("\n");
    }
}

static void put_row(struct json_out *out, struct bench *bench, const struct row *row)
{
    double ratio = ratio_of(bench, row);
    json_begin_object(out);
    json_key(out, "name"), json_put_cstr(out, row->name);
    json_key(out, "unit"), json_put_cstr(out, row->unit);
    json_key(out, "p50"), json_put_f64(out, row->p50);
    json_key(out, "p99"), json_put_f64(out, row->p99);
    json_key(out, "n"), json_put_i64(out, (int64_t)row->n);
    json_key(out, "peer"), json_put_cstr(out, row->peer);
    json_key(out, "ratio");
    if (ratio > 0)
        json_put_f64(out, ratio);
    else
        json_put_null(out);
    json_key(out, "note"), json_put_cstr(out, row->note);
    json_end_object(out);
}

static void compose(struct bench *bench, struct buf *text)
{
    struct utsname host = {0};
    (void)uname(&host);
    char description[128];
    (void)snprintf(description, sizeof description, "%s %.40s %.20s, %ld cpus", host.sysname,
                   host.release, host.machine, sysconf(_SC_NPROCESSORS_ONLN));
    struct json_out out = {.buf = text, .pretty = true};
    json_begin_object(&out);
    json_key(&out, "suite"), json_put_cstr(&out, bench->suite);
    json_key(&out, "host"), json_put_cstr(&out, description);
    json_key(&out, "rows");
    json_begin_array(&out);
    VEC_EACH (row, &bench->rows)
        put_row(&out, bench, row);
    json_end_array(&out);
    json_end_object(&out);
    buf_put_char(text, '\n');
}

int bench_end(struct bench *bench, int argc, char **argv)
{
    print_table(bench);
    int code = 0;
    if (argc > 1) {
        AUTO_BUF struct buf text = {0};
        compose(bench, &text);
        FILE *file = fopen(argv[1], "we");
        bool written = file != NULL && fwrite(text.ptr, 1, text.len, file) == text.len;
        if (file == NULL || fclose(file) != 0 || !written) {
            (void)fprintf(stderr, "bench: cannot write '%s'\n", argv[1]);
            code = 1;
        }
    }
    vec_done(&bench->rows);
    free(bench);
    return code;
}
