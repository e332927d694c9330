/* The tier jail: one warden makes the places, its jails run on the loop. Writable layers lie in
 * memory, within the sandbox's limit; what shall last lies in a volume, or is copied to a layer on
 * disk (jail_layers.h). */

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "egress/gateway.h"
#include "engine/config.h"
#include "engine/jail_layers.h"
#include "engine/jail_place.h"
#include "engine/network.h"
#include "io/pool.h"
#include "jail/volumes.h"
#include "runtime/runtimes.h"

enum { DISK_QUEUE = 65536 };

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
    jail_contexts_end(place, why);
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
    (void)network_free(place->net);
    jail_roots_end(place);
    vec_done(&place->ports);
    (void)jail_free(place->jail);
    jail_seal_forget(place);
    buf_done(&place->base_image);
    buf_done(&place->own_image);
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
    if (place->is_spare)
        return; /* it is found dead when it is asked for */
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
            jail_network_end(place, &event.err);
            jail_live_end(place, &event.err);
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

int place_exchange(struct place *place, struct jail *jail, const struct err *why,
                   struct jail **ret_old, struct err *err)
{
    struct watch *watch = NULL;
    if (watch_new(place->provider_loop, jail_fd(jail), WATCH_READ, on_jail, place, &watch, err) < 0)
        return -1;
    jail_network_end(place, why);
    jail_live_end(place, why);
    drop_ops(place, why);
    (void)watch_free(place->watch);
    place->gone_timer = timer_free(place->gone_timer);
    place->is_gone = false;
    place->oom_kills = 0;
    *ret_old = place->jail;
    place->jail = jail;
    place->watch = watch;
    place->network = gateway_close(place->network);
    place->ports.len = 0;
    return 0;
}

/* --- Places --- */

struct place *place_new(struct provider *provider)
{
    struct place *place = mem_alloc(sizeof *place);
    place->provider = provider;
    place->provider_loop = provider->host->loop;
    place->roots_fd = -1;
    return place;
}

int place_take_jail(struct place *place, struct jail *jail, struct err *err)
{
    place->jail = jail;
    return watch_new(place->provider_loop, jail_fd(jail), WATCH_READ, on_jail, place, &place->watch,
                     err);
}

struct making {
    struct place *place;
    place_done *done;
    void *ctx;
};

static void fail(struct making *making, const struct err *why)
{
    struct place *place = making->place;
    making->done(making->ctx, NULL, why);
    free(making);
    jail_live_end(place, why);
    jail_contexts_end(place, why);
    if (place->is_pumping)
        place->is_ended = true;
    else
        place_free(place);
}

static void on_revived(void *ctx, const struct err *why)
{
    struct making *making = ctx;
    if (why != NULL) {
        fail(making, why);
        return;
    }
    making->done(making->ctx, making->place, NULL);
    free(making);
}

static void on_joined(void *ctx, const struct err *why)
{
    struct making *making = ctx;
    if (why != NULL) {
        fail(making, why);
        return;
    }
    jail_layers_squash(making->place);
    jail_contexts_dress(making->place);
    jail_live_revive(making->place, on_revived, making);
}

/* The network is the last that a place is given. */
static void join(struct making *making)
{
    struct place *place = making->place;
    struct network *network = place->net;
    place->net = NULL; /* does not hold yet */
    jail_network_set(place, network, on_joined, making);
    (void)network_free(network);
}

static void on_limited(void *ctx, const struct err *why)
{
    struct making *making = ctx;
    if (why != NULL)
        fail(making, why);
    else
        join(making);
}

static void on_made(struct request *request, const struct warden_event *event,
                    const struct err *why)
{
    struct making *making = request->ctx;
    struct err err = {0};
    if (why != NULL)
        fail(making, why);
    else if (place_take_jail(making->place, event->jail, &err) < 0)
        fail(making, &err);
    else
        join(making);
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
        (void)jail_warden_asked(provider, number, on_made, making);
        jail_warden_used(provider);
        return;
    }
    fail(making, &err);
}

