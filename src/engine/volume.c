/* Volumes: directories that outlive sandboxes, one writer at a time, gone after their time. */

#include "engine/volume.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "engine/config.h"
#include "engine/internal.h"

struct volume {
    struct volume *next_coming; /* of engine->volumes_coming */
    struct engine *engine;
    struct volume_info info;
    struct arena arena;
    char sandbox[ID_SIZE];
    int64_t ord;
    int64_t used_at; /* on the boot clock */
    bool is_deleting;
};

static struct volume *volume_new(struct engine *engine, struct str id, struct str tenant,
                                 struct str name, struct str session)
{
    struct volume *volume = mem_alloc(sizeof *volume);
    volume->engine = engine;
    volume->info.id = arena_dup(&volume->arena, id);
    volume->info.tenant = arena_dup(&volume->arena, tenant);
    volume->info.name = arena_dup(&volume->arena, name);
    volume->info.session = arena_dup(&volume->arena, session);
    return volume;
}

static struct volume *volume_free(struct volume *volume)
{
    if (volume != NULL) {
        arena_done(&volume->arena);
        free(volume);
    }
    return NULL;
}

void volume_done_all(struct engine *engine)
{
    MAP_EACH (entry, &engine->volumes)
        (void)volume_free(entry->value);
    map_done(&engine->volumes);
}

/* --- The store --- */

static void save(const struct volume *volume, struct store_batch *batch)
{
    const struct volume_info *info = &volume->info;
    AUTO_BUF struct buf slug = {0};
    buf_printf(&slug, "vol-%.*s", STR_ARG(info->id));
    store_put(batch, &store_session_volumes,
              &(struct store_volume){
                  .id = info->id,
                  .tenant = info->tenant,
                  .ord = volume->ord,
                  .name = info->name,
                  .session = info->session,
                  .slug = buf_str(&slug),
                  .region = info->region,
                  .tier = str_of(engine_tier_name(info->tier)),
                  .sandbox = str_of(volume->sandbox),
                  .fence = (int64_t)info->fence,
                  .capacity_bytes = info->capacity_bytes,
                  .ttl_ms = info->ttl_ms,
                  .created_ms = info->created_ms,
                  .used_ms = info->used_ms,
              });
}

static void load(void *ctx, const void *data)
{
    struct engine *engine = ctx;
    const struct store_volume *row = data;
    struct volume *volume = volume_new(engine, row->id, row->tenant, row->name, row->session);
    if (!engine_tier_of_name(row->tier, &volume->info.tier))
        volume->info.tier = ENGINE_TIER_MEMORY;
    (void)snprintf(volume->sandbox, sizeof volume->sandbox, "%.*s", STR_ARG(row->sandbox));
    volume->info.region = arena_dup(&volume->arena, row->region);
    volume->info.capacity_bytes = row->capacity_bytes;
    volume->info.ttl_ms = row->ttl_ms;
    volume->info.created_ms = row->created_ms;
    volume->info.used_ms = row->used_ms;
    volume->info.fence = (uint64_t)row->fence;
    volume->ord = row->ord;
    /* Its time went on while nobody was here to count. */
    int64_t age = MAX(clock_date_ms() - row->used_ms, (int64_t)0);
    volume->used_at = clock_boot_ms() - age;
    engine->last_order = MAX(engine->last_order, row->ord);
    (void)map_put(&engine->volumes, row->id, volume);
}

int volume_load(struct engine *engine, struct err *err)
{
    return store_each(engine->store, &store_session_volumes, load, engine, err);
}

/* --- Looking --- */

static struct volume_info view(const struct volume *volume)
{
    struct volume_info info = volume->info;
    info.sandbox = str_of(volume->sandbox);
    if (info.ttl_ms > 0 && volume->sandbox[0] == '\0')
        info.expires_ms = info.used_ms + info.ttl_ms;
    return info;
}

