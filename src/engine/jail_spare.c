/* Spares: places with a kernel in each that wait for whoever asks next.
 *
 * A spare is a jail of the pool's plan and a kernel that has gone the ways of a first cell:
 * Python's were forked into it from the template, those of Node and Deno were started there. It has
 * seen nothing of anybody; who takes it over gives it its memory, processor time, network and
 * environment. Whoever wants anything else (other limits, a volume, layers) has a kernel made on
 * demand. Each serves once.
 *
 * They are made one at a time, when nobody has taken one for a moment: a fork takes as much of the
 * processor as the run that was just begun. */

#include "base/clock.h"
#include "base/log.h"
#include "engine/config.h"
#include "engine/jail_kernel.h"
#include "engine/network.h"
#include "jail/jail_fork.h"

enum {
    QUIET_MS = 4,
    RETRY_MS = 1000,
    REST_READY = 1,   /* when nobody has asked for long */
    STARTED_MAX = 2,  /* of those that share no memory with each other: ten times as large */
    STARTED_FROM = 2, /* a server that starts one such kernel does not pay for another */
};

/* Those of one runtime. */
struct shelf {
    const char *runtime;
    const char *env;           /* how variables begin that an interpreter looks at as it starts */
    bool is_offline;           /* it also looks at those that lead to the network */
    VEC(struct place *) ready; /* with a kernel, or about to have one; the oldest first */
    int64_t taken_ms;          /* when one was wanted last */
    int started;               /* kernels that somebody waited for */
};

static const struct shelf shelves[] = {{.runtime = "python3", .env = "PYTHON"},
                                       {.runtime = "node24", .env = "NODE"},
                                       {.runtime = "node22", .env = "NODE"},
                                       {.runtime = "deno", .env = "DENO", .is_offline = true}};

struct spares {
    struct provider *provider;
    struct timer *timer;
    struct shelf shelves[countof(shelves)];
    struct shelf *making; /* the warden is asked for a jail for it, or NULL */
};

static struct spares *spares_of(struct provider *provider);

static bool is_ready(const struct place *place)
{
    const struct context *context = place->contexts;
    return !place->is_gone && context != NULL && context->kernel != NULL && context->is_ready &&
           !context->is_line_gone;
}

/* One that died or never came to life is of no use. */
static bool is_lost(const struct place *place)
{
    return place->is_gone || place->contexts == NULL || place->contexts->kernel == NULL ||
           place->contexts->is_line_gone;
}

static void drop(struct shelf *shelf, size_t index)
{
    struct place *place = shelf->ready.ptr[index];
    vec_remove(&shelf->ready, index);
    place_discard(place);
}

static bool is_forked(const struct shelf *shelf)
{
    return strcmp(shelf->runtime, "python3") == 0;
}

static size_t wanted(const struct spares *spares, const struct shelf *shelf)
{
    const struct config_jail *config = &spares->provider->host->config->jail;
    size_t most = (size_t)config->kernels;
    bool is_resting =
        config->pool_idle_ms > 0 && clock_now_ms() - shelf->taken_ms > config->pool_idle_ms;
    if (is_forked(shelf) ? !spares->provider->has_template : shelf->started < STARTED_FROM)
        return 0;
    most = is_forked(shelf) ? most : MIN(most, (size_t)STARTED_MAX);
    return is_resting ? MIN(most, (size_t)REST_READY) : most;
}

/* --- Making --- */

static int start_kernel(struct place *place, struct err *err)
{
    struct context *context =
        context_find(place, (struct str){0}, place->runtime, (struct str){0}, err);
    if (context == NULL)
        return -1;
    context->is_ahead = true;
    int done = context_start(context, err);
    context->is_ahead = false;
    return done;
}

