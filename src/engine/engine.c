/* The engine as a whole: opened from the store, ticking, stopped in good order. */

#include "engine/engine.h"

#include "base/clock.h"
#include "base/crypto/secret.h"
#include "base/log.h"
#include "base/map.h"
#include "config/config.h"
#include "engine/answer.h"
#include "engine/approval/approval_internal.h"
#include "engine/command/command_internal.h"
#include "engine/feed_internal.h"
#include "engine/internal.h"
#include "engine/key.h"
#include "engine/network.h"
#include "engine/provider.h"
#include "engine/sandbox/ledger.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/variables.h"
#include "engine/session/session_internal.h"
#include "engine/snapshot/snapshot_build.h"
#include "engine/snapshot/snapshot_internal.h"
#include "engine/volume/volume_internal.h"
#include "io/pool.h"
#include "store/store.h"

enum {
    TICK_MS = 200,
    SWEEP_MS = 60000, /* TTLs of volumes, commands, keys; blobs */
    POOL_THREADS = 4,
    POOL_QUEUE = 4096,
    STOP_TICK_MS = 5,
    FREE_WAIT_MS = 5000,
    ALIVE_MS = 2000
};

/* --- For the nouns --- */

int64_t engine_order(struct engine *engine)
{
    return ++engine->last_order;
}

const struct provider_table *engine_table(const struct engine *engine, enum engine_tier tier)
{
    return engine->tables[tier];
}

int engine_provider(struct engine *engine, enum engine_tier tier, struct provider **ret_provider,
                    struct err *err)
{
    if (engine->tables[tier] == NULL)
        return err_set(err, ERR_UNSUPPORTED, "the tier '%s' is not available on this server",
                       engine_tier_name(tier));
    if (engine->providers[tier] == NULL)
        return err_set(err, ERR_UNAVAILABLE, "the tier '%s' cannot be used: %s",
                       engine_tier_name(tier), engine->provider_whys[tier].msg);
    *ret_provider = engine->providers[tier];
    return 0;
}

int engine_unsupported(enum engine_tier tier, const char *verb, struct err *err)
{
    return err_set(err, ERR_UNSUPPORTED, "a sandbox of the tier '%s' cannot %s",
                   engine_tier_name(tier), verb);
}

int engine_check_caller(const struct engine *engine, const struct engine_caller *caller,
                        struct err *err)
{
    loop_assert(engine->loop);
    if (engine->is_stopping)
        return err_set(err, ERR_UNAVAILABLE, "the server is stopping");
    if (caller->tenant.len == 0 || str_find_char(caller->tenant, '\n') != caller->tenant.len)
        return err_set(err, ERR_INVALID, "the token belongs to no tenant");
    return 0;
}

/* --- News from below --- */

static void engine_on_gone(struct engine *engine, struct str id, const struct err *why)
{
    struct sandbox *sandbox = map_get(&engine->sandboxes, id);
    if (sandbox != NULL && sandbox->place != NULL)
        sandbox_lost(sandbox, SANDBOX_FAILED, why);
}

static void on_process_gone(struct engine *engine, enum engine_tier tier, const struct err *why)
{
    struct err err = {0};
    engine->figures.processes_lost++;
    log_error("provider.gone", LOG_STR("tier", engine_tier_name(tier)), LOG_STR("error", why->msg));
    (void)err_set(&err, ERR_UNAVAILABLE,
                  "the process that runs the sandboxes of this tier died: %s", why->msg);
    variables_drop(engine, tier);
    MAP_EACH (entry, &engine->sandboxes) {
        struct sandbox *sandbox = entry->value;
        if (sandbox->info.tier == tier && sandbox->place != NULL)
            sandbox_lost(sandbox, SANDBOX_INTERRUPTED, &err);
    }
}

static void on_retry(struct engine *engine)
{
    engine->figures.retries_run++;
}

/* --- Time --- */

static void on_tick(void *ctx)
{
    struct engine *engine = ctx;
    int64_t now = clock_boot_ms();
    MAP_EACH (entry, &engine->sandboxes)
        sandbox_tick(entry->value, now);
    sandbox_remove_again(engine);
    session_tick(engine, now);
    volume_sweep(engine, now);
    command_tick(engine);
    approval_tick(engine);
    if (now >= engine->next_alive_ms) {
        engine->next_alive_ms = now + ALIVE_MS;
        store_mark_alive(engine->store);
    }
    if (now < engine->next_sweep_ms)
        return;
    engine->next_sweep_ms = now + SWEEP_MS;
    key_sweep(engine);
    command_sweep(engine);
    sandbox_retain(engine);
    approval_sweep(engine);
    engine_sweep_blobs(engine);
}

/* --- Opening --- */

