/* Making sandboxes: the record and the place at the same time, then the answer. */

#include "base/clock.h"
#include "base/id.h"
#include "base/map.h"
#include "config/config.h"
#include "engine/answer.h"
#include "engine/feed_internal.h"
#include "engine/internal.h"
#include "engine/key.h"
#include "engine/network.h"
#include "engine/provider.h"
#include "engine/quota.h"
#include "engine/sandbox/ledger.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/spec.h"
#include "engine/sandbox/turn_internal.h"
#include "engine/sandbox/variables.h"
#include "engine/snapshot/snapshot_internal.h"
#include "engine/volume/volume_internal.h"
#include "store/store.h"

/* A place that leaves a volume syncs what was written, which takes as long as the disk takes. */
enum { SERVED_WAIT_MS = 5000, LEFT_WAIT_MS = 300000, SERVED_STEP_MS = 5 };

struct sandbox *sandbox_new(struct engine *engine, struct str id, struct str tenant)
{
    struct sandbox *sandbox = mem_alloc(sizeof *sandbox);
    sandbox->engine = engine;
    sandbox->last_want = &sandbox->wants;
    sandbox->info.id = arena_dup(&sandbox->arena, id);
    sandbox->info.tenant = arena_dup(&sandbox->arena, tenant);
    sandbox->info.region = engine->config->sandbox.region;
    (void)map_put(&engine->sandboxes, id, sandbox);
    return sandbox;
}

struct sandbox *sandbox_free(struct sandbox *sandbox)
{
    if (sandbox == NULL)
        return NULL;
    VEC_EACH (checkpoint, &sandbox->checkpoints) {
        free(checkpoint->name);
        free(checkpoint->image);
        free(checkpoint->variables);
        (void)variables_free(checkpoint->kept);
    }
    ledger_done(&sandbox->ledger);
    history_done(&sandbox->history);
    vec_done(&sandbox->checkpoints);
    vec_done(&sandbox->shown);
    vec_done(&sandbox->ports);
    vec_done(&sandbox->bases);
    buf_done(&sandbox->network);
    buf_done(&sandbox->image);
    buf_done(&sandbox->skipped);
    arena_done(&sandbox->arena);
    arena_done(&sandbox->labels);
    arena_done(&sandbox->keys);
    (void)network_free(sandbox->net);
    map_done(&sandbox->blocked);
    free(sandbox);
    return NULL;
}

void sandbox_set_network(struct sandbox *sandbox, struct str network)
{
    buf_clear(&sandbox->network);
    buf_put(&sandbox->network, network);
    sandbox->info.network = buf_str(&sandbox->network);
}

void sandbox_set_net(struct sandbox *sandbox, struct network *network)
{
    (void)network_free(sandbox->net);
    sandbox->net = network;
    map_done(&sandbox->blocked);
    sandbox->blocked = (struct map){0};
}

/* --- Filling in --- */

static int64_t time_of(int64_t wanted_ms, int64_t fallback_seconds)
{
    return wanted_ms == -1 ? 0 : wanted_ms != 0 ? wanted_ms : fallback_seconds * 1000;
}

/* Expects a checked spec. */
static int sandbox_make_fill(struct sandbox *sandbox, const struct engine_caller *caller,
                             const struct sandbox_spec *spec, struct err *err)
{
    const struct config *config = sandbox->engine->config;
    struct sandbox_info *info = &sandbox->info;
    AUTO_BUF struct buf policy = {0};
    info->tier = spec_tier(sandbox->engine, spec->tier);
    const struct provider_table *table = engine_table(sandbox->engine, info->tier);
    info->runtime =
        spec->runtime.len > 0 ? arena_dup(&sandbox->arena, spec->runtime) : str_of(table->runtime);
    info->is_runtime_given = spec->runtime.len > 0;
    info->name = arena_dup(&sandbox->labels, spec->name);
    info->metadata = pairs_dup(&spec->metadata, &sandbox->labels);
    info->env = pairs_dup(&spec->env, &sandbox->arena);
    info->requirements =
        spec_dup_texts(spec->requirements, spec->requirement_count, &sandbox->arena);
    info->requirement_count = spec->requirement_count;
    if (spec->volume.len > 0)
        info->volume =
            arena_dup(&sandbox->arena, volume_id(sandbox->engine, caller->tenant, spec->volume));
    info->limits = spec->limits;
    spec_fill_limits(config, info->tier, &info->limits);
    if (spec_policy(caller, spec->network, &policy, err) < 0 ||
        keyring_keep(sandbox->engine, caller->tenant, &spec->secrets, NULL, &sandbox->keys,
                     &info->secrets, err) < 0)
        return -1;
    sandbox_set_network(sandbox, buf_str(&policy));
    info->timeout_ms = time_of(spec->timeout_ms, 0);
    info->idle_ms = time_of(spec->idle_ms, config->sandbox.idle_seconds);
    info->on_timeout = spec->on_timeout;
    time_limit_show(sandbox);
    info->has_turns = spec_has_turns(sandbox->engine, spec, info->tier);
    info->created_ms = info->active_ms = clock_date_ms();
    info->version = 1;
    sandbox->ord = engine_order(sandbox->engine);
    return 0;
}

