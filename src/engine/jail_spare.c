/* Spares: places with a Python kernel in each that wait for whoever asks next.
 *
 * A spare is a jail of the pool's plan and a kernel that was forked into it from the template and
 * has gone the ways of a first cell. It has seen nothing of anybody; who takes it over gives it its
 * memory, processor time, network and environment. Whoever wants anything else (other limits, a
 * volume, layers) has a kernel forked on demand. Each serves once.
 *
 * They are made one at a time, when nobody has taken one for a moment: a fork takes as much of the
 * processor as the run that was just begun. */

#include "base/clock.h"
#include "base/log.h"
#include "engine/config.h"
#include "engine/jail_kernel.h"
#include "jail/jail_fork.h"

enum {
    QUIET_MS = 4,
    RETRY_MS = 1000,
    REST_READY = 1, /* when nobody has asked for long */
};

struct spares {
    struct provider *provider;
    struct timer *timer;
    VEC(struct place *) ready; /* with a kernel, or about to have one; the oldest first */
    bool is_making;            /* the warden is asked for a jail */
    int64_t taken_ms;          /* when one was wanted last */
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

static void drop(struct spares *spares, size_t index)
{
    struct place *place = spares->ready.ptr[index];
    vec_remove(&spares->ready, index);
    place_discard(place);
}

static size_t wanted(const struct spares *spares)
{
    const struct config_jail *config = &spares->provider->host->config->jail;
    size_t most = (size_t)config->kernels;
    bool is_resting =
        config->pool_idle_ms > 0 && clock_now_ms() - spares->taken_ms > config->pool_idle_ms;
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
    struct err err = {0};
    spares->is_making = false;
    if (why != NULL) {
        log_debug("jail.spare", LOG_STR("error", why->msg));
        timer_set(spares->timer, RETRY_MS, 0);
        return;
    }
    struct place *place = place_new(spares->provider);
    place->is_spare = true;
    place->runtime = STR("python3");
    jail_pool_plan(spares->provider, &place->plan);
    if (place_take_jail(place, event->jail, &err) < 0 || start_kernel(place, &err) < 0) {
        log_warn("jail.spare", LOG_STR("error", err.msg));
        place_discard(place);
        timer_set(spares->timer, RETRY_MS, 0);
        return;
    }
    *vec_push(&spares->ready) = place;
    timer_set(spares->timer, QUIET_MS, 0);
}

static void make_one(struct spares *spares)
{
    struct provider *provider = spares->provider;
    struct jail_plan plan = {0};
    struct err err = {0};
    uint32_t number = 0;
    jail_pool_plan(provider, &plan);
    if (warden_ask_make(provider->warden, &plan, &number, &err) < 0)
        timer_set(spares->timer, RETRY_MS, 0);
    else
        spares->is_making = jail_warden_asked(provider, number, on_made, spares) != NULL;
}

/* The time until which no more is to be done: until they may rest, or for ever. */
static void wait_for_rest(struct spares *spares)
{
    int64_t idle_ms = spares->provider->host->config->jail.pool_idle_ms;
    int64_t left = spares->taken_ms + idle_ms - clock_now_ms();
    if (idle_ms > 0 && left >= 0)
        timer_set(spares->timer, left + 1, 0);
}

static void on_timer(void *ctx)
{
    struct spares *spares = ctx;
    struct provider *provider = spares->provider;
    size_t most = wanted(spares);
    if (!provider->has_template || provider->warden == NULL || spares->is_making)
        return;
    for (size_t i = spares->ready.len; i-- > 0;)
        if (is_lost(spares->ready.ptr[i]))
            drop(spares, i);
    while (spares->ready.len > most)
        drop(spares, 0);
    bool is_busy = spares->ready.len > 0 && !is_ready(spares->ready.ptr[spares->ready.len - 1]);
    if (spares->ready.len == most)
        wait_for_rest(spares);
    else if (is_busy || clock_now_ms() - spares->taken_ms < QUIET_MS)
        timer_set(spares->timer, QUIET_MS, 0);
    else
        make_one(spares);
}

static struct spares *spares_of(struct provider *provider)
{
    if (provider->spares == NULL) {
        provider->spares = mem_alloc(sizeof *provider->spares);
        provider->spares->provider = provider;
        provider->spares->timer = timer_new(provider->host->loop, on_timer, provider->spares);
        provider->spares->taken_ms = clock_now_ms();
    }
    return provider->spares;
}

void jail_spares_tend(struct provider *provider)
{
    if (provider->host->config->jail.kernels > 0 && provider->has_template)
        timer_set(spares_of(provider)->timer, 0, 0);
}

/* --- Handing over --- */

/* Variables that decide which packages an interpreter finds are judged by a fork of its own. */
static bool has_python_env(const struct engine_pairs *env)
{
    for (size_t i = 0; i < env->len; i++)
        if (str_starts(env->items[i].name, STR("PYTHON")) ||
            str_eq(env->items[i].name, STR("HOME")))
            return true;
    return false;
}

static bool fits(const struct provider *provider, const struct place_spec *spec)
{
    const struct sandbox_info *info = spec->sandbox;
    struct jail_plan ready = {0}, plan = {0};
    if (!str_eq(info->runtime, STR("python3")) || spec->image.len > 0 || spec->volume.len > 0 ||
        spec->snapshot_count > 0 || has_python_env(&info->env))
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
    if (spares == NULL || !fits(provider, spec))
        return NULL;
    spares->taken_ms = clock_now_ms();
    timer_set(spares->timer, QUIET_MS, 0);
    for (size_t i = 0; i < spares->ready.len; i++)
        if (is_ready(spares->ready.ptr[i])) {
            struct place *place = spares->ready.ptr[i];
            vec_remove(&spares->ready, i);
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
    while (spares->ready.len > 0)
        drop(spares, spares->ready.len - 1);
    assert(!spares->is_making); /* whoever asked the warden has heard its end */
    (void)timer_free(spares->timer);
    vec_done(&spares->ready);
    free(spares);
}
