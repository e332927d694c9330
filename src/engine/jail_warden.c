/* The warden of the tier jail: what is asked of it, and the next one when it dies. */

#include "base/fd.h"
#include "base/log.h"
#include "engine/config.h"
#include "engine/jail_place.h"
#include "jail/jail_fork.h"
#include "runtime/runtimes.h"

static void watch_warden(struct provider *provider)
{
    if (provider->watch != NULL)
        watch_set(provider->watch,
                  WATCH_READ | (warden_wants_write(provider->warden) ? WATCH_WRITE : 0));
}

struct request *jail_warden_asked(struct provider *provider, uint32_t number,
                                  request_event *on_event, void *ctx)
{
    struct request *request = mem_alloc(sizeof *request);
    *request = (struct request){
        .next = provider->requests, .number = number, .on_event = on_event, .ctx = ctx};
    provider->requests = request;
    watch_warden(provider);
    return request;
}

static struct request *request_take(struct provider *provider, uint32_t number)
{
    for (struct request **at = &provider->requests; *at != NULL; at = &(*at)->next)
        if ((*at)->number == number) {
            struct request *request = *at;
            *at = request->next;
            return request;
        }
    return NULL;
}

static void drop_requests(struct provider *provider, const struct err *why)
{
    while (provider->requests != NULL) {
        struct request *request = provider->requests;
        provider->requests = request->next;
        request->on_event(request, NULL, why);
        free(request);
    }
}

/* Everybody who waits hears it, a new one is started, and the engine is told. */
static void warden_gone(struct provider *provider, const struct err *why)
{
    struct err err = {0};
    drop_requests(provider, why);
    /* The old link stays until its jails are freed: sandbox_end comes for each of them. */
    provider->host->on_maker_gone(provider->host->engine, ENGINE_TIER_JAIL, why);
    jail_spares_end(provider);
    provider->watch = watch_free(provider->watch);
    provider->warden = warden_free(provider->warden);
    if (jail_warden_start(provider, &err) < 0)
        log_error("jail.warden", LOG_STR("error", err.msg));
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
        if (event.type == WARDEN_EVENT_KNOCKED)
            jail_network_knocked(provider, event.number);
        struct request *request = request_take(provider, event.request);
        if (request != NULL)
            request->on_event(request, &event,
                              event.type == WARDEN_EVENT_FAILED ? &event.err : NULL);
        free(request);
    }
    watch_warden(provider);
}

static void on_counted(struct request *request, const struct warden_event *event,
                       UNUSED const struct err *why)
{
    struct provider *provider = request->ctx;
    provider->is_counting = false;
    if (event != NULL && event->type == WARDEN_EVENT_COUNTS)
        provider->counts = event->counts;
}

void jail_warden_counts(struct provider *provider, struct pool_figures *ret_figures)
{
    const struct warden_counts *counts = &provider->counts;
    struct err ignored;
    uint32_t number = 0;
    *ret_figures = (struct pool_figures){counts->ready, counts->building, counts->wanted,
                                         counts->served, counts->built};
    if (provider->is_counting || provider->warden == NULL ||
        warden_ask_count(provider->warden, &number, &ignored) < 0)
        return;
    provider->is_counting = true;
    (void)jail_warden_asked(provider, number, on_counted, provider);
}

static void on_pooled(UNUSED struct request *request, UNUSED const struct warden_event *event,
                      const struct err *why)
{
    if (why != NULL)
        log_warn("jail.pool", LOG_STR("error", why->msg));
}

static void on_template(struct request *request, const struct warden_event *event,
                        const struct err *why)
{
    struct provider *provider = request->ctx;
    provider->has_template = why == NULL;
    if (why != NULL)
        log_warn("jail.template", LOG_STR("error", why->msg));
    else
        log_info("jail.template", LOG_STR("missing", event->missing));
    jail_spares_tend(provider);
}

