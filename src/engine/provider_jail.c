/* The tier jail: one warden makes the places, its jails run on the loop. Writable layers lie in
 * memory, within the sandbox's limit; what shall last lies in a volume. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/vec.h"
#include "egress/gateway.h"
#include "egress/policy.h"
#include "egress/settings.h"
#include "engine/config.h"
#include "engine/jail_place.h"
#include "io/pool.h"
#include "jail/volumes.h"

enum { DISK_QUEUE = 65536, VOLUME_INODES = 200000 };

struct request;

struct provider {
    const struct provider_host *host;
    struct warden_link *warden;
    struct watch *watch;
    struct request *requests;
    struct pool *disk; /* of one thread: layers and volumes want one at a time */
    struct volumes *volumes;
    struct gateway *gateway; /* from the first sandbox with a network on */
    struct watch *gateway_watch;
    struct buf dns_servers;
    struct place *places;
};

/* Something asked of the warden. */
struct request {
    struct request *next;
    uint32_t number;
    struct place *place; /* NULL: it has gone */
    void (*on_event)(struct request *request, const struct warden_event *event,
                     const struct err *why);
    place_done *place_done;
    image_done *image_done;
    engine_done *plain_done;
    void *ctx;
};

static int start_warden(struct provider *provider, struct err *err);

/* --- The warden --- */

static void watch_warden(struct provider *provider)
{
    if (provider->watch != NULL)
        watch_set(provider->watch,
                  WATCH_READ | (warden_wants_write(provider->warden) ? WATCH_WRITE : 0));
}

static struct request *request_add(struct provider *provider, struct place *place, uint32_t number,
                                   void (*on_event)(struct request *request,
                                                    const struct warden_event *event,
                                                    const struct err *why),
                                   void *ctx)
{
    struct request *request = mem_alloc(sizeof *request);
    *request = (struct request){.next = provider->requests,
                                .number = number,
                                .place = place,
                                .on_event = on_event,
                                .ctx = ctx};
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

/* Everybody who waits hears it, a new one is started, and the engine is told. */
static void warden_gone(struct provider *provider, const struct err *why)
{
    struct err err = {0};
    while (provider->requests != NULL) {
        struct request *request = provider->requests;
        provider->requests = request->next;
        request->on_event(request, NULL, why);
        free(request);
    }
    /* The old link stays until its jails are freed: sandbox_end comes for each of them. */
    provider->host->on_maker_gone(provider->host->engine, ENGINE_TIER_JAIL, why);
    provider->watch = watch_free(provider->watch);
    provider->warden = warden_free(provider->warden);
    if (start_warden(provider, &err) < 0)
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
        struct request *request = request_take(provider, event.request);
        if (request != NULL)
            request->on_event(request, &event,
                              event.type == WARDEN_EVENT_FAILED ? &event.err : NULL);
        free(request);
    }
    watch_warden(provider);
}

static void on_pooled(UNUSED struct request *request, UNUSED const struct warden_event *event,
                      const struct err *why)
{
    if (why != NULL)
        log_warn("jail.pool", LOG_STR("error", why->msg));
}

static void fill_plan(const struct sandbox_limits *limits, struct jail_plan *plan)
{
    plan->limits.memory_bytes = limits->memory_bytes;
    plan->limits.cpu_milli = limits->cpu_milli;
    plan->limits.pids = limits->pids;
    plan->limits.disk_bytes = limits->disk_bytes;
    plan->overlay = true;
    jail_plan_fill(plan);
}

static int start_warden(struct provider *provider, struct err *err)
{
    const struct config_jail *config = &provider->host->config->jail;
    struct sandbox_limits limits = {.memory_bytes = config->memory_mb << 20,
                                    .cpu_milli = (int64_t)(config->cpus * 1000),
                                    .pids = config->pids,
                                    .disk_bytes = 1LL << 30};
    struct jail_plan plan = {0};
    uint32_t number = 0;
    if (warden_start(&provider->warden, err) < 0)
        return -1;
    if (watch_new(provider->host->loop, warden_fd(provider->warden), WATCH_READ, on_warden,
                  provider, &provider->watch, err) < 0)
        return -1;
    fill_plan(&limits, &plan);
    if (warden_ask_pool(provider->warden, &plan, (size_t)config->pool, config->pool_idle_ms,
                        &number, err) < 0)
        return -1;
    (void)request_add(provider, NULL, number, on_pooled, NULL);
    return 0;
}