static struct volume *find(struct engine *engine, struct str tenant, struct str id, struct err *err)
{
    struct volume *volume = map_get(&engine->volumes, id);
    if (volume != NULL && str_eq(volume->info.tenant, tenant) && !volume->is_deleting)
        return volume;
    MAP_EACH (entry, &engine->volumes) {
        volume = entry->value;
        if (id.len > 0 && str_eq(volume->info.name, id) && str_eq(volume->info.tenant, tenant) &&
            !volume->is_deleting)
            return volume;
    }
    (void)err_set(err, ERR_NOT_FOUND, "no volume '%.*s'", (int)MIN(id.len, (size_t)64),
                  id.ptr == NULL ? "" : id.ptr);
    return NULL;
}

int engine_volume_get(struct engine *engine, const struct engine_caller *caller, struct str id,
                      struct volume_info *ret_volume, struct err *err)
{
    loop_assert(engine->loop);
    const struct volume *volume = find(engine, caller->tenant, id, err);
    if (volume == NULL)
        return -1;
    *ret_volume = view(volume);
    return 0;
}

int engine_volume_list(struct engine *engine, const struct engine_caller *caller,
                       const struct engine_page *page, struct arena *arena,
                       struct volume_list *ret_list, struct err *err)
{
    loop_assert(engine->loop);
    struct volume_list list = {0};
    int64_t after = 0, last = 0;
    size_t limit = page_limit(page);
    if (cursor_read(page->after, &after, err) < 0)
        return -1;
    list.items = arena_array(arena, struct volume_info, MIN(limit, engine->volumes.len + 1));
    MAP_EACH (entry, &engine->volumes) {
        const struct volume *volume = entry->value;
        if (volume->ord <= after || !str_eq(volume->info.tenant, caller->tenant))
            continue;
        if (list.count == limit) {
            cursor_write(last, list.next);
            break;
        }
        list.items[list.count++] = view(volume);
        last = volume->ord;
    }
    *ret_list = list;
    return 0;
}

int64_t volume_bytes(const struct engine *engine, struct str tenant)
{
    int64_t bytes = 0;
    MAP_EACH (entry, &engine->volumes) {
        const struct volume *volume = entry->value;
        if (str_eq(volume->info.tenant, tenant))
            bytes += volume->info.capacity_bytes;
    }
    for (const struct volume *volume = engine->volumes_coming; volume != NULL;
         volume = volume->next_coming)
        if (str_eq(volume->info.tenant, tenant))
            bytes += volume->info.capacity_bytes;
    return bytes;
}

/* --- Making --- */

struct making {
    struct volume *volume;
    volume_made *done;
    void *ctx;
};

static void forget_key(const struct volume *volume)
{
    struct store_batch *batch = store_begin(volume->engine->store);
    key_forget(volume->engine, volume->info.tenant, volume->info.id, batch);
    store_commit(batch, STORE_QUICK, NULL, NULL);
}

static void on_written(void *ctx, const struct err *why)
{
    struct making *making = ctx;
    struct volume *volume = making->volume;
    if (why != NULL) {
        forget_key(volume);
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
        forget_key(volume);
        making->done(making->ctx, (struct str){0}, why);
        (void)volume_free(volume);
        free(making);
        return;
    }
    (void)map_put(&volume->engine->volumes, volume->info.id, volume);
    struct store_batch *batch = store_begin(volume->engine->store);
    save(volume, batch);
    feed_publish(volume->engine, batch, EVENT_VOLUME_CREATED, volume->info.tenant, volume->info.id,
                 (struct str){0}, "", "");
    store_commit(batch, STORE_DURABLE, on_written, making);
}