static void on_attached(void *ctx, struct str path, const struct err *why)
{
    struct making *making = ctx;
    if (why != NULL) {
        fail(making, why);
        return;
    }
    making->place->plan.workspace = arena_dup(&making->place->arena, path).ptr;
    ask_make(making);
}

/* Read-only, one beside the other; the image counts as in use until the place has gone. */
static int show_layers(struct place *place, struct str image, struct err *err)
{
    struct jail_plan *plan = &place->plan;
    layer_ids ids = {0};
    int done = jail_layers_add(&ids, image, err);
    if (done == 0 && ids.len > JAIL_MOUNTS_MAX - plan->mount_count)
        done = err_set(err, ERR_LIMIT, "a snapshot of %zu layers cannot be exported", ids.len);
    for (size_t i = 0; done == 0 && i < ids.len; i++)
        plan->mounts[plan->mount_count++] = (struct jail_mount){
            .src = arena_printf(&place->arena, "%s/layers/%.*s", place->provider->host->data_dir,
                                STR_ARG(ids.ptr[i]))
                       .ptr,
            .dst = arena_printf(&place->arena, "/mnt/%03zu", i).ptr};
    buf_put(&place->base_image, image);
    vec_done(&ids);
    return done;
}

static void create(struct provider *provider, const struct place_spec *spec, place_done *done,
                   void *ctx)
{
    const struct sandbox_info *info = spec->sandbox;
    /* What trusts an authority of its own is made for it. */
    struct place *spare = spec->network->authority != NULL ? NULL : jail_spare_take(provider, spec);
    struct place *place = spare != NULL ? spare : place_new(provider);
    struct making *making = mem_alloc(sizeof *making);
    struct err err = {0};
    place->id = mem_dup_cstr(info->id.ptr);
    place->volume = mem_dup_cstr(arena_dup(&place->arena, spec->volume).ptr);
    place->next = provider->places;
    provider->places = place;
    place->net = network_ref(spec->network);
    place->net_moved = spec->net_moved;
    *making = (struct making){place, done, ctx};
    jail_contexts_begin(place, info);
    jail_live_begin(place, spec->live);
    jail_fill_plan(provider, &info->limits, &place->plan);
    place->plan.base = runtime_root(info->runtime, provider->host->data_dir, &place->arena);
    if (jail_layers_plan(place, spec, &err) < 0 ||
        (spec->shown.len > 0 && show_layers(place, spec->shown, &err) < 0)) {
        fail(making, &err);
        return;
    }
    jail_roots_plan(place);
    if (spare != NULL) {
        jail_spare_limit(place, on_limited, making);
    } else if (spec->volume.len > 0) {
        jail_volume_attach(provider, spec->volume, on_attached, making);
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
    if (ending->volume[0] != '\0')
        jail_volume_detach(ending->provider, str_of(ending->volume), ending->done, ending->ctx);
    else
        ending->done(ending->ctx, why);
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
    jail_network_end(place, &gone);
    jail_live_end(place, &gone);
    drop_ops(place, &gone);
    jail_layers_leave(place, &gone);
    jail_rollback_leave(place, &gone);
    *ending = (struct ending){provider, mem_dup_cstr(place->volume), done, ctx};
    bool is_asked = !place->is_gone && provider->warden != NULL &&
                    jail_ask_end(place->jail, &number, &err) == 0;
    if (is_asked) {
        (void)jail_warden_asked(provider, number, on_ended, ending);
    } else {
        struct request request = {.ctx = ending};
        on_ended(&request, NULL, NULL);
    }
    if (place->is_pumping)
        place->is_ended = true;
    else
        place_free(place);
}

static void on_discarded(UNUSED void *ctx, UNUSED const struct err *why)
{
}

void place_discard(struct place *place)
{
    place->volume = mem_dup_cstr("");
    if (place->jail != NULL)
        end(place, false, on_discarded, NULL);
    else
        place_free(place);
}

/* --- Freezing and keeping --- */

static void on_thawed(struct request *request, UNUSED const struct warden_event *event,
                      const struct err *why)
{
    request->plain_done(request->ctx, why);
}

static void pause_place(struct place *place, image_done *done, void *ctx)
{
    jail_layers_keep(place, JAIL_KEEP_PAUSE, done, ctx);
}

static void resume(struct place *place, engine_done *done, void *ctx)
{
    struct err err = {0};
    uint32_t number = 0;
    if (jail_ask_freeze(place->jail, false, &number, &err) < 0) {
        done(ctx, &err);
        return;
    }
    jail_warden_asked(place->provider, number, on_thawed, ctx)->plain_done = done;
}

static void checkpoint(struct place *place, image_done *done, void *ctx)
{
    jail_layers_keep(place, JAIL_KEEP_CHECKPOINT, done, ctx);
}

static void create_snapshot(struct place *place, UNUSED struct str id, image_done *done, void *ctx)
{
    jail_layers_keep(place, JAIL_KEEP_WHOLE, done, ctx);
}

static void delete_image(struct provider *provider, UNUSED struct str image)
{
    jail_layers_sweep_soon(provider);
}

static void delete_snapshot(struct provider *provider, UNUSED struct str image, engine_done *done,
                            void *ctx)
{
    jail_layers_sweep_soon(provider);
    done(ctx, NULL);
}

/* --- Clearing up, opening, closing --- */

struct clearing {
    struct provider *provider;
    engine_done *done;
    void *ctx;
};

static void volumes_cleared(void *ctx, const struct err *why)
{
    struct clearing *clearing = ctx;
    if (why != NULL)
        clearing->done(clearing->ctx, why);
    else
        jail_layers_reclaim(clearing->provider, clearing->done, clearing->ctx);
    free(clearing);
}

static void reclaim(struct provider *provider, UNUSED const struct map *sandboxes,
                    const struct map *volumes, UNUSED const struct map *snapshots,
                    engine_done *done, void *ctx)
{
    struct clearing *clearing = mem_alloc(sizeof *clearing);
    *clearing = (struct clearing){provider, done, ctx};
    jail_volumes_reclaim(provider, volumes, volumes_cleared, clearing);
}

static void close_provider(struct provider *provider)
{
    struct err err = {0};
    jail_warden_stop(provider);
    (void)pool_free(provider->disk);
    jail_layers_close(provider);
    jail_network_stop(provider);
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
    runtimes_use(host->data_dir);
    for (size_t i = 0; i < servers->len; i++)
        buf_printf(&provider->dns_servers, "%s%.*s", i > 0 ? "," : "", STR_ARG(servers->items[i]));
    if (pool_open(host->loop, 1, DISK_QUEUE, &provider->disk, err) < 0 ||
        volumes_open(host->data_dir, &provider->volumes, err) < 0 ||
        jail_layers_open(provider, err) < 0 ||
        runtime_places_make(NULL, host->data_dir, &provider->runtimes, err) < 0 ||
        jail_warden_start(provider, err) < 0) {
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
    .keeps_images = true,
    .open = open_provider,
    .close = close_provider,
    .maker_pid = maker_pid,
    .pool = jail_warden_counts,
    .sandbox_create = create,
    .sandbox_end = end,
    .eval = jail_eval,
    .eval_flow = jail_eval_flow,
    .context = jail_context,
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
    .checkpoint = checkpoint,
    .live_take = jail_live_take,
    .live_release = jail_live_release,
    .live_free = jail_live_free,
    .rollback = jail_rollback,
    .image_delete = delete_image,
    .network = jail_network_set,
    .volume_create = jail_volume_create,
    .volume_exists = jail_volume_exists,
    .volume_delete = jail_volume_delete,
    .snapshot_create = create_snapshot,
    .snapshot_directory = jail_layers_take,
    .snapshot_exists = jail_layers_exist,
    .snapshot_delete = delete_snapshot,
    .reclaim = reclaim,
};
