#pragma once

/* Workers by tenant: one tenant's isolates may share a worker, two tenants' never do.
 *
 * Workers wait ready, belonging to nobody. The first run of a tenant takes one; it stays that
 * tenant's until it is dead, old or idle longest when room is needed, and is then ended, never
 * handed on. isolate_pool_refill makes new ones and is called behind the answer, by a process
 * without threads. */

#include "isolate/worker.h"

struct isolate_pool;

struct isolate_pool_options {
    struct worker_options worker;
    size_t warm;        /* ready workers that belong to nobody */
    size_t workers_max; /* in all */
    uint64_t runs_max;  /* of one worker, then it is replaced; 0 for no end */
};

/* Starts the warm workers. */
int isolate_pool_new(const struct isolate_pool_options *options, struct isolate_pool **ret_pool,
                     struct err *err) MUST_USE;
struct isolate_pool *isolate_pool_free(struct isolate_pool *pool);
DEFINE_FREEP(isolate_pool)
#define AUTO_POOL AUTO(isolate_pool_freep)

/* The tenant's worker, or a ready one that is the tenant's from now on. Borrowed until the next
 * call of this pool. */
int isolate_pool_worker(struct isolate_pool *pool, struct str tenant, struct worker **ret_worker,
                        struct err *err) MUST_USE;
/* Ends the tenant's worker and everything in it. */
void isolate_pool_drop(struct isolate_pool *pool, struct str tenant);
/* Brings the number of ready workers back up, and ends dead ones. */
int isolate_pool_refill(struct isolate_pool *pool, struct err *err) MUST_USE;

size_t isolate_pool_ready(const struct isolate_pool *pool);
size_t isolate_pool_taken(const struct isolate_pool *pool);
