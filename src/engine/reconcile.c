/* The first thing a new run does: what the store says against what is there. */

#include "base/log.h"
#include "engine/internal.h"
#include "store/blobs.h"

static void on_reclaimed(void *ctx, const struct err *why)
{
    struct engine *engine = ctx;
    if (why != NULL)
        log_error("reconcile.reclaim", LOG_STR("error", why->msg));
    if (--engine->reclaiming == 0)
        log_info("reconcile.done");
}

/* No place outlives the run that made it, so whatever was not at rest was interrupted. What was
 * put aside can go on; a state that only memory held cannot. */
static void settle(struct sandbox *sandbox, struct store_batch *batch)
{
    struct engine *engine = sandbox->engine;
    enum sandbox_state was = sandbox->info.state;
    if (was == SANDBOX_STOPPED || was == SANDBOX_FAILED || was == SANDBOX_INTERRUPTED)
        return;
    if (was == SANDBOX_PAUSED && sandbox->image.len > 0)
        return;
    if (was == SANDBOX_STOPPING) {
        sandbox_move(sandbox, SANDBOX_STOPPED, "", batch);
        sandbox_drop_images(sandbox);
    } else {
        sandbox_move(sandbox, SANDBOX_INTERRUPTED, "the server ended while it was there", batch);
    }
    session_sandbox_ended(engine, sandbox, batch);
    log_info("reconcile.sandbox", LOG_VIEW("sandbox", sandbox->info.id),
             LOG_STR("was", sandbox_state_name(was)),
             LOG_STR("is", sandbox_state_name(sandbox->info.state)));
}

static void keep(struct store_hashes *kept, const char *image)
{
    if (image[0] != '\0')
        *vec_push(&kept->list) = mem_dup_cstr(image);
}

/* What no row names goes, once it is older than the grace time: a blob is put first and named
 * after. */
void engine_sweep_blobs(struct engine *engine)
{
    struct store_hashes kept = {0};
    MAP_EACH (entry, &engine->sandboxes) {
        const struct sandbox *sandbox = entry->value;
        keep(&kept, buf_cstr(&sandbox->image));
        VEC_EACH (checkpoint, &sandbox->checkpoints)
            keep(&kept, checkpoint->image);
    }
    snapshot_keep_images(engine, &kept);
    store_sweep_blobs(engine->store, &kept, STORE_BLOB_GRACE_MS, NULL, NULL);
}

void engine_each_image(const struct engine *engine, enum engine_tier tier,
                       void (*call)(void *ctx, struct str image), void *ctx)
{
    MAP_EACH (entry, &engine->sandboxes) {
        const struct sandbox *sandbox = entry->value;
        if (sandbox->info.tier != tier)
            continue;
        call(ctx, buf_str(&sandbox->image));
        VEC_EACH (checkpoint, &sandbox->checkpoints)
            call(ctx, str_of(checkpoint->image));
    }
    snapshot_each_image(engine, tier, call, ctx);
}

void engine_reconcile(struct engine *engine)
{
    struct store_batch *batch = store_begin(engine->store);
    volume_reconcile(engine, batch);
    MAP_EACH (entry, &engine->sandboxes)
        settle(entry->value, batch);
    command_reconcile(engine, batch);
    snapshot_reconcile(engine, batch);
    store_commit(batch, STORE_QUICK, NULL, NULL);
    engine->reclaiming = 1;
    for (unsigned tier = 0; tier < ENGINE_TIER_COUNT; tier++) {
        if (engine->providers[tier] == NULL || engine->tables[tier]->reclaim == NULL)
            continue;
        engine->reclaiming++;
        engine->tables[tier]->reclaim(engine->providers[tier], &engine->sandboxes, &engine->volumes,
                                      &engine->snapshots, on_reclaimed, engine);
    }
    on_reclaimed(engine, NULL);
}
