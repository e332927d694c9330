#include "isolate/pool.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"

struct taken {
    struct worker *worker;
    uint64_t used_at; /* by the pool's own count of uses */
};

struct isolate_pool {
    struct isolate_pool_options options;
    VEC(struct worker *) ready;
    struct map taken; /* tenant to struct taken */
    uint64_t uses;
};

static void taken_free(struct taken *taken)
{
    if (taken == NULL)
        return;
    (void)worker_free(taken->worker);
    free(taken);
}

int isolate_pool_new(const struct isolate_pool_options *options, struct isolate_pool **ret_pool,
                     struct err *err)
{
    if (options->workers_max == 0 || options->warm > options->workers_max)
        return err_set(err, ERR_INVALID, "a pool of %zu workers cannot keep %zu ready",
                       options->workers_max, options->warm);
    AUTO_POOL struct isolate_pool *pool = mem_alloc(sizeof *pool);
    pool->options = *options;
    if (isolate_pool_refill(pool, err) < 0)
        return -1;
    *ret_pool = pool;
    pool = NULL;
    return 0;
}

struct isolate_pool *isolate_pool_free(struct isolate_pool *pool)
{
    if (pool == NULL)
        return NULL;
    VEC_EACH (worker, &pool->ready)
        (void)worker_free(*worker);
    vec_done(&pool->ready);
    MAP_EACH (entry, &pool->taken)
        taken_free(entry->value);
    map_done(&pool->taken);
    free(pool);
    return NULL;
}

void isolate_pool_drop(struct isolate_pool *pool, struct str tenant)
{
    taken_free(map_remove(&pool->taken, tenant));
}

/* The tenant that has not run for the longest gives its worker up. */
static void drop_oldest(struct isolate_pool *pool)
{
    const struct map_entry *oldest = NULL;
    MAP_EACH (entry, &pool->taken) {
        const struct taken *taken = entry->value;
        if (oldest == NULL || taken->used_at < ((const struct taken *)oldest->value)->used_at)
            oldest = entry;
    }
    if (oldest != NULL)
        isolate_pool_drop(pool, oldest->key);
}

static bool is_worn(const struct isolate_pool *pool, const struct worker *worker)
{
    return worker_is_dead(worker) ||
           (pool->options.runs_max > 0 && worker_runs(worker) >= pool->options.runs_max);
}

static int take_ready(struct isolate_pool *pool, struct worker **ret_worker, struct err *err)
{
    if (pool->ready.len > 0) {
        *ret_worker = vec_pop(&pool->ready);
        return 0;
    }
    if (pool->taken.len >= pool->options.workers_max)
        drop_oldest(pool);
    return worker_start(&pool->options.worker, ret_worker, err);
}

int isolate_pool_worker(struct isolate_pool *pool, struct str tenant, struct worker **ret_worker,
                        struct err *err)
{
    struct taken *taken = map_get(&pool->taken, tenant);
    if (taken != NULL && is_worn(pool, taken->worker)) {
        isolate_pool_drop(pool, tenant);
        taken = NULL;
    }
    if (taken == NULL) {
        struct worker *worker = NULL;
        if (take_ready(pool, &worker, err) < 0)
            return -1;
        taken = mem_alloc(sizeof *taken);
        taken->worker = worker;
        void *before = map_put(&pool->taken, tenant, taken);
        assert(before == NULL);
    }
    taken->used_at = ++pool->uses;
    *ret_worker = taken->worker;
    return 0;
}

static void drop_dead(struct isolate_pool *pool)
{
    MAP_EACH (entry, &pool->taken) {
        struct taken *taken = entry->value;
        if (worker_is_dead(taken->worker))
            taken_free(map_remove(&pool->taken, entry->key));
    }
}

int isolate_pool_refill(struct isolate_pool *pool, struct err *err)
{
    drop_dead(pool);
    while (pool->ready.len < pool->options.warm) {
        if (pool->ready.len + pool->taken.len >= pool->options.workers_max)
            return 0; /* room comes when a tenant's worker ends */
        struct worker *worker = NULL;
        if (worker_start(&pool->options.worker, &worker, err) < 0)
            return err_wrap(err, "refill the pool of workers");
        *vec_push(&pool->ready) = worker;
    }
    return 0;
}

size_t isolate_pool_ready(const struct isolate_pool *pool)
{
    return pool->ready.len;
}

size_t isolate_pool_taken(const struct isolate_pool *pool)
{
    return pool->taken.len;
}