/* --- Events of a jail --- */

void place_add(struct place *place, struct asked_op *op, uint32_t id)
{
    op->id = id;
    op->next = place->ops;
    place->ops = op;
}

void place_remove(struct place *place, struct asked_op *op)
{
    for (struct asked_op **at = &place->ops; *at != NULL; at = &(*at)->next)
        if (*at == op) {
            *at = op->next;
            return;
        }
}

void place_watch(struct place *place)
{
    if (place->watch != NULL && !place->is_gone)
        watch_set(place->watch, WATCH_READ | (jail_wants_write(place->jail) ? WATCH_WRITE : 0));
}

static void drop_ops(struct place *place, const struct err *why)
{
    jail_execs_end(place, why);
    while (place->ops != NULL) {
        struct asked_op *op = place->ops;
        place->ops = op->next;
        op->on_event(op, NULL, why);
    }
}

static void place_free(struct place *place)
{
    for (struct place **at = &place->provider->places; *at != NULL; at = &(*at)->next)
        if (*at == place) {
            *at = place->next;
            break;
        }
    (void)watch_free(place->watch);
    (void)timer_free(place->gone_timer);
    (void)gateway_close(place->network);
    (void)jail_free(place->jail);
    arena_done(&place->arena);
    free(place->id);
    free(place->volume);
    free(place);
}

/* A warden that dies takes its jails along, and which end is heard first is chance. A jail that
 * went by itself is still gone a moment later; after a warden's end its place is no more by then.
 */
enum { GONE_AFTER_MS = 100 };

static void tell_gone(void *ctx)
{
    struct place *place = ctx;
    place->provider->host->on_gone(place->provider->host->engine, str_of(place->id),
                                   &place->gone_err);
}

static void on_jail(void *ctx, UNUSED int events)
{
    struct place *place = ctx;
    struct jail_event event;
    place->is_pumping = true;
    while (!place->is_ended && jail_next(place->jail, &event)) {
        if (event.type == JAIL_EVENT_GONE) {
            place->is_gone = true;
            watch_set(place->watch, 0);
            place->gone_err = event.err;
            place->gone_timer = timer_new(place->provider_loop, tell_gone, place);
            timer_set(place->gone_timer, GONE_AFTER_MS, 0);
            break;
        }
        struct asked_op *op = place->ops;
        while (op != NULL && op->id != event.id)
            op = op->next;
        if (op != NULL)
            op->on_event(op, &event, NULL);
        else if (event.fd >= 0)
            fd_close(&event.fd);
    }
    place->is_pumping = false;
    if (place->is_ended)
        place_free(place);
    else
        place_watch(place);
}

/* --- Network --- */

static void on_gateway(void *ctx, UNUSED int events)
{
    struct provider *provider = ctx;
    if (!gateway_step(provider->gateway)) {
        /* Nothing leaves a sandbox without it; new ones get a new one. */
        log_error("jail.gateway", LOG_STR("error", "the maker of gateways died"));
        provider->gateway_watch = watch_free(provider->gateway_watch);
    }
}

static int open_gateway(struct provider *provider, struct err *err)
{
    if (provider->gateway != NULL)
        return 0;
    if (gateway_start(provider->host->program, &provider->gateway, err) < 0)
        return -1;
    return watch_new(provider->host->loop, gateway_fd(provider->gateway), WATCH_READ, on_gateway,
                     provider, &provider->gateway_watch, err);
}

static bool is_offline(struct str network)
{
    return network.len == 0 || str_eq(network, STR("none"));
}

