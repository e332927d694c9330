/* The tier jail: one warden makes the places, its jails run on the loop. What a sandbox writes lies
 * on a disk of its own (disk.h), or in memory where the host cannot limit one; checkpoints,
 * forks and snapshots are layers of that disk or copies of it (layers.h). */

#include "tiers/jail/provider_jail.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/map.h"
#include "config/config.h"
#include "engine/provider.h"
#include "io/pool.h"
#include "jail/client/jail_fork.h"
#include "jail/disk/volumes.h"
#include "runtime/runtimes.h"
#include "tiers/jail/code/context.h"
#include "tiers/jail/code/live.h"
#include "tiers/jail/exec/exec.h"
#include "tiers/jail/files/files.h"
#include "tiers/jail/layers/disk.h"
#include "tiers/jail/layers/layers.h"
#include "tiers/jail/layers/volumes.h"
#include "tiers/jail/net/network.h"
#include "tiers/jail/place.h"
#include "tiers/jail/warden.h"

enum { DISK_QUEUE = 65536 };

/* --- Freezing and keeping --- */

static void on_thawed(struct warden_request *request, UNUSED const struct warden_event *event,
                      const struct err *why)
{
    request->plain_done(request->ctx, why);
}

static void pause_place(struct place *place, image_done *done, void *ctx)
{
    tier_layers_keep(place, JAIL_KEEP_PAUSE, done, ctx);
}

static void resume(struct place *place, engine_done *done, void *ctx)
{
    struct err err = {0};
    uint32_t number = 0;
    if (jail_ask_freeze(place->jail, false, &number, &err) < 0) {
        done(ctx, &err);
        return;
    }
    tier_runs_resume(place);
    tier_warden_asked(place->provider, number, on_thawed, ctx)->plain_done = done;
}

struct using
{
    struct sandbox_usage *usage;
    struct disk_quota_use disk;
    size_t owed; /* answers: of the warden and of the disk */
    engine_done *done;
    void *ctx;
};

/* Unknown values stay unknown; the reason is not reported. */
static void one_used(struct using *using)
{
    if (--using->owed > 0)
        return;
    using->usage->disk_bytes = using->disk.used_bytes;
    using->done(using->ctx, NULL);
    free(using);
}

static void on_disk_used(void *ctx, UNUSED const struct err *why)
{
    one_used(ctx);
}

static void on_stats(struct warden_request *request, const struct warden_event *event,
                     const struct err *why)
{
    struct using *using = request->ctx;
    if (why == NULL) {
        using->usage->cpu_us = event->stats.cpu_us;
        using->usage->memory_bytes = event->stats.memory_now;
        using->usage->memory_peak = event->stats.memory_peak;
        using->usage->tasks = event->stats.tasks;
    }
    one_used(using);
}

static void usage(struct place *place, struct sandbox_usage *out, engine_done *done, void *ctx)
{
    struct err err = {0};
    uint32_t number = 0;
    struct using *using = mem_alloc(sizeof *using);
    *using = (struct using){
        .usage = out, .disk = {.used_bytes = -1}, .owed = 1, .done = done, .ctx = ctx};
    if (!place->is_gone && place->provider->warden != NULL &&
        jail_ask_stat(place->jail, &number, &err) == 0) {
        using->owed++;
        (void)tier_warden_asked(place->provider, number, on_stats, using);
    }
    if (place->disk[0] != '\0') {
        using->owed++;
        tier_disk_stat(place, &using->disk, on_disk_used, using);
    }
    one_used(using);
}

static void checkpoint(struct place *place, image_done *done, void *ctx)
{
    tier_layers_keep(place, JAIL_KEEP_CHECKPOINT, done, ctx);
}

static void create_snapshot(struct place *place, UNUSED struct str id, image_done *done, void *ctx)
{
    tier_layers_keep(place, JAIL_KEEP_WHOLE, done, ctx);
}

static void delete_image(struct provider *provider, struct str image)
{
    tier_disks_trim_soon(provider, image);
}

static void delete_disk(struct provider *provider, UNUSED struct str disk)
{
    tier_layers_sweep_soon(provider);
}

