/* The warden of the tier jail: what is asked of it, and the next one when it dies. */

#include "tiers/jail/warden.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "config/config.h"
#include "io/loop.h"
#include "jail/client/jail_fork.h"
#include "runtime/packages.h"
#include "runtime/runtimes.h"
#include "tiers/jail/code/live.h"
#include "tiers/jail/layers/disk.h"
#include "tiers/jail/net/network.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"
#include "tiers/jail/spare.h"

static void watch_warden(struct provider *provider)
{
    if (provider->watch != NULL)
        watch_set(provider->watch,
                  WATCH_READ | (warden_wants_write(provider->warden) ? WATCH_WRITE : 0));
}

struct warden_request *tier_warden_asked(struct provider *provider, uint32_t number,
                                         warden_request_event *on_event, void *ctx)
{
    struct warden_request *request = mem_alloc(sizeof *request);
    *request = (struct warden_request){
        .next = provider->requests, .number = number, .on_event = on_event, .ctx = ctx};
    provider->requests = request;
    watch_warden(provider);
    return request;
}

static struct warden_request *request_take(struct provider *provider, uint32_t number)
{
    for (struct warden_request **at = &provider->requests; *at != NULL; at = &(*at)->next)
        if ((*at)->number == number) {
            struct warden_request *request = *at;
            *at = request->next;
            return request;
        }
    return NULL;
}

static void drop_requests(struct provider *provider, const struct err *why)
{
    while (provider->requests != NULL) {
        struct warden_request *request = provider->requests;
        provider->requests = request->next;
        request->on_event(request, NULL, why);
        free(request);
    }
}

/* All waiting requests get the error, a new warden is started, and the engine is notified. */
static void warden_gone(struct provider *provider, const struct err *why)
{
    struct err err = {0};
    drop_requests(provider, why);
    tier_live_forget_leases(provider);
    /* The old link stays until its jails are freed: sandbox_end comes for each of them. */
    provider->host->on_process_gone(provider->host->engine, ENGINE_TIER_JAIL, why);
    tier_spares_end(provider);
    provider->watch = watch_free(provider->watch);
    provider->warden = warden_free(provider->warden);
    if (tier_warden_start(provider, &err) < 0)
        log_error("jail.warden", LOG_STR("error", err.msg));
}

static void note_locks(const struct provider *provider, uint32_t number)
{
    for (const struct place *place = provider->places; place != NULL; place = place->next)
        if (place->jail != NULL && !place->is_gone && jail_number(place->jail) == number)
            log_warn("jail.locks", LOG_STR("sandbox", place->id),
                     LOG_STR("error", JAIL_LOCKS_TEXT));
}

static void on_warden(void *ctx, UNUSED int events)
{
    struct provider *provider = ctx;
    struct warden_event event;
    while (provider->warden != NULL && warden_next(provider->warden, &event)) {
        if (event.type == WARDEN_EVENT_GONE) {
            warden_gone(provider, &event.err);
            return;
        }
        if (event.type == WARDEN_EVENT_WANTS_GATEWAY)
            tier_network_wanted(provider, event.number);
        if (event.type == WARDEN_EVENT_KILLED_LOCKER)
            note_locks(provider, event.number);
        struct warden_request *request = request_take(provider, event.request);
        if (request != NULL)
            request->on_event(request, &event,
                              event.type == WARDEN_EVENT_FAILED ? &event.err : NULL);
        free(request);
    }
    watch_warden(provider);
}

static void on_counted(struct warden_request *request, const struct warden_event *event,
                       UNUSED const struct err *why)
{
    struct provider *provider = request->ctx;
    provider->is_counting = false;
    if (event != NULL && event->type == WARDEN_EVENT_COUNTS)
        provider->counts = event->counts;
}

void tier_warden_counts(struct provider *provider, struct pool_figures *ret_figures)
{
    const struct warden_counts *counts = &provider->counts;
    struct err ignored;
    uint32_t number = 0;
    *ret_figures = (struct pool_figures){
        counts->ready, counts->building, counts->wanted,       counts->served,
        counts->built, counts->cpu_us,   counts->memory_bytes, tier_disks_count(provider)};
    if (provider->is_counting || provider->warden == NULL ||
        warden_ask_count(provider->warden, &number, &ignored) < 0)
        return;
    provider->is_counting = true;
    (void)tier_warden_asked(provider, number, on_counted, provider);
}

static void on_pooled(UNUSED struct warden_request *request,
                      UNUSED const struct warden_event *event, const struct err *why)
{
    if (why != NULL)
        log_warn("jail.pool", LOG_STR("error", why->msg));
}

static void on_zygote(struct warden_request *request, const struct warden_event *event,
                      const struct err *why)
{
    struct provider *provider = request->ctx;
    provider->has_zygote = why == NULL;
    if (why != NULL)
        log_warn("jail.zygote", LOG_STR("error", why->msg));
    else
        log_info("jail.zygote", LOG_STR("missing", event->missing));
    tier_spares_tend(provider);
}

void tier_packages_warn(const struct provider *provider)
{
    const struct config_list *wanted = &provider->host->config->jail.python_packages;
    AUTO_BUF struct buf missing = {0};
    packages_put_missing(wanted->items, wanted->len, &missing);
    if (missing.len > 0)
        log_warn("jail.python_packages", LOG_STR("missing", buf_cstr(&missing)),
                 LOG_STR("fix", "apt-get install them, or change [jail] python_packages"));
}

#define PLAIN_IMPORTS "json"

static void put_imports(const struct config_jail *config, struct buf *names)
{
    bool is_given = config->zygote_imports.len > 0;
    const struct config_list *list = is_given ? &config->zygote_imports : &config->python_packages;
    if (!is_given)
        buf_put_cstr(names, PLAIN_IMPORTS);
    for (size_t i = 0; i < list->len; i++)
        buf_printf(names, "%s%.*s", names->len > 0 ? "," : "", STR_ARG(list->items[i]));
}