static int connect_place(struct place *place, struct str network, struct err *err)
{
    static const enum porter_socket kinds[JAIL_SOCKETS] = {
        [JAIL_SOCKET_PROXY] = PORTER_PROXY,     [JAIL_SOCKET_DNS] = PORTER_DNS,
        [JAIL_SOCKET_DNS_TCP] = PORTER_DNS_TCP, [JAIL_SOCKET_HTTP] = PORTER_OPEN,
        [JAIL_SOCKET_HTTPS] = PORTER_OPEN,
    };
    AUTO_POLICY struct policy *policy = NULL;
    struct provider *provider = place->provider;
    if (policy_parse(network, POLICY_BY_OPERATOR, &policy, err) < 0)
        return -1;
    struct gateway_session_options options = {
        .policy = policy,
        .dns_servers = provider->dns_servers.len > 0 ? buf_cstr(&provider->dns_servers) : NULL};
    if (gateway_open(provider->gateway, &options, &place->network, err) < 0)
        return -1;
    for (int i = 0; i < JAIL_SOCKETS; i++)
        if (gateway_add(place->network, kinds[i],
                        jail_take_socket(place->jail, (enum jail_socket)i), err) < 0)
            return -1;
    return 0;
}

static void set_network(struct place *place, struct str network)
{
    AUTO_POLICY struct policy *policy = NULL;
    struct err err = {0};
    if (place->network == NULL) {
        if (!is_offline(network))
            log_warn("jail.network", LOG_STR("sandbox", place->id),
                     LOG_STR("error", "it was made without a network; the next start has one"));
        return;
    }
    if (policy_parse(network, POLICY_BY_OPERATOR, &policy, &err) < 0 ||
        gateway_set_policy(place->network, policy, &err) < 0)
        log_error("jail.network", LOG_STR("sandbox", place->id), LOG_STR("error", err.msg));
}

/* --- Places --- */

struct making {
    struct place *place;
    struct str network;
    place_done *done;
    void *ctx;
};

static void fail(struct making *making, const struct err *why)
{
    making->done(making->ctx, NULL, why);
    place_free(making->place);
    free(making);
}

static void on_made(struct request *request, const struct warden_event *event,
                    const struct err *why)
{
    struct making *making = request->ctx;
    struct place *place = making->place;
    struct err err = {0};
    if (why != NULL) {
        fail(making, why);
        return;
    }
    place->jail = event->jail;
    if (watch_new(place->provider_loop, jail_fd(place->jail), WATCH_READ, on_jail, place,
                  &place->watch, &err) < 0 ||
        (!is_offline(making->network) && connect_place(place, making->network, &err) < 0)) {
        fail(making, &err);
        return;
    }
    making->done(making->ctx, place, NULL);
    free(making);
}

static void ask_make(struct making *making)
{
    struct place *place = making->place;
    struct provider *provider = place->provider;
    struct err err = {0};
    uint32_t number = 0;
    if (provider->warden == NULL)
        (void)err_set(&err, ERR_UNAVAILABLE, "there is no warden");
    else if (warden_ask_make(provider->warden, &place->plan, &number, &err) == 0) {
        (void)request_add(provider, place, number, on_made, making);
        return;
    }
    fail(making, &err);
}

/* --- Volumes, on the disk's thread --- */

enum disk_op { DISK_MAKE, DISK_ATTACH, DISK_DETACH, DISK_REMOVE, DISK_RECLAIM };

struct disk_job {
    struct job job;
    struct provider *provider;
    enum disk_op op;
    char id[65];
    int64_t bytes;
    char path[JAIL_PATH_MAX];
    VEC(char *) unknown; /* volumes that nobody names */
    int result;
    struct err err;
    void (*done)(struct disk_job *job, const struct err *why);
    struct making *making;
    engine_done *plain_done;
    void *ctx;
};

