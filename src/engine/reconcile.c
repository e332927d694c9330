/* Reconciles the store with what exists on this host; the first thing that a new run of the server
 * does. */

#include "base/log.h"
#include "base/map.h"
#include "engine/command/command_internal.h"
#include "engine/internal.h"
#include "engine/key.h"
#include "engine/sandbox/ledger.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/turn_internal.h"
#include "engine/session/session_internal.h"
#include "engine/snapshot/snapshot_internal.h"
#include "engine/volume/volume_internal.h"
#include "store/blobs.h"
#include "store/store.h"

static void on_reclaimed(void *ctx, const struct err *why)
{
    struct engine *engine = ctx;
    if (why != NULL)
        log_error("reconcile.reclaim", LOG_STR("error", why->msg));
    if (--engine->reclaiming == 0)
        log_info("reconcile.done");
}

/* No place outlives the run of the server that made it, so sandboxes that were neither paused nor
 * ended were interrupted. Saved ones can continue; a state that was only in memory cannot. */
static void reconcile_settle(struct sandbox *sandbox, struct store_batch *batch)
{
    struct engine *engine = sandbox->engine;
    enum sandbox_state was = sandbox->info.state;
    if (was == SANDBOX_STOPPED || was == SANDBOX_FAILED || was == SANDBOX_INTERRUPTED)
        return;
    bool is_kept = was == SANDBOX_PAUSED && (sandbox->image.len > 0 || sandbox->disk[0] != '\0');
    /* The image of an isolate has its variables, the one of a jail has none. */
    struct loss loss = ledger_loss_now(LOSS_RESTART);
    if (!(is_kept && sandbox->info.tier == ENGINE_TIER_ISOLATE) &&
        ledger_lose_all(&sandbox->ledger, &loss) && is_kept)
        sandbox_save(sandbox, batch);
    if (is_kept)
        return;
    if (was == SANDBOX_STOPPING) {
        sandbox_move(sandbox, SANDBOX_STOPPED, "", batch);
        sandbox_drop_images(sandbox);
    } else {
        sandbox_move(sandbox, SANDBOX_INTERRUPTED, "the server ended while the sandbox existed",
                     batch);
    }
    session_sandbox_ended(engine, sandbox, batch);
    log_info("reconcile.sandbox", LOG_VIEW("sandbox", sandbox->info.id),
             LOG_STR("was", sandbox_state_name(was)),
             LOG_STR("is", sandbox_state_name(sandbox->info.state)));
}

static void reconcile_keep(struct store_hashes *kept, const char *image)
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
        reconcile_keep(&kept, buf_cstr(&sandbox->image));
        VEC_EACH (checkpoint, &sandbox->checkpoints)
            reconcile_keep(&kept, checkpoint->image);
        history_keep_blobs(&sandbox->history, &kept);
    }
    MAP_EACH (entry, &engine->sessions)
        history_keep_blobs(&((const struct session *)entry->value)->history, &kept);
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

void engine_each_disk(const struct engine *engine, enum engine_tier tier,
                      void (*call)(void *ctx, struct str disk, struct str image), void *ctx)
{
    MAP_EACH (entry, &engine->sandboxes) {
        const struct sandbox *sandbox = entry->value;
        if (sandbox->info.tier == tier && sandbox->disk[0] != '\0')
            call(ctx, str_of(sandbox->disk), buf_str(&sandbox->image));
    }
}

void engine_reconcile(struct engine *engine)
{
    struct store_batch *batch = store_begin(engine->store);
    volume_reconcile(engine, batch);
    MAP_EACH (entry, &engine->sandboxes)
        reconcile_settle(entry->value, batch);
    command_reconcile(engine, batch);
    snapshot_reconcile(engine, batch);
    key_reconcile(engine, batch);
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
