/* Spares: places that wait for the next sandbox.
 *
 * A spare is a jail of the pool's plan on a disk of its own, where the host has disks, and an
 * interpreter that has gone the ways of a first cell: Python's were forked into it from the
 * zygote, those of Node and Deno were started there. With disks there is also a shelf of spares
 * without an interpreter; without, such jails wait in the warden's pool. A spare has seen nothing
 * of any sandbox; the sandbox that takes it over gives it its memory, processor time, network and
 * environment. What wants anything else (other limits, a volume, layers) is made on demand. Each
 * serves once.
 *
 * They are made one at a time, a moment after the last one was taken: a fork takes as much of the
 * processor as the run that was just begun. */

#include "tiers/jail/spare.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "base/vec.h"
#include "config/config.h"
#include "engine/network.h"
#include "io/loop.h"
#include "jail/client/jail.h"
#include "jail/client/jail_fork.h"
#include "runtime/runtimes.h"
#include "tiers/jail/code/interpreter.h"
#include "tiers/jail/layers/disk.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"
#include "tiers/jail/warden.h"

enum {
    QUIET_MS = 4,
    QUIET_PLAIN_MS = 20, /* a disk takes longer to make than a first command runs */
    RETRY_MS = 1000,
    REST_READY = 1,  /* after a long time without a request */
    STARTED_MAX = 2, /* of those that share no memory with each other: ten times as large */
    FIRST = 8,       /* without an interpreter; once more were taken, the configuration's number */
    LOW_PART = 4,
    STARTED_FROM = 2, /* a server that starts one such interpreter does not pay for another */
};

/* Those of one runtime. */
struct shelf {
    const char *runtime;       /* NULL: without an interpreter */
    const char *env;           /* how variables begin that an interpreter looks at as it starts */
    bool is_offline;           /* it also looks at those that lead to the network */
    VEC(struct place *) ready; /* with an interpreter, or about to have one; the oldest first */
    int64_t taken_ms;          /* when one was wanted last */
    int started;               /* interpreters that a request waited for */
    size_t most, taken;        /* without an interpreter: that wait; taken since that was set */
};

static const struct shelf shelves[] = {{.runtime = NULL},
                                       {.runtime = "python3", .env = "PYTHON"},
                                       {.runtime = "node24", .env = "NODE"},
                                       {.runtime = "node22", .env = "NODE"},
                                       {.runtime = "deno", .env = "DENO", .is_offline = true}};

struct spares {
    struct provider *provider;
    struct timer *timer;
    struct shelf shelves[countof(shelves)];
    struct shelf *making; /* its next one is being made, or NULL */
    struct place *made;   /* which is this */
    bool is_over;         /* not needed any more */
};

static struct spares *spares_of(struct provider *provider);

static bool is_ready(const struct place *place)
{
    const struct context *context = place->contexts;
    if (place->runtime.len == 0)
        return !place->is_gone;
    return !place->is_gone && context != NULL && context->interpreter != NULL &&
           context->line == LINE_READY;
}

/* One that died or never came to life is of no use. */
static bool is_lost(const struct place *place)
{
    if (place->runtime.len == 0)
        return place->is_gone;
    return place->is_gone || place->contexts == NULL || place->contexts->interpreter == NULL ||
           place->contexts->line == LINE_GONE;
}

static void spare_drop(struct shelf *shelf, size_t index)
{
    struct place *place = shelf->ready.ptr[index];
    vec_remove(&shelf->ready, index);
    place_discard(place);
}

static bool is_forked(const struct shelf *shelf)
{
    return shelf->runtime != NULL && strcmp(shelf->runtime, "python3") == 0;
}

static size_t wanted(const struct spares *spares, const struct shelf *shelf)
{
    const struct config_jail *config = &spares->provider->host->config->jail;
    size_t most = (size_t)config->interpreters;
    bool is_resting =
        config->pool_idle_ms > 0 && clock_now_ms() - shelf->taken_ms > config->pool_idle_ms;
    if (shelf->runtime == NULL) {
        most = spares->provider->disks == NULL ? 0 : shelf->most;
        return is_resting ? MIN(most, (size_t)REST_READY) : most;
    }
    if (is_forked(shelf) ? !spares->provider->has_zygote : shelf->started < STARTED_FROM)
        return 0;
    most = is_forked(shelf) ? most : MIN(most, (size_t)STARTED_MAX);
    return is_resting ? MIN(most, (size_t)REST_READY) : most;
}

