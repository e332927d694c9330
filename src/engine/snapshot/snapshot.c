/* Snapshots: immutable file trees that sandboxes boot from. */

#include "engine/snapshot/snapshot.h"

#include "base/log.h"
#include "base/map.h"
#include "engine/answer.h"
#include "engine/feed_internal.h"
#include "engine/internal.h"
#include "engine/key.h"
#include "engine/page.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/snapshot/snapshot_build.h"
#include "engine/snapshot/snapshot_internal.h"
#include "store/blobs.h"
#include "store/store.h"

static const char *const state_names[] = {"building", "ready", "failed"};

const char *snapshot_state_name(enum snapshot_state state)
{
    return state_names[state];
}

struct snapshot *snapshot_free(struct snapshot *snapshot)
{
    if (snapshot != NULL) {
        arena_done(&snapshot->arena);
        buf_done(&snapshot->image);
        free(snapshot);
    }
    return NULL;
}

void snapshot_done_all(struct engine *engine)
{
    MAP_EACH (entry, &engine->snapshots)
        (void)snapshot_free(entry->value);
    map_done(&engine->snapshots);
}

struct snapshot *snapshot_new(struct engine *engine, struct str id, struct str tenant,
                              struct str slug, struct str source)
{
    struct snapshot *snapshot = mem_alloc(sizeof *snapshot);
    snapshot->engine = engine;
    snapshot->info.id = arena_dup(&snapshot->arena, id);
    snapshot->info.tenant = arena_dup(&snapshot->arena, tenant);
    snapshot->info.slug = arena_dup(&snapshot->arena, slug);
    snapshot->info.source = arena_dup(&snapshot->arena, source);
    (void)map_put(&engine->snapshots, id, snapshot);
    return snapshot;
}

/* --- The store --- */

void snapshot_save(const struct snapshot *snapshot, struct store_batch *batch)
{
    const struct snapshot_info *info = &snapshot->info;
    AUTO_BUF struct buf packages = {0};
    snapshot_put_packages(snapshot, &packages);
    store_put(batch, &store_snapshots,
              &(struct store_snapshot){
                  .id = info->id,
                  .tenant = info->tenant,
                  .ord = snapshot->ord,
                  .slug = info->slug,
                  .tier = str_of(engine_tier_name(info->tier)),
                  .state = str_of(snapshot_state_name(info->state)),
                  .source = info->source,
                  .detail = str_of(snapshot->detail),
                  .image = buf_str(&snapshot->image),
                  .size_bytes = info->size_bytes,
                  .created_ms = info->created_ms,
                  .packages = buf_str(&packages),
              });
}

static void load(void *ctx, const void *data)
{
    struct engine *engine = ctx;
    const struct store_snapshot *row = data;
    struct snapshot *snapshot = snapshot_new(engine, row->id, row->tenant, row->slug, row->source);
    if (!engine_tier_of_name(row->tier, &snapshot->info.tier))
        snapshot->info.tier = ENGINE_TIER_MEMORY;
    for (size_t i = 0; i < countof(state_names); i++)
        if (str_eq(row->state, str_of(state_names[i])))
            snapshot->info.state = (enum snapshot_state)i;
    (void)snprintf(snapshot->detail, sizeof snapshot->detail, "%.*s", STR_ARG(row->detail));
    buf_put(&snapshot->image, row->image);
    snapshot->info.size_bytes = row->size_bytes;
    snapshot->info.created_ms = row->created_ms;
    snapshot_read_packages(snapshot, row->packages);
    snapshot->ord = row->ord;
    engine->last_order = MAX(engine->last_order, row->ord);
}

int snapshot_load(struct engine *engine, struct err *err)
{
    return store_each(engine->store, &store_snapshots, load, engine, err);
}

void snapshot_keep_images(const struct engine *engine, struct store_hashes *kept)
{
    MAP_EACH (entry, &engine->snapshots) {
        const struct snapshot *snapshot = entry->value;
        if (snapshot->image.len > 0)
            *vec_push(&kept->list) = mem_dup_cstr(buf_cstr(&snapshot->image));
    }
}

void snapshot_each_image(const struct engine *engine, enum engine_tier tier,
                         void (*call)(void *ctx, struct str image), void *ctx)
{
    MAP_EACH (entry, &engine->snapshots) {
        const struct snapshot *snapshot = entry->value;
        if (snapshot->info.tier == tier)
            call(ctx, buf_str(&snapshot->image));
    }
}