static void on_made(struct request *request, const struct warden_event *event,
                    const struct err *why)
{
    struct spares *spares = request->ctx;
    struct shelf *shelf = spares->making;
    struct err err = {0};
    spares->making = NULL;
    if (why != NULL) {
        log_debug("jail.spare", LOG_STR("error", why->msg));
        timer_set(spares->timer, RETRY_MS, 0);
        return;
    }
    struct place *place = place_new(spares->provider);
    place->is_spare = true;
    place->runtime = str_of(shelf->runtime);
    jail_pool_plan(spares->provider, &place->plan);
    if (place_take_jail(place, event->jail, &err) < 0 || start_kernel(place, &err) < 0) {
        log_warn("jail.spare", LOG_STR("error", err.msg));
        place_discard(place);
        timer_set(spares->timer, RETRY_MS, 0);
        return;
    }
    *vec_push(&shelf->ready) = place;
    timer_set(spares->timer, QUIET_MS, 0);
}

static void make_one(struct spares *spares, struct shelf *shelf)
{
    struct provider *provider = spares->provider;
    struct jail_plan plan = {0};
    struct err err = {0};
    uint32_t number = 0;
    jail_pool_plan(provider, &plan);
    if (warden_ask_make(provider->warden, &plan, &number, &err) < 0)
        timer_set(spares->timer, RETRY_MS, 0);
    else {
        spares->making = shelf;
        (void)jail_warden_asked(provider, number, on_made, spares);
    }
}

/* The time until which no more is to be done: until they may rest, or -1 for ever. */
static int64_t rest_in_ms(const struct spares *spares, const struct shelf *shelf)
{
    int64_t idle_ms = spares->provider->host->config->jail.pool_idle_ms;
    int64_t left = shelf->taken_ms + idle_ms - clock_now_ms();
    return idle_ms > 0 && left >= 0 && shelf->ready.len > 0 ? left + 1 : -1;
}

/* Gives the time until it is to be looked at again: 0 for now, -1 for never. */
static int64_t tend(struct spares *spares, struct shelf *shelf)
{
    size_t most = wanted(spares, shelf);
    for (size_t i = shelf->ready.len; i-- > 0;)
        if (is_lost(shelf->ready.ptr[i]))
            drop(shelf, i);
    while (shelf->ready.len > most)
        drop(shelf, 0);
    bool is_busy = shelf->ready.len > 0 && !is_ready(shelf->ready.ptr[shelf->ready.len - 1]);
    if (shelf->ready.len == most)
        return rest_in_ms(spares, shelf);
    return is_busy || clock_now_ms() - shelf->taken_ms < QUIET_MS ? QUIET_MS : 0;
}

static void on_timer(void *ctx)
{
    struct spares *spares = ctx;
    int64_t next_ms = -1;
    if (spares->provider->warden == NULL || spares->making != NULL)
        return;
    for (size_t i = 0; i < countof(shelves) && spares->making == NULL; i++) {
        int64_t due_ms = tend(spares, &spares->shelves[i]);
        if (due_ms == 0)
            make_one(spares, &spares->shelves[i]);
        else if (due_ms > 0 && (next_ms < 0 || due_ms < next_ms))
            next_ms = due_ms;
    }
    if (spares->making == NULL && next_ms > 0)
        timer_set(spares->timer, next_ms, 0);
}

static struct spares *spares_of(struct provider *provider)
{
    if (provider->spares == NULL) {
        provider->spares = mem_alloc(sizeof *provider->spares);
        provider->spares->provider = provider;
        provider->spares->timer = timer_new(provider->host->loop, on_timer, provider->spares);
        memcpy(provider->spares->shelves, shelves, sizeof shelves);
        for (size_t i = 0; i < countof(shelves); i++)
            provider->spares->shelves[i].taken_ms = clock_now_ms();
    }
    return provider->spares;
}

void jail_spares_tend(struct provider *provider)
{
    if (provider->host->config->jail.kernels > 0 && provider->has_template)
        timer_set(spares_of(provider)->timer, 0, 0);
}

static struct shelf *shelf_of(struct spares *spares, struct str runtime)
{
    for (size_t i = 0; i < countof(shelves); i++)
        if (str_eq(runtime, str_of(spares->shelves[i].runtime)))
            return &spares->shelves[i];
    return NULL;
}

