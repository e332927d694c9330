/* JavaScript sandboxes: each a worker of its own that holds one isolate. A pause saves the
 * isolate's bytes in a blob. */

#include "base/clock.h"
#include "base/err.h"
#include "base/format/json.h"
#include "base/log.h"
#include "base/map.h"
#include "config/config.h"
#include "egress/gate/gate.h"
#include "egress/gateway/allowance.h"
#include "egress/policy/policy.h"
#include "engine/network.h"
#include "runtime/bridges.h"
#include "store/blobs.h"
#include "tiers/isolate/place.h"

/* --- Services --- */

/* The services borrow what the network holds. */
int isolate_fill_services(struct provider *provider, struct network *network,
                          struct services *services, struct err *err)
{
    const struct config *config = provider->host->config;
    AUTO_BUF struct buf weather = {0};
    buf_put(&weather, config->bridges.weather_url);
    *services = (struct services){.gate = provider->gate};
    services->remedy = "allow it in the sandbox's network policy";
    services->policy = network->policy;
    services->secrets = network->secrets;
    return services_set_weather(services, buf_cstr(&weather), buf_cstr(&provider->private), err);
}

/* --- Places --- */

static char *dup_str(struct str text)
{
    char *copy = mem_alloc(text.len + 1);
    if (text.len > 0)
        memcpy(copy, text.ptr, text.len);
    return copy;
}

static void on_verdict(void *ctx, const struct verdict *verdict, const struct host *host,
                       uint16_t port)
{
    const struct place *place = ctx;
    const struct provider_host *to = place->provider->host;
    if (!verdict_is_allowed(verdict))
        to->on_blocked(to->engine, str_of(place->id), "fetch", host->text, port,
                       verdict_reason_name(verdict->reason), verdict->text);
}

static void isolate_on_moved(void *ctx, int64_t bytes)
{
    const struct place *place = ctx;
    const struct provider_host *to = place->provider->host;
    to->on_moved(to->engine, str_of(place->id), bytes);
}

static void allow(struct place *place, int64_t moved)
{
    struct egress_proxy_limits limits = place->network->limits;
    limits.bytes_before = moved;
    place->allowance = allowance_new(place->provider->host->loop, &limits, isolate_on_moved, place);
    place->services.allowance = place->allowance;
}

static void isolate_create(struct provider *provider, const struct place_spec *spec,
                           place_done *done, void *ctx)
{
    const struct sandbox_info *info = spec->sandbox;
    struct place *place = mem_alloc(sizeof *place);
    struct isolate_op *op = isolate_op_new(provider, place, OP_OPEN, ctx);
    struct err err = {0};
    place->provider = provider;
    place->last_op = &place->ops;
    place->id = dup_str(info->id);
    place->tenant = dup_str(info->tenant);
    place->limits = eval_limits_of(provider->host->config);
    place->limits.memory_bytes = (uint64_t)info->limits.memory_bytes;
    op->place_done = done;
    op->limits = place->limits;
    op->image = arena_dup(&op->arena, spec->image);
    place->network = network_ref(spec->network);
    place->env = pairs_dup(&info->env, &place->arena);
    if (spec->volume.len > 0 || spec->snapshot_count > 0) {
        (void)err_set(&err, ERR_UNSUPPORTED, "a sandbox of the tier 'isolate' has no files");
    } else if (isolate_fill_services(provider, place->network, &place->services, &err) == 0) {
        place->services.on_verdict = on_verdict;
        place->services.verdict_ctx = place;
        allow(place, spec->net_moved);
        isolate_op_enqueue(op);
        return;
    }
    isolate_op_tell(op, NULL, (struct str){0}, &err);
    isolate_op_free(op);
    isolate_place_free(place);
}

static void isolate_end(struct place *place, UNUSED bool keep_image, engine_done *done, void *ctx)
{
    struct err err = {0};
    (void)err_set(&err, ERR_GONE, "the sandbox ended");
    while (place->ops != NULL) {
        struct isolate_op *op = place->ops;
        place->ops = op->next;
        isolate_op_tell(op, NULL, (struct str){0}, &err);
        op->is_orphan = true;
        op->place = NULL;
        if (!op->is_awaited)
            isolate_op_free(op);
    }
    isolate_place_free(place);
    done(ctx, NULL);
}

