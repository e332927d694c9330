#include "isolate/pool.h"

#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/vec.h"
#include "isolate/nursery.h"

enum {
    QUIET_MS = 2,      /* after a request, before the nursery may take a CPU */
    ASKED_MAX = 2,     /* on their way at a time */
    RESTART_MS = 1000, /* between two starts of the nursery */
};

/* A worker's way: ready (no tenant), taken by a tenant and in use, idle, ended. */
struct place {
    struct worker *worker;
    char *tenant;    /* NULL: ready */
    uint64_t number; /* given by keep; 0 for none */
    uint64_t used_at;
    int64_t taken_ms;
    size_t kept; /* isolates that stay in it */
    bool in_use;
};

struct isolate_pool {
    struct isolate_pool_options options;
    struct nursery *nursery;
    VEC(struct place) places;
    size_t asked;  /* workers on their way */
    uint64_t uses; /* counts takings: the pool's own clock */
    uint64_t last_number;
    int64_t quiet_until_ms;
    int64_t restart_ms; /* not before */
};

/* --- Life --- */

static int start_nursery(struct isolate_pool *pool, struct err *err)
{
    const struct nursery_options options = {.bridges = pool->options.bridges,
                                            .program = pool->options.program};
    pool->asked = 0;
    pool->restart_ms = clock_now_ms() + RESTART_MS;
    return nursery_start(&options, &pool->nursery, err);
}

static void place_done(struct place *place)
{
    (void)worker_free(place->worker);
    free(place->tenant);
}

static void remove_place(struct isolate_pool *pool, struct place *place)
{
    place_done(place);
    vec_remove(&pool->places, (size_t)(place - pool->places.ptr));
}

struct isolate_pool *isolate_pool_free(struct isolate_pool *pool)
{
    if (pool == NULL)
        return NULL;
    VEC_EACH (place, &pool->places)
        place_done(place);
    vec_done(&pool->places);
    (void)nursery_free(pool->nursery);
    free(pool);
    return NULL;
}

int isolate_pool_new(const struct isolate_pool_options *options, struct isolate_pool **ret_pool,
                     struct err *err)
{
    if (options->workers_max == 0 || options->warm > options->workers_max)
        return err_set(err, ERR_INVALID, "a pool of %zu workers cannot keep %zu ready",
                       options->workers_max, options->warm);
    AUTO_POOL struct isolate_pool *pool = mem_alloc(sizeof *pool);
    pool->options = *options;
    if (options->tenant_max == 0)
        pool->options.tenant_max = options->workers_max;
    if (start_nursery(pool, err) < 0 || isolate_pool_step(pool, err) < 0)
        return -1;
    *ret_pool = pool;
    pool = NULL;
    return 0;
}

/* --- Which ones --- */

static bool is_of(const struct place *place, struct str tenant)
{
    return place->tenant != NULL && str_eq(str_of(place->tenant), tenant);
}

/* To be ended as soon as it is not in use. Isolates that stay keep a worker that works. */
static bool is_worn(const struct isolate_pool *pool, const struct place *place)
{
    const struct isolate_pool_options *options = &pool->options;
    if (worker_is_dead(place->worker))
        return true;
    if (place->kept > 0 || place->tenant == NULL)
        return false;
    return (options->runs_max > 0 && worker_runs(place->worker) >= options->runs_max) ||
           (options->age_max_ms > 0 && clock_now_ms() - place->taken_ms >= options->age_max_ms);
}

static struct place *find(const struct isolate_pool *pool, const struct worker *worker)
{
    VEC_EACH (place, &pool->places)
        if (place->worker == worker)
            return place;
    return NULL;
}

static struct place *find_ready(const struct isolate_pool *pool)
{
    VEC_EACH (place, &pool->places)
        if (place->tenant == NULL)
            return place;
    return NULL;
}

/* The one used last: its memory is warm. */
static struct place *find_idle(const struct isolate_pool *pool, struct str tenant)
{
    struct place *best = NULL;
    VEC_EACH (place, &pool->places)
        if (!place->in_use && is_of(place, tenant) && !is_worn(pool, place) &&
            (best == NULL || place->used_at > best->used_at))
            best = place;
    return best;
}

static size_t count_of(const struct isolate_pool *pool, struct str tenant)
{
    size_t count = 0;
    VEC_EACH (place, &pool->places)
        count += is_of(place, tenant) && (place->in_use || !is_worn(pool, place));
    return count;
}