static int reclaim_volumes(struct disk_job *job)
{
    if (volumes_recover(job->provider->volumes, &job->err) < 0)
        return -1;
    VEC_EACH (id, &job->unknown) {
        struct err err = {0};
        log_info("reconcile.volume", LOG_STR("volume", *id));
        if (volumes_remove(job->provider->volumes, *id, &err) < 0)
            log_warn("reconcile.volume", LOG_STR("error", err.msg));
    }
    return volumes_reclaim(job->provider->volumes, &job->err);
}

static int run_disk_op(struct disk_job *job)
{
    struct volumes *volumes = job->provider->volumes;
    struct quota_limit limit = {.bytes = job->bytes, .inodes = VOLUME_INODES};
    switch (job->op) {
    case DISK_MAKE:
        return volumes_make(volumes, job->id, &limit, &job->err) < 0 ||
                       volumes_sync(volumes, job->id, &job->err) < 0
                   ? -1
                   : 0;
    case DISK_ATTACH:
        return volumes_attach(volumes, job->id, job->path, sizeof job->path, &job->err);
    case DISK_DETACH:
        return volumes_detach(volumes, job->id, &job->err);
    case DISK_REMOVE:
        return volumes_remove(volumes, job->id, &job->err) < 0 ||
                       volumes_reclaim(volumes, &job->err) < 0
                   ? -1
                   : 0;
    case DISK_RECLAIM:
        return reclaim_volumes(job);
    }
    return -1;
}

static void run_disk(struct job *base)
{
    struct disk_job *job = (struct disk_job *)base;
    job->result = run_disk_op(job);
}

static void disk_done(struct job *base, bool canceled)
{
    struct disk_job *job = (struct disk_job *)base;
    if (canceled)
        job->result = err_set(&job->err, ERR_CANCELED, "the server stops");
    job->done(job, job->result < 0 ? &job->err : NULL);
    VEC_EACH (id, &job->unknown)
        free(*id);
    vec_done(&job->unknown);
    free(job);
}

static struct disk_job *disk_job_new(struct provider *provider, enum disk_op op, struct str id)
{
    struct disk_job *job = mem_alloc(sizeof *job);
    job->job = (struct job){.run = run_disk, .done = disk_done};
    job->provider = provider;
    job->op = op;
    (void)snprintf(job->id, sizeof job->id, "%.*s", STR_ARG(id));
    return job;
}

static void disk_submit(struct disk_job *job)
{
    struct err err = {0};
    if (pool_submit(job->provider->disk, &job->job, &err) < 0)
        disk_done(&job->job, true);
}

static void tell_plain(struct disk_job *job, const struct err *why)
{
    if (job->plain_done != NULL)
        job->plain_done(job->ctx, why);
}

static void create_volume(struct provider *provider, struct str id, int64_t capacity_bytes,
                          engine_done *done, void *ctx)
{
    struct disk_job *job = disk_job_new(provider, DISK_MAKE, id);
    job->bytes = capacity_bytes;
    job->done = tell_plain;
    job->plain_done = done;
    job->ctx = ctx;
    disk_submit(job);
}

static void delete_volume(struct provider *provider, struct str id, engine_done *done, void *ctx)
{
    struct disk_job *job = disk_job_new(provider, DISK_REMOVE, id);
    job->done = tell_plain;
    job->plain_done = done;
    job->ctx = ctx;
    disk_submit(job);
}

static bool volume_is_there(struct provider *provider, struct str id)
{
    AUTO_BUF struct buf path = {0};
    buf_printf(&path, "%s/volumes/%.*s", provider->host->data_dir, STR_ARG(id));
    return access(buf_cstr(&path), F_OK) == 0;
}

static void on_attached(struct disk_job *job, const struct err *why)
{
    struct making *making = job->making;
    if (why != NULL) {
        fail(making, why);
        return;
    }
    making->place->plan.workspace = arena_dup(&making->place->arena, str_of(job->path)).ptr;
    ask_make(making);
}