/* --- The place --- */

static void make_place(struct sandbox *sandbox, struct str image, place_done *done, void *ctx)
{
    struct engine *engine = sandbox->engine;
    const struct sandbox_info *info = &sandbox->info;
    AUTO_ARENA struct arena arena = {0};
    struct err err = {0};
    struct place_spec spec = {.sandbox = info,
                              .image = image,
                              .disk = str_of(sandbox->disk),
                              .is_disk_new = sandbox->is_disk_new,
                              .volume = info->volume,
                              .shown = sandbox->exported,
                              .live = sandbox->live,
                              .snapshot_count = info->snapshot_count};
    struct network_spec net = {info->tenant, info->network, &info->secrets, &info->limits};
    struct network *network = NULL;
    struct provider *provider = NULL;
    struct str *images = arena_array(&arena, struct str, info->snapshot_count + 1);
    spec.snapshot_images = images;
    struct store_batch *batch = store_begin(engine->store);
    int ready = engine_provider(engine, info->tier, &provider, &err);
    if (ready == 0)
        ready = network_new(engine, &net, NULL, &network, &err);
    for (size_t i = 0; ready == 0 && i < info->snapshot_count; i++)
        ready = snapshot_image(engine, info->snapshots[i], &images[i], &err);
    if (ready == 0 && info->volume.len > 0)
        ready = volume_take(engine, info->volume, info->id, batch, &spec.volume_bytes, &spec.fence,
                            &err);
    if (ready < 0) {
        (void)network_free(network);
        (void)store_batch_free(batch);
        done(ctx, NULL, &err);
        return;
    }
    store_commit(batch, STORE_QUICK, NULL, NULL);
    sandbox_set_net(sandbox, network);
    spec.network = network;
    spec.net_moved = sandbox->net_moved;
    engine_table(engine, info->tier)->sandbox_create(provider, &spec, done, ctx);
}

/* Waits for the helper that serves the volume's files to end, or for host groups to be resolved;
 * both are short. */
static bool must_wait(const struct sandbox *sandbox)
{
    return volume_is_served(sandbox->engine, sandbox->info.volume) ||
           network_waits(sandbox->engine, sandbox->info.network);
}

/* The sandbox moves, so it stays. */
struct later {
    struct sandbox *sandbox;
    struct timer *timer;
    struct buf image;
    int64_t since_ms;
    place_done *done;
    void *ctx;
};

static void try_again(void *ctx)
{
    struct later *later = ctx;
    bool is_left = volume_is_left(later->sandbox->engine, later->sandbox->info.volume);
    if (must_wait(later->sandbox) &&
        clock_now_ms() - later->since_ms < (is_left ? LEFT_WAIT_MS : SERVED_WAIT_MS))
        return;
    struct later copy = *later;
    (void)timer_free(later->timer);
    free(later);
    make_place(copy.sandbox, buf_str(&copy.image), copy.done, copy.ctx);
    buf_done(&copy.image);
}

void sandbox_make_place(struct sandbox *sandbox, struct str image, place_done *done, void *ctx)
{
    if (!must_wait(sandbox)) {
        make_place(sandbox, image, done, ctx);
        return;
    }
    struct later *later = mem_alloc(sizeof *later);
    *later = (struct later){.sandbox = sandbox,
                            .timer = timer_new(sandbox->engine->loop, try_again, later),
                            .since_ms = clock_now_ms(),
                            .done = done,
                            .ctx = ctx};
    buf_put(&later->image, image);
    timer_set(later->timer, SERVED_STEP_MS, SERVED_STEP_MS);
}

/* --- Creating --- */

/* Two things are under way: the record is written and the place is made. */
struct making {
    struct sandbox *sandbox;
    making_done *done;
    void *ctx;
    int pending;
    struct err err;
};

static void discard(struct sandbox *sandbox)
{
    struct engine *engine = sandbox->engine;
    struct store_batch *batch = store_begin(engine->store);
    volume_release(engine, sandbox->info.volume, sandbox->info.id, batch);
    key_forget(engine, sandbox->info.tenant, sandbox->info.id, batch);
    store_remove(batch, &store_sandboxes, sandbox->info.id);
    sandbox_commit(sandbox, batch, STORE_QUICK, NULL);
}

static void sandbox_make_ignore(UNUSED void *ctx, UNUSED const struct err *why)
{
}

/* A sandbox that could not be made leaves nothing; requests that wait for it get the reason. */
static void made(struct making *making)
{
    struct sandbox *sandbox = making->sandbox;
    if (sandbox->is_lost && making->err.code == ERR_NONE)
        (void)err_set(&making->err, ERR_UNAVAILABLE, "%s", sandbox->reason);
    const struct err *why = making->err.code == ERR_NONE ? NULL : &making->err;
    if (why == NULL) {
        sandbox->is_disk_new = false;
        sandbox_go(sandbox, SANDBOX_RUNNING, "", NULL);
        making->done(making->ctx, sandbox, NULL);
        free(making);
        return;
    }
    if (sandbox->place != NULL)
        engine_table(sandbox->engine, sandbox->info.tier)
            ->sandbox_end(sandbox->place, false, sandbox_make_ignore, NULL);
    sandbox->place = NULL;
    making->done(making->ctx, NULL, why);
    discard(sandbox);
    sandbox_refuse(sandbox, why, true);
    sandbox_leave(sandbox);
    free(making);
}