/* Idle for the longest, and nothing stays in it. */
static struct place *find_spare(const struct isolate_pool *pool)
{
    struct place *oldest = NULL;
    VEC_EACH (place, &pool->places)
        if (place->tenant != NULL && !place->in_use && place->kept == 0 &&
            (oldest == NULL || place->used_at < oldest->used_at))
            oldest = place;
    return oldest;
}

/* --- Taking and giving --- */

static void hand_out(struct isolate_pool *pool, struct place *place, struct worker **ret_worker)
{
    place->in_use = true;
    place->used_at = ++pool->uses;
    pool->quiet_until_ms = clock_now_ms() + QUIET_MS;
    *ret_worker = place->worker;
}

/* Its workers end with it. */
static int lose_nursery(struct isolate_pool *pool, struct err *err)
{
    pool->nursery = nursery_free(pool->nursery);
    pool->asked = 0;
    if (pool->options.program == NULL)
        return err_set(err, ERR_UNAVAILABLE, "the nursery has gone");
    return err_set(err, ERR_BUSY, "the nursery has gone: it is started again");
}

/* Asks for one, after making room for it. */
static int ask(struct isolate_pool *pool, struct err *err)
{
    if (pool->nursery == NULL)
        return lose_nursery(pool, err);
    if (pool->places.len + pool->asked >= pool->options.workers_max) {
        struct place *spare = find_spare(pool);
        if (spare == NULL)
            return err_set(err, ERR_LIMIT, "all %zu workers for isolates are in use",
                           pool->options.workers_max);
        remove_place(pool, spare);
    }
    if (nursery_ask(pool->nursery, err) < 0)
        return err->code == ERR_UNAVAILABLE ? lose_nursery(pool, err) : -1;
    pool->asked++;
    return 0;
}

/* A worker is needed and none is there. */
static int want(struct isolate_pool *pool, struct err *err)
{
    if (pool->asked < ASKED_MAX && ask(pool, err) < 0 && pool->asked == 0)
        return -1;
    return err_set(err, ERR_BUSY, "no worker for isolates is ready yet");
}

static void belong_to(struct place *place, struct str tenant)
{
    place->tenant = mem_alloc(tenant.len + 1);
    if (tenant.len > 0)
        memcpy(place->tenant, tenant.ptr, tenant.len);
    place->taken_ms = clock_now_ms();
}

/* Workers that died in their sleep show when they are looked at. */
static void forget_dead(struct isolate_pool *pool, struct str tenant)
{
    for (size_t i = pool->places.len; i > 0; i--) {
        struct place *place = &pool->places.ptr[i - 1];
        if (!place->in_use && (place->tenant == NULL || is_of(place, tenant)) &&
            worker_has_gone(place->worker))
            remove_place(pool, place);
    }
}

static int try_take(struct isolate_pool *pool, struct str tenant, struct worker **ret_worker,
                    struct err *err)
{
    struct place *place = find_idle(pool, tenant);
    if (place == NULL)
        place = find_ready(pool);
    if (place != NULL && worker_has_gone(place->worker))
        forget_dead(pool, tenant);
    place = find_idle(pool, tenant);
    if (place != NULL) {
        hand_out(pool, place, ret_worker);
        return 0;
    }
    if (count_of(pool, tenant) >= pool->options.tenant_max)
        return err_set(err, ERR_LIMIT, "all %zu workers of this tenant are in use",
                       pool->options.tenant_max);
    place = find_ready(pool);
    if (place == NULL)
        return want(pool, err);
    belong_to(place, tenant);
    hand_out(pool, place, ret_worker);
    return 0;
}

int isolate_pool_take(struct isolate_pool *pool, struct str tenant, int64_t wait_ms,
                      struct worker **ret_worker, struct err *err)
{
    int64_t until = clock_now_ms() + wait_ms;
    for (;;) {
        if (try_take(pool, tenant, ret_worker, err) == 0)
            return 0;
        int64_t left = until - clock_now_ms();
        if (err->code != ERR_BUSY || left <= 0)
            return -1;
        int64_t due = isolate_pool_due_ms(pool) - clock_now_ms();
        struct pollfd poller = {.fd = isolate_pool_fd(pool), .events = POLLIN};
        if (isolate_pool_due_ms(pool) >= 0)
            left = MIN(left, MAX(due, (int64_t)1));
        (void)poll(&poller, 1, (int)MIN(left, (int64_t)INT32_MAX));
        if (isolate_pool_step(pool, err) < 0 && pool->options.program == NULL)
            return -1;
    }
}