static void create(struct provider *provider, const struct place_spec *spec, place_done *done,
                   void *ctx)
{
    const struct sandbox_info *info = spec->sandbox;
    struct place *place = mem_alloc(sizeof *place);
    struct making *making = mem_alloc(sizeof *making);
    struct err err = {0};
    place->provider = provider;
    place->provider_loop = provider->host->loop;
    place->id = mem_dup_cstr(info->id.ptr);
    place->volume = mem_dup_cstr(arena_dup(&place->arena, spec->volume).ptr);
    place->next = provider->places;
    provider->places = place;
    *making = (struct making){place, arena_dup(&place->arena, info->network), done, ctx};
    fill_plan(&info->limits, &place->plan);
    if (!is_offline(info->network)) {
        if (open_gateway(provider, &err) < 0) {
            fail(making, &err);
            return;
        }
        place->plan.net = JAIL_NET_GATEWAY;
        place->plan.gateway_port = SETTINGS_PROXY_PORT;
    }
    if (spec->snapshot_count > 0) {
        (void)err_set(&err, ERR_UNSUPPORTED, "a sandbox of the tier 'jail' has no snapshots");
        fail(making, &err);
    } else if (spec->volume.len > 0) {
        struct disk_job *job = disk_job_new(provider, DISK_ATTACH, spec->volume);
        job->making = making;
        job->done = on_attached;
        disk_submit(job);
    } else {
        ask_make(making);
    }
}

struct ending {
    struct provider *provider;
    char *volume;
    engine_done *done;
    void *ctx;
};

/* The jail is gone; then its volume is let go of. */
static void on_ended(struct request *request, UNUSED const struct warden_event *event,
                     const struct err *why)
{
    struct ending *ending = request->ctx;
    if (ending->volume[0] != '\0') {
        struct disk_job *job = disk_job_new(ending->provider, DISK_DETACH, str_of(ending->volume));
        job->done = tell_plain;
        job->plain_done = ending->done;
        job->ctx = ending->ctx;
        disk_submit(job);
    } else {
        ending->done(ending->ctx, why);
    }
    free(ending->volume);
    free(ending);
}

static void end(struct place *place, UNUSED bool keep_image, engine_done *done, void *ctx)
{
    struct provider *provider = place->provider;
    struct ending *ending = mem_alloc(sizeof *ending);
    struct err gone = {0}, err = {0};
    uint32_t number = 0;
    (void)err_set(&gone, ERR_GONE, "the sandbox ended");
    drop_ops(place, &gone);
    *ending = (struct ending){provider, mem_dup_cstr(place->volume), done, ctx};
    bool is_asked = !place->is_gone && provider->warden != NULL &&
                    jail_ask_end(place->jail, &number, &err) == 0;
    if (is_asked) {
        (void)request_add(provider, NULL, number, on_ended, ending);
    } else {
        struct request request = {.ctx = ending};
        on_ended(&request, NULL, NULL);
    }
    if (place->is_pumping)
        place->is_ended = true;
    else
        place_free(place);
}

/* --- Freezing --- */

static void on_frozen(struct request *request, UNUSED const struct warden_event *event,
                      const struct err *why)
{
    request->image_done(request->ctx, (struct str){0}, 0, why);
}

static void on_thawed(struct request *request, UNUSED const struct warden_event *event,
                      const struct err *why)
{
    request->plain_done(request->ctx, why);
}

static void pause_place(struct place *place, image_done *done, void *ctx)
{
    struct err err = {0};
    uint32_t number = 0;
    if (jail_ask_freeze(place->jail, true, &number, &err) < 0) {
        done(ctx, (struct str){0}, 0, &err);
        return;
    }
    request_add(place->provider, place, number, on_frozen, ctx)->image_done = done;
}

static void resume(struct place *place, engine_done *done, void *ctx)
{
    struct err err = {0};
    uint32_t number = 0;
    if (jail_ask_freeze(place->jail, false, &number, &err) < 0) {
        done(ctx, &err);
        return;
    }
    request_add(place->provider, place, number, on_thawed, ctx)->plain_done = done;
}

/* --- Clearing up, opening, closing --- */