/* So few that more are made while sandboxes are asked for. */
static bool is_low(const struct shelf *shelf)
{
    return shelf->runtime == NULL && shelf->ready.len * LOW_PART < shelf->most;
}

/* --- Making --- */

static int start_interpreter(struct place *place, struct err *err)
{
    struct context *context =
        context_find(place, (struct str){0}, place->runtime, (struct str){0}, err);
    return context == NULL ? -1 : context_start(context, err);
}

static void give_up(struct spares *spares, const struct err *why)
{
    struct place *place = spares->made;
    log_debug("jail.spare", LOG_STR("error", why->msg));
    spares->making = NULL;
    spares->made = NULL;
    timer_set(spares->timer, RETRY_MS, 0);
    place_discard(place);
}

static void spare_on_made(struct warden_request *request, const struct warden_event *event,
                          const struct err *why)
{
    struct spares *spares = request->ctx;
    struct shelf *shelf = spares->making;
    struct place *place = spares->made;
    struct err err = {0};
    if (why != NULL) {
        give_up(spares, why);
        return;
    }
    if (place_take_jail(place, event->jail, &err) < 0 ||
        (shelf->runtime != NULL && start_interpreter(place, &err) < 0)) {
        give_up(spares, &err);
        return;
    }
    if (shelf->runtime == NULL)
        jail_rehearse(place->jail);
    spares->making = NULL;
    spares->made = NULL;
    *vec_push(&shelf->ready) = place;
    timer_set(spares->timer, is_low(shelf) ? 0 : QUIET_MS, 0);
}

static void ask_jail(struct spares *spares, const struct err *why)
{
    struct provider *provider = spares->provider;
    struct err err = {0};
    uint32_t number = 0;
    if (why != NULL)
        err = *why;
    else if (warden_ask_make(provider->warden, &spares->made->plan, &number, &err) == 0) {
        (void)tier_warden_asked(provider, number, spare_on_made, spares);
        return;
    }
    give_up(spares, &err);
}

static void on_disk(void *ctx, const struct err *why)
{
    struct spares *spares = ctx;
    if (!spares->is_over) {
        ask_jail(spares, why);
        return;
    }
    place_discard(spares->made);
    free(spares);
}

static void make_one(struct spares *spares, struct shelf *shelf)
{
    struct provider *provider = spares->provider;
    struct place *place = place_new(provider);
    char disk[ID_SIZE];
    place->is_spare = true;
    place->runtime = str_of(shelf->runtime == NULL ? "" : shelf->runtime);
    tier_pool_plan(provider, &place->plan);
    spares->making = shelf;
    spares->made = place;
    if (provider->disks == NULL) {
        ask_jail(spares, NULL);
        return;
    }
    id_new(disk);
    place_disk_set(place, str_of(disk));
    tier_disk_get(
        provider,
        &(struct disk_want){
            .id = place->disk, .is_new = true, .plan = &place->plan, .arena = &place->arena},
        on_disk, spares);
}

/* Time until the shelf has been idle long enough to be emptied; -1: never. */
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
            spare_drop(shelf, i);
    while (shelf->ready.len > most)
        spare_drop(shelf, 0);
    bool is_busy = shelf->ready.len > 0 && !is_ready(shelf->ready.ptr[shelf->ready.len - 1]);
    if (shelf->ready.len == most)
        return rest_in_ms(spares, shelf);
    if (is_low(shelf))
        return 0;
    int quiet_ms = shelf->runtime == NULL ? QUIET_PLAIN_MS : QUIET_MS;
    return is_busy || clock_now_ms() - shelf->taken_ms < quiet_ms ? QUIET_MS : 0;
}

static void spare_on_timer(void *ctx)
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
        provider->spares->timer = timer_new(provider->host->loop, spare_on_timer, provider->spares);
        memcpy(provider->spares->shelves, shelves, sizeof shelves);
        for (size_t i = 0; i < countof(shelves); i++)
            provider->spares->shelves[i].taken_ms = clock_now_ms();
        provider->spares->shelves[0].most =
            MIN((size_t)provider->host->config->jail.pool, (size_t)FIRST);
    }
    return provider->spares;
}

void tier_spares_tend(struct provider *provider)
{
    if ((provider->host->config->jail.interpreters > 0 && provider->has_zygote) ||
        provider->disks != NULL)
        timer_set(spares_of(provider)->timer, 0, 0);
}