static void open_providers(struct engine *engine, const struct provider_table *const *tables)
{
    for (unsigned tier = 0; tier < ENGINE_TIER_COUNT; tier++) {
        engine->tables[tier] = tables[tier];
        if (tables[tier] == NULL)
            continue;
        struct err *why = &engine->provider_whys[tier];
        if (tables[tier]->open(&engine->host, &engine->providers[tier], why) < 0) {
            engine->providers[tier] = NULL;
            log_warn("provider.unavailable", LOG_STR("tier", tables[tier]->name),
                     LOG_STR("error", why->msg));
        }
    }
}

static int engine_load(struct engine *engine, struct err *err)
{
    return store_last_event(engine->store, &engine->last_seq, err) < 0 ||
                   key_load(engine, err) < 0 || volume_load(engine, err) < 0 ||
                   snapshot_load(engine, err) < 0 || session_load(engine, err) < 0 ||
                   sandbox_load(engine, err) < 0 || command_load(engine, err) < 0 ||
                   token_load(engine, err) < 0 || approval_load(engine, err) < 0
               ? -1
               : 0;
}

static void log_warning(UNUSED void *ctx, struct str text)
{
    log_warn("config.warning", LOG_VIEW("detail", text));
}

int engine_open(struct loop *loop, const struct engine_options *options, struct engine **ret_engine,
                struct err *err)
{
    AUTO(engine_freep) struct engine *engine = mem_alloc(sizeof *engine);
    engine->loop = loop;
    engine->config = options->config;
    engine->data_dir = mem_dup_cstr(options->data_dir);
    if (store_open(loop, options->data_dir, &engine->store, err) < 0 ||
        pool_open(loop, POOL_THREADS, POOL_QUEUE, &engine->pool, err) < 0)
        return -1;
    engine->host = (struct provider_host){
        .loop = loop,
        .pool = engine->pool,
        .store = engine->store,
        .config = engine->config,
        .data_dir = engine->data_dir,
        .program = options->program == NULL ? "/proc/self/exe" : options->program,
        .engine = engine,
        .on_gone = engine_on_gone,
        .on_process_gone = on_process_gone,
        .on_blocked = network_blocked,
        .on_moved = network_moved,
        .on_state_begun = ledger_on_begun,
        .on_state_restored = ledger_on_restored,
        .on_state_lost = ledger_on_lost,
        .on_stand = sandbox_stand,
        .on_skipped = sandbox_skipped,
        .on_retry = on_retry,
        .each_image = engine_each_image,
        .each_disk = engine_each_disk,
    };
    engine->groups = network_groups_new(engine);
    open_providers(engine, options->tiers);
    if (engine_load(engine, err) < 0)
        return err_wrap(err, "read the store");
    engine_each_warning(engine, log_warning, NULL);
    engine_reconcile(engine);
    snapshot_build_configured(engine);
    docs_open_service(engine);
    engine->tick = timer_new(loop, on_tick, engine);
    timer_set(engine->tick, TICK_MS, TICK_MS);
    *ret_engine = engine;
    engine = NULL;
    return 0;
}

int engine_tier_process_pid(const struct engine *engine, enum engine_tier tier)
{
    const struct provider_table *table = engine->tables[tier];
    return table == NULL || table->process_pid == NULL || engine->providers[tier] == NULL
               ? 0
               : table->process_pid(engine->providers[tier]);
}

const struct engine_dependencies *engine_dependencies(const struct engine *engine)
{
    return &engine->dependencies;
}

bool engine_is_ready(const struct engine *engine, struct buf *ret_why)
{
    if (engine->is_stopping)
        buf_put_cstr(ret_why, "the server is stopping");
    else if (engine->reclaiming > 0)
        buf_put_cstr(ret_why, "cleaning up what the previous run of the server left behind");
    else if (engine->not_ready[0] != '\0')
        buf_put_cstr(ret_why, engine->not_ready);
    return ret_why->len == 0;
}

/* --- Closing --- */

static bool nothing_moves(const struct engine *engine)
{
    MAP_EACH (entry, &engine->sandboxes)
        if (sandbox_is_moving(((const struct sandbox *)entry->value)->info.state))
            return false;
    return true;
}

static bool is_still(const struct engine *engine)
{
    MAP_EACH (entry, &engine->sandboxes)
        if (((const struct sandbox *)entry->value)->info.state == SANDBOX_RUNNING)
            return false;
    return nothing_moves(engine);
}

/* Running ones are paused where that keeps more than an interruption would; the others end. One
 * that runs on because it could not be paused is not asked a second time: the cause may last. */
