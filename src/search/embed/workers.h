#pragma once

/* Threads that share the items of one job. They are started once; between jobs they wait for a
 * short time actively, then in the kernel. */

#include "base/base.h"

struct err;
struct workers;

/* `threads` counts the caller of workers_run. Returns when all of them wait for work. */
int workers_start(int threads, struct workers **ret_workers, struct err *err) MUST_USE;
struct workers *workers_stop(struct workers *workers);
int workers_count(const struct workers *workers);

/* Calls `item` for 0 to count - 1, on all threads, and returns when all are done. `worker` is below
 * workers_count: no two calls at a time have the same. */
void workers_run(struct workers *workers, void (*item)(void *ctx, size_t index, int worker),
                 void *ctx, size_t count);