/* Once for each warden. */
static void ask_template(struct provider *provider, const struct runtime *runtime)
{
    const struct config_jail *config = &provider->host->config->jail;
    AUTO_BUF struct buf names = {0};
    struct err err = {0};
    uint32_t number = 0;
    provider->is_template_asked = true;
    for (size_t i = 0; i < config->template_imports.len; i++)
        buf_printf(&names, "%s%.*s", i > 0 ? "," : "", STR_ARG(config->template_imports.items[i]));
    if (names.len == 0)
        buf_put_cstr(&names, runtime->imports);
    AUTO_CLOSE int program = runtime_program(runtime->forks, &err);
    if (program < 0 ||
        warden_ask_template(provider->warden, program, buf_cstr(&names), &number, &err) < 0)
        log_warn("jail.template", LOG_STR("error", err.msg));
    else
        (void)jail_warden_asked(provider, number, on_template, provider);
}

void jail_fill_plan(const struct provider *provider, const struct sandbox_limits *limits,
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

void jail_pool_plan(const struct provider *provider, struct jail_plan *plan)
{
    const struct config_jail *config = &provider->host->config->jail;
    struct sandbox_limits limits = {.memory_bytes = config->memory_mb << 20,
                                    .cpu_milli = (int64_t)(config->cpus * 1000),
                                    .pids = config->pids,
                                    .disk_bytes = 1LL << 30};
    jail_fill_plan(provider, &limits, plan);
}

static int ask_pool(struct provider *provider, size_t size, struct err *err)
{
    const struct config_jail *config = &provider->host->config->jail;
    struct jail_plan plan = {0};
    uint32_t number = 0;
    jail_pool_plan(provider, &plan);
    if (warden_ask_pool(provider->warden, &plan, size, config->pool_idle_ms, &number, err) < 0)
        return -1;
    provider->pool_size = size;
    provider->made = 0;
    (void)jail_warden_asked(provider, number, on_pooled, NULL);
    return 0;
}

void jail_warden_used(struct provider *provider)
{
    size_t most = (size_t)provider->host->config->jail.pool;
    struct err err = {0};
    if (++provider->made <= provider->pool_size || provider->pool_size >= most)
        return;
    if (ask_pool(provider, most, &err) < 0)
        log_warn("jail.pool", LOG_STR("error", err.msg));
}

void jail_template_want(struct provider *provider, const struct runtime *runtime)
{
    if (!provider->is_template_asked && runtime->forks != NULL &&
        provider->host->config->jail.template && ++provider->kernels_started >= 2)
        ask_template(provider, runtime);
}

/* So that the first kernel, too, is a fork: live forks of it go on, and it is there at once. */
static void make_template(struct provider *provider)
{
    const struct config_jail *config = &provider->host->config->jail;
    const struct runtime *runtime = NULL;
    struct err ignored;
    if (config->template && config->template_at_start &&
        runtime_find(STR("python3"), &runtime, &ignored) == 0)
        ask_template(provider, runtime);
}

int jail_warden_start(struct provider *provider, struct err *err)
{
    size_t most = (size_t)provider->host->config->jail.pool;
    provider->is_template_asked = provider->has_template = false;
    if (warden_start(&provider->warden, err) < 0)
        return -1;
    if (watch_new(provider->host->loop, warden_fd(provider->warden), WATCH_READ, on_warden,
                  provider, &provider->watch, err) < 0)
        return -1;
    if (ask_pool(provider, MIN(most, (size_t)POOL_FIRST), err) < 0)
        return -1;
    make_template(provider);
    return 0;
}

void jail_warden_stop(struct provider *provider)
{
    struct err err = {0};
    (void)err_set(&err, ERR_CANCELED, "the server stops");
    drop_requests(provider, &err);
    jail_spares_end(provider);
    drop_requests(provider, &err); /* the ends of those that waited */
    provider->watch = watch_free(provider->watch);
    provider->warden = warden_free(provider->warden);
}