static void put_aside(struct sandbox *sandbox)
{
    const struct provider_table *table = engine_table(sandbox->engine, sandbox->info.tier);
    struct err err = {0};
    if (sandbox->info.state != SANDBOX_RUNNING)
        return;
    if (table->pause != NULL && table->keeps_images && !sandbox->is_put_aside &&
        !sandbox->is_helper) {
        sandbox->is_put_aside = true;
        sandbox_begin_pause(sandbox, NULL);
        return;
    }
    (void)err_set(&err, ERR_UNAVAILABLE, "the server stopped");
    sandbox_lost(sandbox, SANDBOX_INTERRUPTED, &err);
}

/* Also those that have come to run, or run on, since the last look. */
static void on_stop_tick(void *ctx)
{
    struct engine *engine = ctx;
    MAP_EACH (entry, &engine->sandboxes)
        put_aside(entry->value);
    if (!is_still(engine))
        return;
    timer_clear(engine->tick);
    answer_give(engine->stop_answer, NULL);
    engine->stop_answer = NULL;
}

void engine_stop(struct engine *engine, engine_done *done, void *ctx)
{
    loop_assert(engine->loop);
    struct answer *answer = answer_plain(engine, done, ctx);
    if (engine->is_stopping) {
        answer_fail(answer, ERR_CONFLICT, "the engine is already stopping");
        return;
    }
    engine->is_stopping = true;
    engine->stop_answer = answer;
    feed_close(engine);
    MAP_EACH (entry, &engine->sandboxes) {
        sandbox_save_again(entry->value);
        put_aside(entry->value);
    }
    sandbox_remove_again(engine);
    command_save_again(engine);
    (void)timer_free(engine->tick);
    engine->tick = timer_new(engine->loop, on_stop_tick, engine);
    timer_set(engine->tick, STOP_TICK_MS, STOP_TICK_MS);
}

static void engine_ignore(UNUSED void *ctx, UNUSED const struct err *why)
{
}

/* Paused sandboxes with saved files stay paused; the others are interrupted. */
static void end_places(struct engine *engine)
{
    struct err err = {0};
    (void)err_set(&err, ERR_UNAVAILABLE, "the server stopped");
    MAP_EACH (entry, &engine->sandboxes) {
        struct sandbox *sandbox = entry->value;
        struct place *place = sandbox->place;
        if (place != NULL && sandbox->info.state == SANDBOX_PAUSED &&
            (sandbox->image.len > 0 || sandbox->disk[0] != '\0')) {
            sandbox->place = NULL;
            engine_table(engine, sandbox->info.tier)->sandbox_end(place, true, engine_ignore, NULL);
        } else if (place != NULL) {
            sandbox_lost(sandbox, SANDBOX_INTERRUPTED, &err);
        }
    }
}

/* Waits for all operations in progress, so that no call-back comes after this. */
static void wait_until_still(struct engine *engine)
{
    int64_t until = clock_now_ms() + FREE_WAIT_MS;
    while (engine->reclaiming > 0 || !nothing_moves(engine)) {
        (void)loop_step(engine->loop);
        if (clock_now_ms() > until)
            break;
    }
}

struct engine *engine_free(struct engine *engine)
{
    if (engine == NULL)
        return NULL;
    engine->is_stopping = true;
    (void)timer_free(engine->tick);
    wait_until_still(engine);
    end_places(engine);
    for (unsigned tier = 0; tier < ENGINE_TIER_COUNT; tier++) {
        variables_drop(engine, (enum engine_tier)tier);
        if (engine->providers[tier] != NULL)
            engine->tables[tier]->close(engine->providers[tier]);
        engine->providers[tier] = NULL; /* what the store still answers finds none */
    }
    engine->groups = network_groups_free(engine->groups);
    docs_close_service(engine);
    zone_done_all(engine);
    (void)pool_free(engine->pool);
    answer_give(engine->stop_answer, NULL);
    (void)store_free(engine->store);
    while (engine->answers > 0)
        loop_run_posted(engine->loop);
    while (engine->readers != NULL)
        (void)feed_reader_free(engine->readers);
    MAP_EACH (entry, &engine->sandboxes)
        (void)sandbox_free(entry->value);
    map_done(&engine->sandboxes);
    for (struct sandbox *next = engine->leaving; next != NULL;) {
        struct sandbox *sandbox = next;
        next = sandbox->next_leaving;
        (void)sandbox_free(sandbox);
    }
    VEC_EACH (id, &engine->unremoved)
        free(*id);
    vec_done(&engine->unremoved);
    command_done_all(engine);
    token_done_all(engine);
    approval_done_all(engine);
    session_done_all(engine);
    volume_done_all(engine);
    vec_done(&engine->kept);
    snapshot_done_all(engine);
    key_done(engine);
    (void)secret_free(engine->seal_key);
    free(engine->data_dir);
    free(engine);
    return NULL;
}
