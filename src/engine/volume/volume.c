/* Volumes: directories that outlive sandboxes, one writer at a time, gone after their time. */

#include "engine/volume/volume.h"

#include "base/clock.h"
#include "base/format/json.h"
#include "base/log.h"
#include "base/map.h"
#include "engine/internal.h"
#include "engine/page.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/spec.h"
#include "engine/volume/volume_internal.h"
#include "store/store.h"

struct volume *volume_new(struct engine *engine, struct str id, struct str tenant, struct str name,
                          struct str session)
{
    struct volume *volume = mem_alloc(sizeof *volume);
    volume->engine = engine;
    volume->info.id = arena_dup(&volume->arena, id);
    volume->info.tenant = arena_dup(&volume->arena, tenant);
    volume->info.name = arena_dup(&volume->arena, name);
    volume->info.session = arena_dup(&volume->arena, session);
    return volume;
}

struct volume *volume_free(struct volume *volume)
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

void volume_save(const struct volume *volume, struct store_batch *batch)
{
    const struct volume_info *info = &volume->info;
    AUTO_BUF struct buf slug = {0}, metadata = {0};
    buf_printf(&slug, "vol-%.*s", STR_ARG(info->id));
    if (info->metadata.len > 0)
        pairs_put_json(&info->metadata, &(struct json_out){.buf = &metadata});
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
                  .metadata = buf_str(&metadata),
              });
}

static void read_metadata(struct volume *volume, struct str text)
{
    AUTO_JSON struct json_t *object = NULL;
    struct err err = {0};
    if (text.len > 0 && (json_parse(text, &object, &err) < 0 ||
                         pairs_read_json(object, &volume->arena, &volume->info.metadata, &err) < 0))
        log_warn("volume.metadata", LOG_VIEW("volume", volume->info.id), LOG_STR("error", err.msg));
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
    read_metadata(volume, row->metadata);
    /* Its time also counts while the server does not run. */
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

struct volume_info volume_view(const struct volume *volume)
{
    struct volume_info info = volume->info;
    info.sandbox = str_of(volume->sandbox);
    if (info.ttl_ms > 0 && volume->sandbox[0] == '\0')
        info.expires_ms = info.used_ms + info.ttl_ms;
    return info;
}

struct volume *volume_find(struct engine *engine, struct str tenant, struct str id, struct err *err)
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
    const struct volume *volume = volume_find(engine, caller->tenant, id, err);
    if (volume == NULL)
        return -1;
    *ret_volume = volume_view(volume);
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
    if (page_cursor_read(page->after, &after, err) < 0)
        return -1;
    list.items = arena_array(arena, struct volume_info, MIN(limit, engine->volumes.len + 1));
    MAP_EACH (entry, &engine->volumes) {
        const struct volume *volume = entry->value;
        if (volume->ord <= after || !str_eq(volume->info.tenant, caller->tenant))
            continue;
        if (list.count == limit) {
            page_cursor_write(last, list.next);
            break;
        }
        list.items[list.count++] = volume_view(volume);
        last = volume->ord;
    }
    *ret_list = list;
    return 0;
}

struct str volume_id(struct engine *engine, struct str tenant, struct str name)
{
    struct err err = {0};
    const struct volume *volume = volume_find(engine, tenant, name, &err);
    return volume == NULL ? (struct str){0} : volume->info.id;
}

/* With those whose directories are being made. */
static void add_up(const struct engine *engine, struct str tenant, size_t *count, int64_t *bytes)
{
    MAP_EACH (entry, &engine->volumes) {
        const struct volume *volume = entry->value;
        if (str_eq(volume->info.tenant, tenant))
            ++*count, *bytes += volume->info.capacity_bytes;
    }
    for (const struct volume *volume = engine->volumes_coming; volume != NULL;
         volume = volume->next_coming)
        if (str_eq(volume->info.tenant, tenant))
            ++*count, *bytes += volume->info.capacity_bytes;
}

int64_t volume_bytes(const struct engine *engine, struct str tenant)
{
    size_t count = 0;
    int64_t bytes = 0;
    add_up(engine, tenant, &count, &bytes);
    return bytes;
}

size_t volume_count(const struct engine *engine, struct str tenant)
{
    size_t count = 0;
    int64_t bytes = 0;
    add_up(engine, tenant, &count, &bytes);
    return count;
}

/* --- One writer at a time --- */

int volume_check(struct engine *engine, const struct engine_caller *caller, struct str id,
                 enum engine_tier tier, struct err *err)
{
    if (id.len == 0)
        return 0;
    const struct volume *volume = volume_find(engine, caller->tenant, id, err);
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

int volume_take(struct engine *engine, struct str id, struct str sandbox, struct store_batch *batch,
                int64_t *ret_bytes, uint64_t *ret_fence, struct err *err)
{
    struct volume *volume = map_get(&engine->volumes, id);
    if (volume == NULL || volume->is_deleting)
        return err_set(err, ERR_GONE, "volume '%.*s' no longer exists", STR_ARG(id));
    if (volume->sandbox[0] != '\0' && !str_eq(str_of(volume->sandbox), sandbox))
        return err_set(err, ERR_BUSY, "volume '%.*s' is in use by sandbox '%s'", STR_ARG(id),
                       volume->sandbox);
    (void)snprintf(volume->sandbox, sizeof volume->sandbox, "%.*s", STR_ARG(sandbox));
    volume->info.fence++;
    volume->info.used_ms = clock_date_ms();
    volume->used_at = clock_boot_ms();
    volume_save(volume, batch);
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
    volume_save(volume, batch);
}

/* A lease from an earlier run of the server is void, because places do not outlive that run. */
void volume_reconcile(struct engine *engine, struct store_batch *batch)
{
    MAP_EACH (entry, &engine->volumes) {
        struct volume *volume = entry->value;
        if (volume->sandbox[0] == '\0')
            continue;
        log_info("reconcile.lease", LOG_VIEW("volume", volume->info.id),
                 LOG_STR("sandbox", volume->sandbox));
        volume->sandbox[0] = '\0';
        volume_save(volume, batch);
    }
}
