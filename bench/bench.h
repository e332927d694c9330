#pragma once

/* Measuring beside a peer: one program per suite, a table for people and JSON for programs.
 *
 * Cases that belong together are sampled in turn (a, b, a, b, ...), so that a noisy moment of the
 * machine falls on all of them alike; compare ratios, not runs. Row names are snake_case and stay
 * the same for good: figures are compared by name over time. */

#include <stddef.h>
#include <stdint.h>

struct bench_case {
    const char *name;       /* of the row */
    const char *peer;       /* row to compare with, in this suite; NULL for none */
    void (*run)(void *ctx); /* one sample; what it does `per_sample` times is divided out */
    void *ctx;
    size_t per_sample; /* 0 means 1 */
    const char *note;  /* "64 KiB of objects"; NULL for none */
};

struct bench; /* one suite */

struct bench *bench_begin(const char *suite);
/* Samples each case `samples` times, in turn, after a tenth of that as warm-up. Unit: us. */
void bench_interleaved(struct bench *bench, const struct bench_case *cases, size_t count,
                       size_t samples);
/* The same in blocks: `block` samples of a case, one right after the other as a loaded machine
 * would run them, then as many of the next; `settle` before each block, so that what one leaves
 * behind does not fall on the other. */
void bench_blocks(struct bench *bench, const struct bench_case *cases, size_t count, size_t samples,
                  size_t block, void (*settle)(void));
/* A row from samples that were taken elsewhere; sorts them. p50 and p99 are taken from them. */
void bench_samples(struct bench *bench, const char *name, const char *unit, double *samples,
                   size_t count, const char *peer, const char *note);
/* A row that is one figure: a rate, a size. */
void bench_figure(struct bench *bench, const char *name, const char *unit, double value,
                  const char *peer, const char *note);
/* Prints the table, writes the JSON file (argv[1], when given), frees; gives the exit code. */
int bench_end(struct bench *bench, int argc, char **argv);