void isolate_pool_give(struct isolate_pool *pool, struct worker *worker)
{
    struct place *place = find(pool, worker);
    assert(place != NULL && place->in_use);
    place->in_use = false;
    pool->quiet_until_ms = clock_now_ms() + QUIET_MS;
}

uint64_t isolate_pool_keep(struct isolate_pool *pool, struct worker *worker)
{
    struct place *place = find(pool, worker);
    assert(place != NULL && place->in_use);
    if (place->number == 0)
        place->number = ++pool->last_number;
    place->kept++;
    return place->number;
}

void isolate_pool_release(struct isolate_pool *pool, struct worker *worker)
{
    struct place *place = find(pool, worker);
    assert(place != NULL && place->in_use && place->kept > 0);
    place->kept--;
}

int isolate_pool_take_kept(struct isolate_pool *pool, uint64_t number, struct worker **ret_worker,
                           struct err *err)
{
    VEC_EACH (place, &pool->places) {
        if (place->number != number || number == 0 || worker_is_dead(place->worker))
            continue;
        if (place->in_use)
            return err_set(err, ERR_BUSY, "the isolate's worker is doing something else");
        hand_out(pool, place, ret_worker);
        return 0;
    }
    return err_set(err, ERR_GONE, "the isolate's worker has ended");
}

void isolate_pool_drop(struct isolate_pool *pool, struct str tenant)
{
    for (size_t i = pool->places.len; i > 0; i--) {
        struct place *place = &pool->places.ptr[i - 1];
        if (is_of(place, tenant) && !place->in_use)
            remove_place(pool, place);
    }
}

/* --- Behind the answer --- */

static void end_worn(struct isolate_pool *pool)
{
    for (size_t i = pool->places.len; i > 0; i--) {
        struct place *place = &pool->places.ptr[i - 1];
        if (!place->in_use && is_worn(pool, place))
            remove_place(pool, place);
    }
}

static int take_in(struct isolate_pool *pool, struct err *err)
{
    for (;;) {
        struct worker *worker = NULL;
        int got = pool->nursery == NULL ? 0 : nursery_next(pool->nursery, &worker, err);
        if (got == 0)
            return 0;
        if (got < 0 && err->code == ERR_UNAVAILABLE)
            return lose_nursery(pool, err);
        pool->asked -= MIN(pool->asked, (size_t)1);
        if (got < 0)
            return -1;
        worker_follow(worker);
        *vec_push(&pool->places) = (struct place){.worker = worker};
    }
}

/* How many more should be on their way now. */
static size_t missing(const struct isolate_pool *pool)
{
    size_t have = isolate_pool_ready(pool) + pool->asked;
    size_t room =
        pool->options.workers_max - MIN(pool->places.len + pool->asked, pool->options.workers_max);
    return have >= pool->options.warm ? 0 : MIN(pool->options.warm - have, room);
}

int isolate_pool_step(struct isolate_pool *pool, struct err *err)
{
    int64_t now = clock_now_ms();
    end_worn(pool);
    if (take_in(pool, err) < 0)
        return -1;
    if (pool->nursery == NULL && pool->options.program != NULL && now >= pool->restart_ms &&
        start_nursery(pool, err) < 0)
        return -1;
    if (now < pool->quiet_until_ms || pool->nursery == NULL)
        return 0;
    for (size_t left = missing(pool); left > 0 && pool->asked < ASKED_MAX; left--)
        if (ask(pool, err) < 0)
            return -1;
    return 0;
}

int isolate_pool_fd(const struct isolate_pool *pool)
{
    return pool->nursery == NULL ? -1 : nursery_fd(pool->nursery);
}

int64_t isolate_pool_due_ms(const struct isolate_pool *pool)
{
    if (pool->nursery == NULL)
        return pool->options.program == NULL ? -1 : pool->restart_ms;
    VEC_EACH (place, &pool->places)
        if (!place->in_use && is_worn(pool, place))
            return pool->quiet_until_ms;
    return missing(pool) > 0 && pool->asked < ASKED_MAX ? pool->quiet_until_ms : -1;
}

size_t isolate_pool_ready(const struct isolate_pool *pool)
{
    size_t count = 0;
    VEC_EACH (place, &pool->places)
        count += place->tenant == NULL;
    return count;
}

size_t isolate_pool_taken(const struct isolate_pool *pool)
{
    return pool->places.len - isolate_pool_ready(pool);
}

size_t isolate_pool_in_use(const struct isolate_pool *pool)
{
    size_t count = 0;
    VEC_EACH (place, &pool->places)
        count += place->in_use;
    return count;
}
