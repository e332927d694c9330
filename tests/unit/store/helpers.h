#pragma once

/* A store in a directory of its own, and waiting for its answers. */

#include "io/loop.h"
#include "store/store.h"
#include "test.h"

struct bench {
    struct loop *loop;
    struct store *store;
    char dir[4096];
    int answers;    /* that came */
    int failures;   /* among them */
    struct err why; /* of the last failure */
};

/* A new directory each time. */
void bench_dir(struct bench *bench);
int bench_open(struct bench *bench, struct err *err) MUST_USE;
void bench_close(struct bench *bench);
void bench_answer(void *ctx, const struct err *why); /* a store_done; ctx is the bench */
void bench_wait(struct bench *bench, int answers);   /* until this many came */

struct store_sandbox bench_sandbox(const char *id, int64_t ord);
/* One sandbox, committed and waited for: 0 or -1 with bench->why. */
int bench_put(struct bench *bench, const char *id, int64_t ord, enum store_strength strength);
/* Sandboxes in the store. */
int bench_count(struct bench *bench);