/* Calls under way hold the old one until they end. */
static void set_network(struct place *place, struct network *network, engine_done *done, void *ctx)
{
    struct services fresh = {0};
    struct err err = {0};
    if (isolate_fill_services(place->provider, network, &fresh, &err) < 0) {
        done(ctx, &err);
        return;
    }
    fresh.on_verdict = on_verdict;
    fresh.verdict_ctx = place;
    fresh.hints = place->services.hints;
    fresh.allowance = place->allowance;
    allowance_set_limits(place->allowance, &network->limits);
    services_done(&place->services);
    place->services = fresh;
    *vec_push(&place->old) = place->network;
    place->network = network_ref(network);
    if (place->ops == NULL)
        isolate_place_drop_old(place);
    done(ctx, NULL);
}

static void take_picture(struct place *place, enum op_kind kind, image_done *done, void *ctx)
{
    struct isolate_op *op = isolate_op_new(place->provider, place, kind, ctx);
    op->image_done = done;
    isolate_op_enqueue(op);
}

static void pause_place(struct place *place, image_done *done, void *ctx)
{
    take_picture(place, OP_PAUSE, done, ctx);
}

static void isolate_checkpoint(struct place *place, image_done *done, void *ctx)
{
    take_picture(place, OP_SHOOT, done, ctx);
}

static void go_back(struct place *place, enum op_kind kind, struct str image, engine_done *done,
                    void *ctx)
{
    struct isolate_op *op = isolate_op_new(place->provider, place, kind, ctx);
    op->plain_done = done;
    op->image = arena_dup(&op->arena, image);
    op->limits = place->limits;
    isolate_op_enqueue(op);
}

static void isolate_rollback(struct place *place, struct str image, UNUSED struct str disk,
                             engine_done *done, void *ctx)
{
    go_back(place, OP_ROLLBACK, image, done, ctx);
}

static void resume(struct place *place, engine_done *done, void *ctx)
{
    go_back(place, OP_RESUME, buf_str(&place->image), done, ctx);
}

/* --- Opening --- */

static void on_process_gone(void *ctx, const struct err *why)
{
    struct provider *provider = ctx;
    provider->host->on_process_gone(provider->host->engine, ENGINE_TIER_ISOLATE, why);
}

static void close_provider(struct provider *provider)
{
    isolate_singles_end(provider);
    if (provider->leases != NULL)
        leases_close(provider->leases);
    (void)gate_free(provider->gate);
    buf_done(&provider->dns_servers);
    buf_done(&provider->ca_file);
    buf_done(&provider->private);
    free(provider);
}

static int open_provider(const struct provider_host *host, struct provider **ret_provider,
                         struct err *err)
{
    static const struct leases_calls calls = {on_process_gone};
    const struct config_egress *egress = &host->config->egress;
    struct provider *provider = mem_alloc(sizeof *provider);
    provider->host = host;
    buf_put_joined(&provider->dns_servers, egress->dns_servers.items, egress->dns_servers.len, ",");
    buf_put_joined(&provider->private, egress->private.items, egress->private.len, ",");
    buf_put(&provider->ca_file, egress->ca_file);
    provider->gate_options.dns_servers =
        provider->dns_servers.len > 0 ? buf_cstr(&provider->dns_servers) : NULL;
    provider->gate_options.ca_file =
        provider->ca_file.len > 0 ? buf_cstr(&provider->ca_file) : NULL;
    if (gate_open(host->loop, &provider->gate_options, &provider->gate, err) < 0 ||
        leases_open(host, &calls, provider, &provider->leases, err) < 0) {
        close_provider(provider);
        return -1;
    }
    *ret_provider = provider;
    return 0;
}

static void pool(struct provider *provider, struct pool_figures *ret_figures)
{
    *ret_figures = leases_pool(provider->leases);
}

const struct provider_table provider_isolate = {
    .name = "isolate",
    .tier = ENGINE_TIER_ISOLATE,
    .runtime = "js",
    .keeps_images = true,
    .open = open_provider,
    .close = close_provider,
    .pool = pool,
    .sandbox_create = isolate_create,
    .sandbox_end = isolate_end,
    .eval = isolate_eval,
    .context = isolate_context,
    .pause = pause_place,
    .resume = resume,
    .checkpoint = isolate_checkpoint,
    .rollback = isolate_rollback,
    .network = set_network,
};