static void drop_build_sandbox(struct engine *engine, struct str image, struct store_batch *batch)
{
    struct str id = str_starts(image, STR(BUILT_IN))
                        ? str_slice(image, sizeof BUILT_IN - 1, image.len)
                        : (struct str){0};
    struct sandbox *sandbox = map_get(&engine->sandboxes, id);
    if (sandbox == NULL)
        return;
    store_remove(batch, &store_sandboxes, id);
    (void)map_remove(&engine->sandboxes, sandbox->info.id);
    (void)sandbox_free(sandbox);
}

/* A build that a restart has interrupted is removed: the next request for it starts again. */
void snapshot_reconcile(struct engine *engine, struct store_batch *batch)
{
    MAP_EACH (entry, &engine->snapshots) {
        struct snapshot *snapshot = entry->value;
        if (snapshot->info.state != SNAPSHOT_BUILDING)
            continue;
        log_info("reconcile.snapshot", LOG_VIEW("snapshot", snapshot->info.id));
        drop_build_sandbox(engine, buf_str(&snapshot->image), batch);
        store_remove(batch, &store_snapshots, snapshot->info.id);
        (void)map_remove(&engine->snapshots, entry->key);
        (void)snapshot_free(snapshot);
    }
}

/* --- Looking --- */

static size_t users_of(const struct snapshot *snapshot)
{
    size_t users = 0;
    MAP_EACH (entry, &snapshot->engine->sandboxes) {
        const struct sandbox_info *info = &((const struct sandbox *)entry->value)->info;
        for (size_t i = 0; info->state != SANDBOX_STOPPED && i < info->snapshot_count; i++)
            users += str_eq(info->snapshots[i], snapshot->info.id);
    }
    return users;
}

struct snapshot_info snapshot_view(const struct snapshot *snapshot)
{
    struct snapshot_info info = snapshot->info;
    info.detail = str_of(snapshot->detail);
    info.users = users_of(snapshot);
    return info;
}

/* Snapshots of the configuration's dependencies are visible to every tenant. */
static bool is_visible(const struct snapshot *snapshot, struct str tenant)
{
    return str_eq(snapshot->info.tenant, tenant) ||
           (str_eq(snapshot->info.tenant, STR(CONFIGURED)) &&
            str_eq(snapshot->info.slug, str_of(snapshot->engine->dependencies.slug)));
}

struct snapshot *snapshot_find(struct engine *engine, struct str tenant, struct str name,
                               struct err *err)
{
    MAP_EACH (entry, &engine->snapshots) {
        struct snapshot *snapshot = entry->value;
        if (is_visible(snapshot, tenant) && !snapshot->is_deleting && name.len > 0 &&
            (str_eq(snapshot->info.id, name) || str_eq(snapshot->info.slug, name)))
            return snapshot;
    }
    (void)err_set(err, ERR_NOT_FOUND, "no snapshot '%.*s'", (int)MIN(name.len, (size_t)64),
                  name.ptr == NULL ? "" : name.ptr);
    return NULL;
}

const struct snapshot_info *snapshot_configured(const struct engine *engine)
{
    MAP_EACH (entry, &engine->snapshots) {
        const struct snapshot *snapshot = entry->value;
        if (str_eq(snapshot->info.tenant, STR(CONFIGURED)) && !snapshot->is_deleting &&
            str_eq(snapshot->info.slug, str_of(engine->dependencies.slug)))
            return &snapshot->info;
    }
    return NULL;
}

int engine_snapshot_get(struct engine *engine, const struct engine_caller *caller, struct str id,
                        struct snapshot_info *ret_snapshot, struct err *err)
{
    loop_assert(engine->loop);
    const struct snapshot *snapshot = snapshot_find(engine, caller->tenant, id, err);
    if (snapshot == NULL)
        return -1;
    *ret_snapshot = snapshot_view(snapshot);
    return 0;
}

int engine_snapshot_list(struct engine *engine, const struct engine_caller *caller,
                         const struct engine_page *page, struct arena *arena,
                         struct snapshot_list *ret_list, struct err *err)
{
    loop_assert(engine->loop);
    struct snapshot_list list = {0};
    int64_t after = 0, last = 0;
    size_t limit = page_limit(page);
    if (page_cursor_read(page->after, &after, err) < 0)
        return -1;
    list.items = arena_array(arena, struct snapshot_info, MIN(limit, engine->snapshots.len + 1));
    MAP_EACH (entry, &engine->snapshots) {
        const struct snapshot *snapshot = entry->value;
        if (snapshot->ord <= after || !is_visible(snapshot, caller->tenant))
            continue;
        if (list.count == limit) {
            page_cursor_write(last, list.next);
            break;
        }
        list.items[list.count++] = snapshot_view(snapshot);
        last = snapshot->ord;
    }
    *ret_list = list;
    return 0;
}