int volume_make(struct engine *engine, const struct engine_caller *caller,
                const struct volume_spec *spec, struct str session, volume_made *done, void *ctx,
                struct err *err)
{
    const struct config_sandbox *config = &engine->config->sandbox;
    enum engine_tier tier = spec_tier(engine, spec->tier);
    struct provider *provider = NULL;
    struct err none = {0};
    char id[ID_SIZE];
    if (engine_check_name(spec->name, "name", err) < 0 ||
        engine_provider(engine, tier, &provider, err) < 0)
        return -1;
    if (engine_table(engine, tier)->volume_create == NULL)
        return engine_unsupported(tier, "have a volume", err);
    if (spec->capacity_bytes != 0 &&
        (spec->capacity_bytes < (1 << 20) || spec->capacity_bytes > (1LL << 44)))
        return err_set(err, ERR_INVALID, "capacityBytes: not between 1 MiB and 16 TiB");
    if (spec_check_time(MIN(spec->ttl_ms, (int64_t)86400000), "ttlMs", err) < 0)
        return -1;
    if (spec->name.len > 0 && (find(engine, caller->tenant, spec->name, &none) != NULL ||
                               is_being_made(engine, caller->tenant, spec->name)))
        return err_set(err, ERR_CONFLICT, "there is a volume '%.*s' already", STR_ARG(spec->name));
    struct engine_quota more = {.disk_bytes = spec->capacity_bytes != 0
                                                  ? spec->capacity_bytes
                                                  : config->volume_capacity_mb << 20};
    if (quota_check(engine, caller, &more, err) < 0)
        return -1;
    id_new(id);
    struct volume *volume = volume_new(engine, str_of(id), caller->tenant, spec->name, session);
    volume->info.region = arena_dup(&volume->arena, config->region);
    volume->info.tier = tier;
    volume->info.capacity_bytes = more.disk_bytes;
    volume->info.ttl_ms = spec->ttl_ms == -1  ? 0
                          : spec->ttl_ms != 0 ? spec->ttl_ms
                                              : config->volume_ttl_minutes * 60000;
    volume->info.created_ms = volume->info.used_ms = clock_date_ms();
    volume->used_at = clock_boot_ms();
    volume->ord = engine_order(engine);
    struct making *making = mem_alloc(sizeof *making);
    *making = (struct making){volume, done, ctx};
    volume->next_coming = engine->volumes_coming;
    engine->volumes_coming = volume;
    if (caller->key.len > 0) {
        struct store_batch *batch = store_begin(engine->store);
        key_remember(engine, caller, volume->info.id, batch);
        store_commit(batch, STORE_QUICK, NULL, NULL);
    }
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
        info = view(volume);
    answer->done.volume(answer->ctx, why == NULL ? &info : NULL, why);
}

static void answer_made(void *ctx, struct str id, const struct err *why)
{
    struct answer *answer = ctx;
    (void)snprintf(answer->id, sizeof answer->id, "%.*s", STR_ARG(id));
    answer_give(answer, why);
}

/* The volume that the key made before: 1; one that has gone since is none. */
static int find_known(struct engine *engine, const struct engine_caller *caller,
                      char ret_id[ID_SIZE], struct err *err)
{
    struct str first = {0};
    int known = key_find(engine, caller, &first, err);
    for (const struct volume *volume = engine->volumes_coming; known > 0 && volume != NULL;
         volume = volume->next_coming)
        if (str_eq(volume->info.id, first))
            return err_set(err, ERR_BUSY, "the volume of this key is being made; try again");
    if (known <= 0 || !map_has(&engine->volumes, first))
        return MIN(known, 0);
    (void)snprintf(ret_id, ID_SIZE, "%.*s", STR_ARG(first));
    return 1;
}

void engine_volume_create(struct engine *engine, const struct engine_caller *caller,
                          const struct volume_spec *spec, volume_done *done, void *ctx)
{
    struct answer *answer = answer_new(engine, deliver, ctx);
    struct err err = {0};
    answer->done.volume = done;
    if (engine_check_caller(engine, caller, &err) < 0) {
        answer_give(answer, &err);
        return;
    }
    int known = find_known(engine, caller, answer->id, &err);
    if (known > 0)
        answer_give(answer, NULL);
    else if (known < 0 ||
             volume_make(engine, caller, spec, (struct str){0}, answer_made, answer, &err) < 0)
        answer_give(answer, &err);
}

/* --- One writer at a time --- */

int volume_check(struct engine *engine, const struct engine_caller *caller, struct str id,
                 enum engine_tier tier, struct err *err)
{
    if (id.len == 0)
        return 0;
    const struct volume *volume = find(engine, caller->tenant, id, err);
    if (volume == NULL)
        return -1;
    if (volume->info.tier != tier)
        return err_set(err, ERR_INVALID, "volume '%.*s' is for sandboxes of the tier '%s'",
                       STR_ARG(id), engine_tier_name(volume->info.tier));
    if (volume->sandbox[0] != '\0' && !volume_is_served(engine, volume->info.id))
        return err_set(err, ERR_BUSY, "volume '%.*s' is in use by sandbox '%s'", STR_ARG(id),
                       volume->sandbox);
    return 0;
}

