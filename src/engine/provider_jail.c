/* The tier jail: one warden makes the places, its jails run on the loop. Writable layers lie in
 * memory, within the sandbox's limit; what shall last lies in a volume, or is copied to a layer on
 * disk (jail_layers.h). */

#include "base/err.h"
#include "base/log.h"
#include "engine/config.h"
#include "engine/jail_layers.h"
#include "engine/jail_place.h"
#include "io/pool.h"
#include "jail/volumes.h"
#include "runtime/runtimes.h"

enum { DISK_QUEUE = 65536 };

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
    jail_runs_resume(place);
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
    .sandbox_create = jail_place_create,
    .sandbox_end = jail_place_end,
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