static void reclaim(struct provider *provider, UNUSED const struct map *sandboxes,
                    const struct map *volumes, UNUSED const struct map *snapshots,
                    engine_done *done, void *ctx)
{
    struct disk_job *job = disk_job_new(provider, DISK_RECLAIM, (struct str){0});
    AUTO_BUF struct buf path = {0};
    buf_printf(&path, "%s/volumes", provider->host->data_dir);
    job->done = tell_plain;
    job->plain_done = done;
    job->ctx = ctx;
    DIR *dir = opendir(buf_cstr(&path));
    const struct dirent *entry = NULL;
    while (dir != NULL && (entry = readdir(dir)) != NULL) /* NOLINT(concurrency-mt-unsafe) */
        if (entry->d_name[0] != '.' && !map_has(volumes, str_of(entry->d_name)))
            *vec_push(&job->unknown) = mem_dup_cstr(entry->d_name);
    if (dir != NULL)
        (void)closedir(dir);
    disk_submit(job);
}

static void close_provider(struct provider *provider)
{
    struct err err = {0};
    (void)err_set(&err, ERR_CANCELED, "the server stops");
    while (provider->requests != NULL) {
        struct request *request = provider->requests;
        provider->requests = request->next;
        request->on_event(request, NULL, &err);
        free(request);
    }
    (void)pool_free(provider->disk);
    (void)watch_free(provider->gateway_watch);
    (void)gateway_free(provider->gateway);
    (void)watch_free(provider->watch);
    (void)warden_free(provider->warden);
    if (provider->volumes != NULL && volumes_rest(provider->volumes, &err) < 0)
        log_warn("jail.volumes", LOG_STR("error", err.msg));
    (void)volumes_free(provider->volumes);
    buf_done(&provider->dns_servers);
    free(provider);
}

static int open_provider(const struct provider_host *host, struct provider **ret_provider,
                         struct err *err)
{
    const struct config_list *servers = &host->config->egress.dns_servers;
    struct provider *provider = mem_alloc(sizeof *provider);
    provider->host = host;
    for (size_t i = 0; i < servers->len; i++)
        buf_printf(&provider->dns_servers, "%s%.*s", i > 0 ? "," : "", STR_ARG(servers->items[i]));
    if (pool_open(host->loop, 1, DISK_QUEUE, &provider->disk, err) < 0 ||
        volumes_open(host->data_dir, &provider->volumes, err) < 0 ||
        start_warden(provider, err) < 0) {
        close_provider(provider);
        return -1;
    }
    *ret_provider = provider;
    return 0;
}

static int maker_pid(const struct provider *provider)
{
    return provider->warden == NULL ? 0 : (int)warden_pid(provider->warden);
}

const struct provider_table provider_jail = {
    .name = "jail",
    .tier = ENGINE_TIER_JAIL,
    .runtime = "bash",
    .open = open_provider,
    .close = close_provider,
    .maker_pid = maker_pid,
    .sandbox_create = create,
    .sandbox_end = end,
    .exec = jail_exec,
    .exec_write = jail_exec_write,
    .exec_unsent = jail_exec_unsent,
    .exec_close_stdin = jail_exec_close_stdin,
    .exec_signal = jail_exec_signal,
    .exec_resize = jail_exec_resize,
    .exec_flow = jail_exec_flow,
    .exec_free = jail_exec_free,
    .files = jail_files,
    .file_get = jail_file_get,
    .reader_flow = jail_reader_flow,
    .reader_free = jail_reader_free,
    .file_put = jail_file_put,
    .writer_write = jail_writer_write,
    .writer_finish = jail_writer_finish,
    .writer_free = jail_writer_free,
    .watch = jail_file_watch,
    .watcher_free = jail_watcher_free,
    .port = jail_port,
    .pause = pause_place,
    .resume = resume,
    .network = set_network,
    .volume_create = create_volume,
    .volume_exists = volume_is_there,
    .volume_delete = delete_volume,
    .reclaim = reclaim,
};
