#pragma once

/* Workers by tenant: one tenant's isolates may share a worker, two tenants' never do.
 *
 * Workers wait ready, belonging to nobody; a nursery makes them. A tenant that needs one takes one;
 * it stays that tenant's, idle or in use, until it is dead, worn, old or in the way, and is then
 * ended, never handed on. New ones are made behind the answer: taking one and giving it back does
 * no more than that, and isolate_pool_step does the rest when the loop has time for it.
 *
 * Nothing here blocks but isolate_pool_new (a fork) and taking with `wait_ms`. One thread. */

#include "isolate/worker.h"

struct isolate_pool;

struct isolate_pool_options {
    const char *const *bridges; /* names for `api` in every worker; NULL for none */
    const char *program;        /* see struct nursery_options */
    size_t warm;                /* ready workers that belong to nobody */
    size_t workers_max;         /* in all */
    size_t tenant_max;          /* of one tenant; 0 for workers_max */
    uint64_t runs_max;          /* of one worker, then it is replaced; 0 for no end */
    int64_t age_max_ms;         /* since it was taken, then it is replaced; 0 for no end */
};

/* Asks for the first warm workers, and does not wait for them. */
int isolate_pool_new(const struct isolate_pool_options *options, struct isolate_pool **ret_pool,
                     struct err *err) MUST_USE;
struct isolate_pool *isolate_pool_free(struct isolate_pool *pool);
DEFINE_FREEP(isolate_pool)
#define AUTO_POOL AUTO(isolate_pool_freep)

/* An idle worker of the tenant, or a ready one that is the tenant's from now on; the caller's until
 * isolate_pool_give. When beginning something in it fails with GONE, it died in its sleep: give it
 * back and take another. BUSY when none is ready at this moment: one has been asked for; take again
 * after an isolate_pool_step. `wait_ms` waits for that here; 0 for a loop. LIMIT when the tenant
 * has its number of workers, all in use, or nobody's worker can be ended to make room. */
int isolate_pool_take(struct isolate_pool *pool, struct str tenant, int64_t wait_ms,
                      struct worker **ret_worker, struct err *err) MUST_USE;
/* Back to the tenant's others, whatever became of it. */
void isolate_pool_give(struct isolate_pool *pool, struct worker *worker);

/* Isolates that stay: a worker with such is ended only when it is dead. It is found again by the
 * number that isolate_pool_keep gives: GONE when it is not there any more, BUSY while in use. Each
 * keep is undone by a release, both while the worker is taken. */
uint64_t isolate_pool_keep(struct isolate_pool *pool, struct worker *worker);
void isolate_pool_release(struct isolate_pool *pool, struct worker *worker);
int isolate_pool_take_kept(struct isolate_pool *pool, uint64_t number, struct worker **ret_worker,
                           struct err *err) MUST_USE;

/* Ends the workers of a tenant that are not in use, kept ones too. */
void isolate_pool_drop(struct isolate_pool *pool, struct str tenant);

/* Takes in workers that were made, ends worn ones, asks for more. To be called when the descriptor
 * is readable and at the due time (monotonic; -1 for none). A nursery that has gone is started
 * again, when it is a program. An error is for the log: the pool goes on. */
int isolate_pool_step(struct isolate_pool *pool, struct err *err) MUST_USE;
int isolate_pool_fd(const struct isolate_pool *pool);
int64_t isolate_pool_due_ms(const struct isolate_pool *pool);

size_t isolate_pool_ready(const struct isolate_pool *pool);
size_t isolate_pool_taken(const struct isolate_pool *pool); /* belonging to a tenant */
size_t isolate_pool_in_use(const struct isolate_pool *pool);