static bool has_disks(const struct provider *provider)
{
    return provider->disks != NULL;
}

static void delete_snapshot(struct provider *provider, UNUSED struct str image, engine_done *done,
                            void *ctx)
{
    tier_layers_sweep_soon(provider);
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
        tier_layers_reclaim(clearing->provider, clearing->done, clearing->ctx);
    free(clearing);
}

static void reclaim(struct provider *provider, UNUSED const struct map *sandboxes,
                    const struct map *volumes, UNUSED const struct map *snapshots,
                    engine_done *done, void *ctx)
{
    struct clearing *clearing = mem_alloc(sizeof *clearing);
    *clearing = (struct clearing){provider, done, ctx};
    tier_volumes_reclaim(provider, volumes, volumes_cleared, clearing);
}

static void close_provider(struct provider *provider)
{
    struct err err = {0};
    tier_live_close(provider);
    tier_warden_stop(provider);
    tier_layers_stop(provider);
    provider->disk = pool_free(provider->disk);
    tier_disks_stop(provider);
    tier_layers_close(provider);
    tier_disks_close(provider);
    tier_network_stop(provider);
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
        tier_layers_open(provider, err) < 0 || tier_disks_open(provider, err) < 0 ||
        runtime_places_make(NULL, host->data_dir, &provider->runtimes, err) < 0 ||
        tier_warden_start(provider, err) < 0) {
        close_provider(provider);
        return -1;
    }
    tier_packages_warn(provider);
    *ret_provider = provider;
    return 0;
}

static int process_pid(const struct provider *provider)
{
    return provider->warden == NULL ? 0 : (int)warden_pid(provider->warden);
}

const struct provider_table provider_jail = {
    .name = "jail",
    .tier = ENGINE_TIER_JAIL,
    .runtime = "python3",
    .keeps_images = true,
    .open = open_provider,
    .close = close_provider,
    .process_pid = process_pid,
    .pool = tier_warden_counts,
    .sandbox_create = tier_place_create,
    .sandbox_end = tier_place_end,
    .eval = tier_eval,
    .eval_flow = tier_eval_flow,
    .context = tier_context,
    .exec = tier_exec,
    .exec_write = tier_exec_write,
    .exec_pid = tier_exec_pid,
    .exec_unsent = tier_exec_unsent,
    .exec_close_stdin = tier_exec_close_stdin,
    .exec_signal = tier_exec_signal,
    .exec_resize = tier_exec_resize,
    .exec_flow = tier_exec_flow,
    .exec_free = tier_exec_free,
    .files = tier_files,
    .mark = tier_mark,
    .diff = tier_diff,
    .file_get = tier_file_get,
    .reader_flow = tier_reader_flow,
    .reader_free = tier_reader_free,
    .file_put = tier_file_put,
    .writer_write = tier_writer_write,
    .writer_finish = tier_writer_finish,
    .writer_free = tier_writer_free,
    .watch = tier_file_watch,
    .watcher_free = tier_watcher_free,
    .port = tier_port,
    .pause = pause_place,
    .resume = resume,
    .left_running = tier_left_running,
    .limit = tier_limit,
    .usage = usage,
    .checkpoint = checkpoint,
    .live_take = tier_live_take,
    .live_release = tier_live_release,
    .live_restore = tier_live_restore,
    .live_keep = tier_live_keep,
    .live_size = tier_live_size,
    .live_ref = tier_live_ref,
    .live_free = tier_live_free,
    .rollback = tier_rollback,
    .image_delete = delete_image,
    .has_disks = has_disks,
    .disk_delete = delete_disk,
    .image_disks = tier_layers_each_disk,
    .network = tier_network_set,
    .volume_create = tier_volume_create,
    .volume_exists = tier_volume_exists,
    .volume_delete = tier_volume_delete,
    .snapshot_create = create_snapshot,
    .snapshot_directory = tier_layers_take,
    .snapshot_exists = tier_layers_exist,
    .snapshot_delete = delete_snapshot,
    .reclaim = reclaim,
};