void jail_spares_started(struct provider *provider, const struct runtime *runtime)
{
    if (provider->host->config->jail.kernels == 0 || provider->warden == NULL)
        return;
    struct spares *spares = spares_of(provider);
    struct shelf *shelf = shelf_of(spares, str_of(runtime->name));
    if (shelf == NULL || is_forked(shelf))
        return;
    shelf->taken_ms = clock_now_ms();
    if (++shelf->started >= STARTED_FROM)
        timer_set(spares->timer, QUIET_MS, 0);
}

/* --- Handing over --- */

/* Variables that decide which packages an interpreter finds are judged by one of its own. */
static bool has_own_env(const struct shelf *shelf, const struct engine_pairs *env)
{
    for (size_t i = 0; i < env->len; i++)
        if (str_starts(env->items[i].name, str_of(shelf->env)) ||
            str_eq(env->items[i].name, STR("HOME")))
            return true;
    return false;
}

static bool fits(const struct provider *provider, const struct shelf *shelf,
                 const struct place_spec *spec)
{
    const struct sandbox_info *info = spec->sandbox;
    struct jail_plan ready = {0}, plan = {0};
    if (spec->image.len > 0 || spec->volume.len > 0 || spec->snapshot_count > 0 ||
        info->requirement_count > 0 || has_own_env(shelf, &info->env) ||
        (shelf->is_offline && !network_is_offline(spec->network)))
        return false;
    jail_pool_plan(provider, &ready);
    jail_fill_plan(provider, &info->limits, &plan);
    plan.limits.memory_bytes = ready.limits.memory_bytes;
    plan.limits.cpu_milli = ready.limits.cpu_milli;
    return memcmp(&plan.limits, &ready.limits, sizeof plan.limits) == 0;
}

struct place *jail_spare_take(struct provider *provider, const struct place_spec *spec)
{
    struct spares *spares = provider->spares;
    struct shelf *shelf = spares == NULL ? NULL : shelf_of(spares, spec->sandbox->runtime);
    if (shelf == NULL || !fits(provider, shelf, spec))
        return NULL;
    shelf->taken_ms = clock_now_ms();
    timer_set(spares->timer, QUIET_MS, 0);
    for (size_t i = 0; i < shelf->ready.len; i++)
        if (is_ready(shelf->ready.ptr[i])) {
            struct place *place = shelf->ready.ptr[i];
            vec_remove(&shelf->ready, i);
            place->is_spare = false;
            place->plan = (struct jail_plan){0}; /* it is filled anew, for whom it is */
            return place;
        }
    return NULL;
}

static void on_limits(struct request *request, UNUSED const struct warden_event *event,
                      const struct err *why)
{
    request->plain_done(request->ctx, why);
}

void jail_spare_limit(struct place *place, engine_done *done, void *ctx)
{
    const struct jail_limits *limits = &place->plan.limits;
    struct jail_plan ready = {0};
    struct err err = {0};
    uint32_t number = 0;
    jail_pool_plan(place->provider, &ready);
    if (limits->memory_bytes == ready.limits.memory_bytes &&
        limits->cpu_milli == ready.limits.cpu_milli)
        done(ctx, NULL);
    else if (jail_ask_limits(place->jail, limits, &number, &err) < 0)
        done(ctx, &err);
    else
        jail_warden_asked(place->provider, number, on_limits, ctx)->plain_done = done;
}

void jail_spares_end(struct provider *provider)
{
    struct spares *spares = provider->spares;
    if (spares == NULL)
        return;
    provider->spares = NULL;
    for (size_t i = 0; i < countof(shelves); i++) {
        struct shelf *shelf = &spares->shelves[i];
        while (shelf->ready.len > 0)
            drop(shelf, shelf->ready.len - 1);
        vec_done(&shelf->ready);
    }
    assert(spares->making == NULL); /* whoever asked the warden has heard its end */
    (void)timer_free(spares->timer);
    free(spares);
}