/* Served by a place of its own for the moment: that one makes way. */
bool volume_is_served(struct engine *engine, struct str id)
{
    const struct volume *volume = map_get(&engine->volumes, id);
    const struct sandbox *holder =
        volume == NULL ? NULL : map_get(&engine->sandboxes, str_of(volume->sandbox));
    return holder != NULL && holder->is_helper;
}

/* And has nothing more to do: it goes as soon as its disk is synced. */
bool volume_is_left(struct engine *engine, struct str id)
{
    const struct volume *volume = map_get(&engine->volumes, id);
    const struct sandbox *holder =
        volume == NULL ? NULL : map_get(&engine->sandboxes, str_of(volume->sandbox));
    return holder != NULL && holder->is_helper && holder->is_deleting;
}

struct str volume_id(struct engine *engine, struct str tenant, struct str name)
{
    struct err err = {0};
    const struct volume *volume = find(engine, tenant, name, &err);
    return volume == NULL ? (struct str){0} : volume->info.id;
}

int volume_take(struct engine *engine, struct str id, struct str sandbox, struct store_batch *batch,
                int64_t *ret_bytes, uint64_t *ret_fence, struct err *err)
{
    struct volume *volume = map_get(&engine->volumes, id);
    if (volume == NULL || volume->is_deleting)
        return err_set(err, ERR_GONE, "volume '%.*s' is no more", STR_ARG(id));
    if (volume->sandbox[0] != '\0' && !str_eq(str_of(volume->sandbox), sandbox))
        return err_set(err, ERR_BUSY, "volume '%.*s' is in use by sandbox '%s'", STR_ARG(id),
                       volume->sandbox);
    (void)snprintf(volume->sandbox, sizeof volume->sandbox, "%.*s", STR_ARG(sandbox));
    volume->info.fence++;
    volume->info.used_ms = clock_date_ms();
    volume->used_at = clock_boot_ms();
    save(volume, batch);
    *ret_bytes = volume->info.capacity_bytes;
    *ret_fence = volume->info.fence;
    return 0;
}

void volume_release(struct engine *engine, struct str id, struct str sandbox,
                    struct store_batch *batch)
{
    struct volume *volume = id.len == 0 ? NULL : map_get(&engine->volumes, id);
    if (volume == NULL || !str_eq(str_of(volume->sandbox), sandbox))
        return;
    volume->sandbox[0] = '\0';
    volume->info.used_ms = clock_date_ms();
    volume->used_at = clock_boot_ms();
    save(volume, batch);
}

/* A lease of a run that has ended is void, whoever held it: places outlive no run. */
void volume_reconcile(struct engine *engine, struct store_batch *batch)
{
    MAP_EACH (entry, &engine->volumes) {
        struct volume *volume = entry->value;
        if (volume->sandbox[0] == '\0')
            continue;
        log_info("reconcile.lease", LOG_VIEW("volume", volume->info.id),
                 LOG_STR("sandbox", volume->sandbox));
        volume->sandbox[0] = '\0';
        save(volume, batch);
    }
}

/* --- Going --- */

struct going {
    struct volume *volume;
    struct answer *answer;
};

static void on_deleted(void *ctx, const struct err *why)
{
    struct going *going = ctx;
    CRASH_POINT("engine.volume.tree_gone");
    /* The row is gone: what is left of the directory goes at the next start. */
    if (why != NULL)
        log_warn("volume.delete", LOG_VIEW("volume", going->volume->info.id),
                 LOG_STR("error", why->msg));
    (void)volume_free(going->volume);
    answer_give(going->answer, NULL);
    free(going);
}

static void on_forgotten(void *ctx, const struct err *why)
{
    struct going *going = ctx;
    struct volume *volume = going->volume;
    struct engine *engine = volume->engine;
    CRASH_POINT("engine.volume.row_gone");
    if (why != NULL) {
        volume->is_deleting = false;
        answer_give(going->answer, why);
        free(going);
        return;
    }
    (void)map_remove(&engine->volumes, volume->info.id);
    const struct provider_table *table = engine_table(engine, volume->info.tier);
    if (engine->providers[volume->info.tier] == NULL)
        on_deleted(going, NULL);
    else
        table->volume_delete(engine->providers[volume->info.tier], volume->info.id, on_deleted,
                             going);
}