static void on_plain_zygote(UNUSED struct warden_request *request, const struct warden_event *event,
                            const struct err *why)
{
    if (why != NULL)
        log_warn("jail.plain_zygote", LOG_STR("error", why->msg));
    else
        log_info("jail.plain_zygote", LOG_STR("missing", event->missing));
}

/* Each of the two once for each warden. */
static void ask_zygote(struct provider *provider, const struct runtime *runtime, bool is_plain)
{
    AUTO_BUF struct buf names = {0};
    struct err err = {0};
    uint32_t number = 0;
    if (is_plain) {
        provider->is_plain_asked = true;
        buf_put_cstr(&names, PLAIN_IMPORTS);
    } else {
        provider->is_zygote_asked = true;
        put_imports(&provider->host->config->jail, &names);
    }
    AUTO_CLOSE int program = runtime_program(runtime->forks, &err);
    if (program < 0 ||
        warden_ask_zygote(provider->warden, program, buf_cstr(&names), is_plain, &number, &err) < 0)
        log_warn("jail.zygote", LOG_STR("error", err.msg));
    else
        (void)tier_warden_asked(provider, number, is_plain ? on_plain_zygote : on_zygote, provider);
}

void tier_plain_zygote_want(struct provider *provider, const struct runtime *runtime)
{
    if (!provider->is_plain_asked && provider->has_zygote)
        ask_zygote(provider, runtime, true);
}

void tier_fill_plan(const struct provider *provider, const struct sandbox_limits *limits,
                    struct jail_plan *plan)
{
    runtime_places_plan(NULL, &provider->runtimes, plan);
    plan->limits.memory_bytes = limits->memory_bytes;
    plan->limits.cpu_milli = limits->cpu_milli;
    plan->limits.pids = limits->pids;
    plan->limits.disk_bytes = limits->disk_bytes;
    plan->overlay = true;
    jail_plan_fill(plan);
}

/* A server that makes a sandbox now and then needs few that wait; one that made more than wait is
 * given as many as the configuration allows. */
enum { POOL_FIRST = 8 };

void tier_pool_plan(const struct provider *provider, struct jail_plan *plan)
{
    const struct config_jail *config = &provider->host->config->jail;
    struct sandbox_limits limits = {.memory_bytes = config->memory_mb << 20,
                                    .cpu_milli = (int64_t)(config->cpus * 1000),
                                    .pids = config->pids,
                                    .disk_bytes = config->disk_mb << 20};
    tier_fill_plan(provider, &limits, plan);
}

static int ask_pool(struct provider *provider, size_t size, struct err *err)
{
    const struct config_jail *config = &provider->host->config->jail;
    struct jail_plan plan = {0};
    uint32_t number = 0;
    tier_pool_plan(provider, &plan);
    if (warden_ask_pool(provider->warden, &plan, size, config->pool_idle_ms, &number, err) < 0)
        return -1;
    provider->pool_size = size;
    provider->made = 0;
    (void)tier_warden_asked(provider, number, on_pooled, NULL);
    return 0;
}

void tier_warden_used(struct provider *provider)
{
    size_t most = (size_t)provider->host->config->jail.pool;
    struct err err = {0};
    if (++provider->made <= provider->pool_size || provider->pool_size >= most)
        return;
    if (ask_pool(provider, most, &err) < 0)
        log_warn("jail.pool", LOG_STR("error", err.msg));
}

void tier_zygote_want(struct provider *provider, const struct runtime *runtime)
{
    if (!provider->is_zygote_asked && runtime->forks != NULL &&
        provider->host->config->jail.zygote && ++provider->kernels_started >= 2)
        ask_zygote(provider, runtime, false);
}

/* Those bring what they need themselves, and so often what the zygote has imported, too. */
static bool sessions_have_python_packages(const struct config *config)
{
    for (size_t i = 0; i < config->sandbox.dependencies.len; i++)
        if (str_starts(config->sandbox.dependencies.items[i].package, STR("pypi:")))
            return true;
    return false;
}

/* So that the first interpreter is a fork, too: live forks of it are possible, and it starts at
 * once. */
static void make_zygote(struct provider *provider)
{
    const struct config *config = provider->host->config;
    const struct runtime *runtime = NULL;
    struct err ignored;
    if (!config->jail.zygote || !config->jail.zygote_at_start ||
        runtime_find(STR("python3"), &runtime, &ignored) < 0)
        return;
    ask_zygote(provider, runtime, false);
    if (sessions_have_python_packages(config))
        ask_zygote(provider, runtime, true);
}

int tier_warden_start(struct provider *provider, struct err *err)
{
    size_t most = (size_t)provider->host->config->jail.pool;
    provider->is_zygote_asked = provider->has_zygote = provider->is_plain_asked = false;
    if (warden_start(&provider->warden, err) < 0)
        return -1;
    if (watch_new(provider->host->loop, warden_fd(provider->warden), WATCH_READ, on_warden,
                  provider, &provider->watch, err) < 0)
        return -1;
    if (ask_pool(provider, MIN(most, (size_t)POOL_FIRST), err) < 0)
        return -1;
    make_zygote(provider);
    tier_spares_tend(provider);
    return 0;
}

void tier_warden_stop(struct provider *provider)
{
    struct err err = {0};
    (void)err_set(&err, ERR_CANCELED, "the server is stopping");
    drop_requests(provider, &err);
    tier_spares_end(provider);
    drop_requests(provider, &err); /* the ends of those that waited */
    provider->watch = watch_free(provider->watch);
    provider->warden = warden_free(provider->warden);
}