/* --- For sandboxes --- */

int snapshot_resolve(struct engine *engine, const struct engine_caller *caller,
                     const struct sandbox_spec *spec, struct sandbox *sandbox, struct err *err)
{
    struct str *ids = arena_array(&sandbox->arena, struct str, spec->snapshot_count + 1);
    for (size_t i = 0; i < spec->snapshot_count; i++) {
        const struct snapshot *snapshot =
            snapshot_find(engine, caller->tenant, spec->snapshots[i], err);
        if (snapshot == NULL)
            return -1;
        if (snapshot->info.tier != sandbox->info.tier)
            return err_set(err, ERR_INVALID, "snapshot '%.*s' is for the tier '%s'",
                           STR_ARG(spec->snapshots[i]), engine_tier_name(snapshot->info.tier));
        if (snapshot->info.state != SNAPSHOT_READY)
            return err_set(err, ERR_CONFLICT, "snapshot '%.*s' is %s", STR_ARG(spec->snapshots[i]),
                           snapshot_state_name(snapshot->info.state));
        ids[i] = arena_dup(&sandbox->arena, snapshot->info.id);
    }
    sandbox->info.snapshots = ids;
    sandbox->info.snapshot_count = spec->snapshot_count;
    return 0;
}

int snapshot_image(struct engine *engine, struct str id, struct str *ret_image, struct err *err)
{
    const struct snapshot *snapshot = map_get(&engine->snapshots, id);
    if (snapshot == NULL)
        return err_set(err, ERR_GONE, "snapshot '%.*s' no longer exists", STR_ARG(id));
    *ret_image = buf_str(&snapshot->image);
    return 0;
}

/* --- Deleting --- */

struct going {
    struct snapshot *snapshot;
    struct answer *answer;
};

static void snapshot_on_gone(void *ctx, const struct err *why)
{
    struct answer *answer = ctx;
    if (why != NULL)
        log_warn("snapshot.delete", LOG_STR("error", why->msg));
    answer_give(answer, NULL);
}

/* First the row, then the tree. */
static void on_forgotten(void *ctx, const struct err *why)
{
    struct going *going = ctx;
    struct snapshot *snapshot = going->snapshot;
    struct engine *engine = snapshot->engine;
    const struct provider_table *table = engine_table(engine, snapshot->info.tier);
    if (why != NULL) {
        snapshot->is_deleting = false;
        answer_give(going->answer, why);
    } else {
        (void)map_remove(&engine->snapshots, snapshot->info.id);
        if (table->snapshot_delete != NULL && engine->providers[snapshot->info.tier] != NULL)
            table->snapshot_delete(engine->providers[snapshot->info.tier],
                                   buf_str(&snapshot->image), snapshot_on_gone, going->answer);
        else
            answer_give(going->answer, NULL);
        (void)snapshot_free(snapshot);
    }
    free(going);
}

void engine_snapshot_delete(struct engine *engine, const struct engine_caller *caller,
                            struct str id, engine_done *done, void *ctx)
{
    struct answer *answer = answer_plain(engine, done, ctx);
    struct err err = {0};
    struct snapshot *snapshot = NULL;
    if (engine_check_caller(engine, caller, &err) == 0)
        snapshot = snapshot_find(engine, caller->tenant, id, &err);
    if (snapshot == NULL) {
        answer_give(answer, &err);
        return;
    }
    if (!str_eq(snapshot->info.tenant, caller->tenant) && !caller->is_operator) {
        answer_fail(answer, ERR_FORBIDDEN, "snapshot '%.*s' belongs to the server's configuration",
                    STR_ARG(id));
        return;
    }
    size_t users = users_of(snapshot);
    if (users > 0 || snapshot->info.state == SNAPSHOT_BUILDING) {
        answer_fail(answer, ERR_CONFLICT, "snapshot '%.*s' is %s", STR_ARG(id),
                    users > 0 ? "in use by a sandbox" : "being built");
        return;
    }
    struct going *going = mem_alloc(sizeof *going);
    *going = (struct going){snapshot, answer};
    snapshot->is_deleting = true;
    struct store_batch *batch = store_begin(engine->store);
    store_remove(batch, &store_snapshots, snapshot->info.id);
    key_forget(engine, snapshot->info.tenant, snapshot->info.id, batch);
    feed_publish(engine, batch, EVENT_SNAPSHOT_DELETED, snapshot->info.tenant, snapshot->info.id,
                 (struct str){0}, "", "");
    store_commit(batch, STORE_DURABLE, on_forgotten, going);
}