static struct shelf *shelf_of(struct spares *spares, struct str runtime)
{
    for (size_t i = 0; i < countof(shelves); i++)
        if (spares->shelves[i].runtime != NULL &&
            str_eq(runtime, str_of(spares->shelves[i].runtime)))
            return &spares->shelves[i];
    return NULL;
}

void tier_spares_started(struct provider *provider, const struct runtime *runtime)
{
    if (provider->host->config->jail.interpreters == 0 || provider->warden == NULL)
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
    AUTO_ARENA struct arena arena = {0};
    struct jail_plan ready = {0}, plan = {0};
    /* One with nothing in it can be given another root. */
    bool needs_root = spec->image.len > 0;
    if ((needs_root && shelf->runtime != NULL) || spec->volume.len > 0 ||
        spec->snapshot_count > 0 || spec->shown.len > 0 ||
        (spec->disk.len > 0 && !spec->is_disk_new))
        return false;
    if (shelf->runtime == NULL
            ? spec->disk.len == 0 ||
                  runtime_root(info->runtime, provider->host->data_dir, &arena) != NULL
            : info->requirement_count > 0 || has_own_env(shelf, &info->env) ||
                  (shelf->is_offline && !network_is_offline(spec->network)))
        return false;
    tier_pool_plan(provider, &ready);
    tier_fill_plan(provider, &info->limits, &plan);
    plan.limits.memory_bytes = ready.limits.memory_bytes;
    plan.limits.cpu_milli = ready.limits.cpu_milli;
    return memcmp(&plan.limits, &ready.limits, sizeof plan.limits) == 0;
}

static struct place *spare_take(struct spares *spares, struct shelf *shelf)
{
    shelf->taken_ms = clock_now_ms();
    /* A server that makes a sandbox now and then needs few that wait. */
    if (shelf->runtime == NULL && ++shelf->taken > shelf->most)
        shelf->most = (size_t)spares->provider->host->config->jail.pool;
    for (size_t i = 0; i < shelf->ready.len; i++)
        if (is_ready(shelf->ready.ptr[i])) {
            struct place *place = shelf->ready.ptr[i];
            vec_remove(&shelf->ready, i);
            place->is_spare = false;
            place->plan = (struct jail_plan){0}; /* it is filled again for its new owner */
            return place;
        }
    return NULL;
}

struct place *tier_spare_take(struct provider *provider, const struct place_spec *spec)
{
    struct spares *spares = provider->spares;
    struct shelf *shelf = spares == NULL ? NULL : shelf_of(spares, spec->sandbox->runtime);
    struct place *place = NULL;
    if (spares == NULL)
        return NULL;
    /* Most that name no runtime run commands only. */
    if (shelf != NULL && spec->sandbox->is_runtime_given && fits(provider, shelf, spec))
        place = spare_take(spares, shelf);
    shelf = &spares->shelves[0];
    if (place == NULL && fits(provider, shelf, spec))
        place = spare_take(spares, shelf);
    timer_set(spares->timer, is_low(shelf) ? 0 : QUIET_MS, 0);
    return place;
}

static void on_limits(struct warden_request *request, UNUSED const struct warden_event *event,
                      const struct err *why)
{
    request->plain_done(request->ctx, why);
}

void tier_spare_limit(struct place *place, engine_done *done, void *ctx)
{
    const struct jail_limits *limits = &place->plan.limits;
    struct jail_plan ready = {0};
    struct err err = {0};
    uint32_t number = 0;
    tier_pool_plan(place->provider, &ready);
    if (limits->memory_bytes == ready.limits.memory_bytes &&
        limits->cpu_milli == ready.limits.cpu_milli)
        done(ctx, NULL);
    else if (jail_ask_limits(place->jail, limits, &number, &err) < 0)
        done(ctx, &err);
    else
        tier_warden_asked(place->provider, number, on_limits, ctx)->plain_done = done;
}

void tier_spares_end(struct provider *provider)
{
    struct spares *spares = provider->spares;
    if (spares == NULL)
        return;
    provider->spares = NULL;
    for (size_t i = 0; i < countof(shelves); i++) {
        struct shelf *shelf = &spares->shelves[i];
        while (shelf->ready.len > 0)
            spare_drop(shelf, shelf->ready.len - 1);
        vec_done(&shelf->ready);
    }
    (void)timer_free(spares->timer);
    spares->is_over = true;
    /* Requests to the warden have been answered with an error, so only a disk can be in
     * progress. */
    if (spares->made == NULL)
        free(spares);
}