/* First the row, then the directory. */
static void drop(struct volume *volume, enum event_kind kind, struct answer *answer)
{
    struct engine *engine = volume->engine;
    struct going *going = mem_alloc(sizeof *going);
    *going = (struct going){volume, answer};
    volume->is_deleting = true;
    struct store_batch *batch = store_begin(engine->store);
    store_remove(batch, &store_session_volumes, volume->info.id);
    key_forget(engine, volume->info.tenant, volume->info.id, batch);
    session_volume_gone(engine, &volume->info, batch);
    feed_publish(engine, batch, kind, volume->info.tenant, volume->info.id, (struct str){0}, "",
                 "");
    store_commit(batch, STORE_DURABLE, on_forgotten, going);
}

void volume_drop(struct engine *engine, struct str id, struct answer *answer)
{
    struct volume *volume = map_get(&engine->volumes, id);
    if (volume == NULL || volume->is_deleting)
        answer_give(answer, NULL);
    else
        drop(volume, EVENT_VOLUME_DELETED, answer);
}

/* Somebody who waits for the place that served its files: that one is on its way out. */
struct deleting {
    struct want want;
    struct engine *engine;
    struct answer *answer;
    struct arena arena;
    struct str tenant, id;
};

static void begin_delete(struct engine *engine, struct str tenant, struct str id,
                         struct answer *answer);

static void on_left(struct want *want, UNUSED struct sandbox *sandbox, UNUSED const struct err *why)
{
    struct deleting *deleting = (struct deleting *)want;
    begin_delete(deleting->engine, deleting->tenant, deleting->id, deleting->answer);
    arena_done(&deleting->arena);
    free(deleting);
}

static void delete_later(struct volume *volume, struct sandbox *holder, struct answer *answer)
{
    struct deleting *deleting = mem_alloc(sizeof *deleting);
    deleting->want.call = on_left;
    deleting->engine = volume->engine;
    deleting->answer = answer;
    deleting->tenant = arena_dup(&deleting->arena, volume->info.tenant);
    deleting->id = arena_dup(&deleting->arena, volume->info.id);
    sandbox_wait(holder, &deleting->want);
}

static void begin_delete(struct engine *engine, struct str tenant, struct str id,
                         struct answer *answer)
{
    struct err err = {0};
    struct engine_caller caller = {.tenant = tenant};
    struct volume *volume = NULL;
    if (engine_check_caller(engine, &caller, &err) == 0)
        volume = find(engine, tenant, id, &err);
    struct sandbox *holder =
        volume == NULL ? NULL : map_get(&engine->sandboxes, str_of(volume->sandbox));
    if (volume == NULL)
        answer_give(answer, &err);
    else if (volume->sandbox[0] == '\0')
        drop(volume, EVENT_VOLUME_DELETED, answer);
    else if (volume_is_left(engine, volume->info.id) && sandbox_is_moving(holder->info.state))
        delete_later(volume, holder, answer);
    else
        answer_fail(answer, ERR_BUSY, "volume '%.*s' is in use by %s%s", STR_ARG(volume->info.id),
                    volume_is_served(engine, volume->info.id) ? "a transfer of its files"
                                                              : "sandbox ",
                    volume_is_served(engine, volume->info.id) ? "" : volume->sandbox);
}

void engine_volume_delete(struct engine *engine, const struct engine_caller *caller, struct str id,
                          engine_done *done, void *ctx)
{
    begin_delete(engine, caller->tenant, id, answer_plain(engine, done, ctx));
}

void volume_sweep(struct engine *engine, int64_t now)
{
    MAP_EACH (entry, &engine->volumes) {
        struct volume *volume = entry->value;
        if (volume->is_deleting || volume->sandbox[0] != '\0' || volume->info.ttl_ms == 0 ||
            now - volume->used_at < volume->info.ttl_ms)
            continue;
        log_info("volume.expired", LOG_VIEW("volume", volume->info.id));
        drop(volume, EVENT_VOLUME_EXPIRED, NULL);
    }
}
