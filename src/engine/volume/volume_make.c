/* Creates a volume: first its directory, then the row that names it, then the answer. */

#include "base/clock.h"
#include "base/id.h"
#include "base/map.h"
#include "base/sys.h"
#include "config/config.h"
#include "engine/answer.h"
#include "engine/feed_internal.h"
#include "engine/internal.h"
#include "engine/key.h"
#include "engine/quota.h"
#include "engine/sandbox/spec.h"
#include "engine/volume/volume.h"
#include "engine/volume/volume_internal.h"
#include "store/store.h"

struct making {
    struct volume *volume;
    volume_made *done;
    void *ctx;
    struct key_claim *claim;
};

static void on_written(void *ctx, const struct err *why)
{
    struct making *making = ctx;
    struct volume *volume = making->volume;
    if (why != NULL) {
        (void)map_remove(&volume->engine->volumes, volume->info.id);
        making->done(making->ctx, (struct str){0}, why);
        (void)volume_free(volume); /* its directory goes at the next start */
    } else {
        CRASH_POINT("engine.volume.recorded");
        making->done(making->ctx, volume->info.id, NULL);
    }
    free(making);
}

/* One that has no directory yet is in no table, but it counts, and has its name. */
static bool is_being_made(const struct engine *engine, struct str tenant, struct str name)
{
    for (const struct volume *volume = engine->volumes_coming; volume != NULL;
         volume = volume->next_coming)
        if (str_eq(volume->info.name, name) && str_eq(volume->info.tenant, tenant))
            return true;
    return false;
}

static void leave_coming(struct volume *volume)
{
    struct volume **at = &volume->engine->volumes_coming;
    while (*at != volume)
        at = &(*at)->next_coming;
    *at = volume->next_coming;
}

/* First the directory, then the row that names it: a row always has its directory. */
static void on_made(void *ctx, const struct err *why)
{
    struct making *making = ctx;
    struct volume *volume = making->volume;
    CRASH_POINT("engine.volume.made");
    leave_coming(volume);
    if (why != NULL) {
        making->done(making->ctx, (struct str){0}, why);
        (void)volume_free(volume);
        free(making);
        return;
    }
    (void)map_put(&volume->engine->volumes, volume->info.id, volume);
    struct store_batch *batch = store_begin(volume->engine->store);
    volume_save(volume, batch);
    key_keep(making->claim, volume->info.id, batch);
    feed_publish(volume->engine, batch, EVENT_VOLUME_CREATED, volume->info.tenant, volume->info.id,
                 (struct str){0}, "", "");
    store_commit(batch, STORE_DURABLE, on_written, making);
}

static int check_spec(struct engine *engine, const struct engine_caller *caller,
                      const struct volume_spec *spec, enum engine_tier tier, struct err *err)
{
    struct err none = {0};
    if (engine_table(engine, tier)->volume_create == NULL)
        return engine_unsupported(tier, "have a volume", err);
    if (spec->capacity_bytes != 0 &&
        (spec->capacity_bytes < (1 << 20) || spec->capacity_bytes > (1LL << 44)))
        return err_set(err, ERR_INVALID, "capacityBytes: must be between 1 MiB and 16 TiB");
    if (spec_check_metadata(&spec->metadata, err) < 0 ||
        spec_check_time(MIN(spec->ttl_ms, (int64_t)86400000), "ttlMs", err) < 0)
        return -1;
    if (spec->name.len > 0 && (volume_find(engine, caller->tenant, spec->name, &none) != NULL ||
                               is_being_made(engine, caller->tenant, spec->name)))
        return err_set(err, ERR_CONFLICT, "volume '%.*s' already exists", STR_ARG(spec->name));
    return 0;
}

static struct volume *new_volume(struct engine *engine, struct str tenant,
                                 const struct volume_spec *spec, struct str session,
                                 int64_t capacity_bytes)
{
    const struct config_sandbox *config = &engine->config->sandbox;
    char id[ID_SIZE];
    id_new(id);
    struct volume *volume = volume_new(engine, str_of(id), tenant, spec->name, session);
    volume->info.region = arena_dup(&volume->arena, config->region);
    volume->info.tier = spec_tier(engine, spec->tier);
    volume->info.capacity_bytes = capacity_bytes;
    volume->info.metadata = pairs_dup(&spec->metadata, &volume->arena);
    volume->info.ttl_ms = MAX(spec->ttl_ms, (int64_t)0);
    volume->info.created_ms = volume->info.used_ms = clock_date_ms();
    volume->used_at = clock_boot_ms();
    volume->ord = engine_order(engine);
    return volume;
}

int volume_make(struct engine *engine, const struct engine_caller *caller,
                const struct volume_spec *spec, struct str session, struct key_claim *claim,
                volume_made *done, void *ctx, struct err *err)
{
    enum engine_tier tier = spec_tier(engine, spec->tier);
    struct provider *provider = NULL;
    struct engine_quota more = {.disk_bytes = spec->capacity_bytes};
    if (more.disk_bytes == 0)
        more.disk_bytes = engine->config->sandbox.volume_capacity_mb << 20;
    if (engine_check_name(spec->name, "name", err) < 0 ||
        engine_provider(engine, tier, &provider, err) < 0 ||
        check_spec(engine, caller, spec, tier, err) < 0 ||
        quota_check_count(engine, caller->tenant, QUOTA_VOLUMES, err) < 0 ||
        quota_check(engine, caller, &more, err) < 0)
        return -1;
    struct volume *volume = new_volume(engine, caller->tenant, spec, session, more.disk_bytes);
    struct making *making = mem_alloc(sizeof *making);
    *making = (struct making){volume, done, ctx, claim};
    volume->next_coming = engine->volumes_coming;
    engine->volumes_coming = volume;
    engine_table(engine, tier)
        ->volume_create(provider, volume->info.id, volume->info.capacity_bytes, on_made, making);
    return 0;
}

static void deliver(struct answer *answer, const struct err *why)
{
    const struct volume *volume =
        why == NULL ? map_get(&answer->engine->volumes, str_of(answer->id)) : NULL;
    struct volume_info info = {0};
    if (volume != NULL)
        info = volume_view(volume);
    answer->done.volume(answer->ctx, why == NULL ? &info : NULL, why);
}

static void answer_made(void *ctx, struct str id, const struct err *why)
{
    struct answer *answer = ctx;
    (void)snprintf(answer->id, sizeof answer->id, "%.*s", STR_ARG(id));
    answer_give(answer, why);
}

static bool is_there(struct engine *engine, struct str id)
{
    return map_has(&engine->volumes, id);
}

static void tell_known(struct answer *answer, struct str id)
{
    (void)snprintf(answer->id, sizeof answer->id, "%.*s", STR_ARG(id));
}

void engine_volume_create(struct engine *engine, const struct engine_caller *caller,
                          const struct volume_spec *spec, volume_done *done, void *ctx)
{
    struct answer *answer = answer_new(engine, deliver, ctx);
    struct err err = {0};
    int known = -1;
    answer->done.volume = done;
    if (engine_check_caller(engine, caller, &err) == 0)
        known = answer_claim(answer, caller, is_there, tell_known, &err);
    if (known < 0 || (known == 0 && volume_make(engine, caller, spec, (struct str){0},
                                                answer->claim, answer_made, answer, &err) < 0))
        answer_give(answer, &err);
}