static void one_done(struct making *making, const struct err *why)
{
    if (why != NULL && making->err.code == ERR_NONE)
        making->err = *why;
    if (--making->pending == 0)
        made(making);
}

static void sandbox_make_on_recorded(void *ctx, const struct err *why)
{
    one_done(ctx, why);
}

static void on_placed(void *ctx, struct place *place, const struct err *why)
{
    struct making *making = ctx;
    making->sandbox->place = place;
    one_done(making, why);
}

void sandbox_make(struct sandbox *sandbox, const struct engine_caller *caller, struct str image,
                  making_done *done, void *ctx)
{
    struct engine *engine = sandbox->engine;
    struct making *making = mem_alloc(sizeof *making);
    *making = (struct making){.sandbox = sandbox, .done = done, .ctx = ctx, .pending = 2};
    struct store_batch *batch = store_begin(engine->store);
    sandbox_want_disk(sandbox);
    sandbox_save(sandbox, batch);
    key_remember(engine, caller, sandbox->info.id, batch);
    feed_publish(engine, batch, EVENT_SANDBOX_CREATED, sandbox->info.tenant, sandbox->info.id,
                 sandbox->info.id, sandbox_state_name(SANDBOX_CREATING), "");
    store_commit(batch, STORE_QUICK, sandbox_make_on_recorded, making);
    sandbox_make_place(sandbox, image, on_placed, making);
}

int sandbox_from_spec(struct engine *engine, const struct engine_caller *caller,
                      const struct sandbox_spec *spec, struct sandbox **ret_sandbox,
                      struct err *err)
{
    char id[ID_SIZE];
    struct provider *provider = NULL;
    if (spec_check(engine, caller, spec, err) < 0 ||
        engine_provider(engine, spec_tier(engine, spec->tier), &provider, err) < 0 ||
        volume_check(engine, caller, spec->volume, spec_tier(engine, spec->tier), err) < 0)
        return -1;
    struct sandbox_limits limits = spec->limits;
    spec_fill_limits(engine->config, spec_tier(engine, spec->tier), &limits);
    struct engine_quota more = {1, limits.memory_bytes, limits.disk_bytes};
    if (quota_check_count(engine, caller->tenant, QUOTA_SANDBOXES, err) < 0 ||
        quota_check(engine, caller, &more, err) < 0)
        return -1;
    id_new(id);
    struct sandbox *sandbox = sandbox_new(engine, str_of(id), caller->tenant);
    if (sandbox_make_fill(sandbox, caller, spec, err) < 0 ||
        snapshot_resolve(engine, caller, spec, sandbox, err) < 0) {
        (void)map_remove(&engine->sandboxes, str_of(id));
        (void)sandbox_free(sandbox);
        return -1;
    }
    *ret_sandbox = sandbox;
    return 0;
}

static void answer_made(void *ctx, struct sandbox *sandbox, const struct err *why)
{
    struct answer *answer = ctx;
    if (sandbox != NULL)
        (void)snprintf(answer->id, sizeof answer->id, "%.*s", STR_ARG(sandbox->info.id));
    answer_give(answer, why);
}

/* The first call may still be making it. */
struct repeat {
    struct want want;
    struct answer *answer;
};

static void repeat_ready(struct want *want, UNUSED struct sandbox *sandbox, const struct err *why)
{
    struct repeat *repeat = (struct repeat *)want;
    answer_give(repeat->answer, why);
    free(repeat);
}

static void give_known(struct engine *engine, struct answer *answer)
{
    struct sandbox *sandbox = map_get(&engine->sandboxes, str_of(answer->id));
    if (sandbox == NULL) {
        answer_give(answer, NULL); /* it has been deleted since: NOT_FOUND */
        return;
    }
    struct repeat *repeat = mem_alloc(sizeof *repeat);
    repeat->want.call = repeat_ready;
    repeat->answer = answer;
    sandbox_wait(sandbox, &repeat->want);
}

void engine_sandbox_create(struct engine *engine, const struct engine_caller *caller,
                           const struct sandbox_spec *spec, sandbox_done *done, void *ctx)
{
    struct answer *answer = answer_sandbox(engine, done, ctx);
    struct sandbox *sandbox = NULL;
    struct err err = {0};
    struct str first = {0};
    int known = -1;
    if (engine_check_caller(engine, caller, &err) == 0)
        known = key_find(engine, caller, &first, &err);
    if (known > 0) {
        (void)snprintf(answer->id, sizeof answer->id, "%.*s", STR_ARG(first));
        give_known(engine, answer);
    } else if (known < 0 || sandbox_from_spec(engine, caller, spec, &sandbox, &err) < 0) {
        answer_give(answer, &err);
    } else {
        sandbox_make(sandbox, caller, (struct str){0}, answer_made, answer);
    }
}
