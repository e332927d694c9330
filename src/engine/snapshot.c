/* Snapshots: immutable file trees that sandboxes boot from. */

#include "engine/snapshot.h"

#include <errno.h>
#include <fcntl.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "engine/config.h"
#include "engine/internal.h"
#include "engine/snapshot_build.h"
#include "store/blobs.h"

/* The tenant of what the configuration asks for; no caller's name has a blank. */
#define CONFIGURED "the configuration"

static const char *const state_names[] = {"building", "ready", "failed"};

const char *snapshot_state_name(enum snapshot_state state)
{
    return state_names[state];
}

struct snapshot {
    struct engine *engine;
    struct snapshot_info info;
    struct arena arena;
    struct buf image;
    char detail[ERR_MSG_MAX];
    int64_t ord;
    bool is_deleting;
};

static struct snapshot *snapshot_free(struct snapshot *snapshot)
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

static struct snapshot *snapshot_new(struct engine *engine, struct str id, struct str tenant,
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

static void save(const struct snapshot *snapshot, struct store_batch *batch)
{
    const struct snapshot_info *info = &snapshot->info;
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

/* While it is built, the image names the sandbox that it is built in. */
#define BUILT_IN "sandbox/"

static void drop_builder(struct engine *engine, struct str image, struct store_batch *batch)
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

/* A build that a restart cut off leaves nothing: it is begun anew by whoever wants it. */
void snapshot_reconcile(struct engine *engine, struct store_batch *batch)
{
    MAP_EACH (entry, &engine->snapshots) {
        struct snapshot *snapshot = entry->value;
        if (snapshot->info.state != SNAPSHOT_BUILDING)
            continue;
        log_info("reconcile.snapshot", LOG_VIEW("snapshot", snapshot->info.id));
        drop_builder(engine, buf_str(&snapshot->image), batch);
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

static struct snapshot_info view(const struct snapshot *snapshot)
{
    struct snapshot_info info = snapshot->info;
    info.detail = str_of(snapshot->detail);
    info.users = users_of(snapshot);
    return info;
}

/* The configuration's dependencies are everybody's. */
static bool is_visible(const struct snapshot *snapshot, struct str tenant)
{
    return str_eq(snapshot->info.tenant, tenant) ||
           (str_eq(snapshot->info.tenant, STR(CONFIGURED)) &&
            str_eq(snapshot->info.slug, str_of(snapshot->engine->dependencies.slug)));
}

static struct snapshot *find(struct engine *engine, struct str tenant, struct str name,
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

int engine_snapshot_get(struct engine *engine, const struct engine_caller *caller, struct str id,
                        struct snapshot_info *ret_snapshot, struct err *err)
{
    loop_assert(engine->loop);
    const struct snapshot *snapshot = find(engine, caller->tenant, id, err);
    if (snapshot == NULL)
        return -1;
    *ret_snapshot = view(snapshot);
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
    if (cursor_read(page->after, &after, err) < 0)
        return -1;
    list.items = arena_array(arena, struct snapshot_info, MIN(limit, engine->snapshots.len + 1));
    MAP_EACH (entry, &engine->snapshots) {
        const struct snapshot *snapshot = entry->value;
        if (snapshot->ord <= after || !is_visible(snapshot, caller->tenant))
            continue;
        if (list.count == limit) {
            cursor_write(last, list.next);
            break;
        }
        list.items[list.count++] = view(snapshot);
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
        const struct snapshot *snapshot = find(engine, caller->tenant, spec->snapshots[i], err);
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
        return err_set(err, ERR_GONE, "snapshot '%.*s' is no more", STR_ARG(id));
    *ret_image = buf_str(&snapshot->image);
    return 0;
}

/* --- Making --- */

struct shooting {
    struct want want;
    struct engine *engine;
    struct snapshot *snapshot;
    struct sandbox *sandbox;
    struct answer *answer;
};

static void deliver(struct answer *answer, const struct err *why)
{
    const struct snapshot *snapshot =
        why == NULL ? map_get(&answer->engine->snapshots, str_of(answer->id)) : NULL;
    struct snapshot_info info = {0};
    if (snapshot != NULL)
        info = view(snapshot);
    answer->done.snapshot(answer->ctx, why == NULL ? &info : NULL, why);
}

static void fail(struct shooting *shooting, const struct err *why)
{
    struct engine *engine = shooting->engine;
    struct snapshot *snapshot = shooting->snapshot;
    log_warn("snapshot.failed", LOG_VIEW("snapshot", snapshot->info.id),
             LOG_STR("error", why->msg));
    struct store_batch *batch = store_begin(engine->store);
    store_remove(batch, &store_snapshots, snapshot->info.id);
    feed_publish(engine, batch, EVENT_SNAPSHOT_FAILED, snapshot->info.tenant, snapshot->info.id,
                 (struct str){0}, "failed", why->msg);
    store_commit(batch, STORE_QUICK, NULL, NULL);
    (void)map_remove(&engine->snapshots, snapshot->info.id);
    (void)snapshot_free(snapshot);
    answer_give(shooting->answer, why);
    free(shooting);
}

static void on_recorded(void *ctx, const struct err *why)
{
    struct shooting *shooting = ctx;
    if (why != NULL) {
        fail(shooting, why);
        return;
    }
    answer_give(shooting->answer, NULL);
    free(shooting);
}

static void on_picture(void *ctx, struct str image, int64_t size, const struct err *why)
{
    struct shooting *shooting = ctx;
    struct snapshot *snapshot = shooting->snapshot;
    sandbox_end_work(shooting->sandbox);
    if (why != NULL) {
        fail(shooting, why);
        return;
    }
    buf_put(&snapshot->image, image);
    snapshot->info.size_bytes = size;
    snapshot->info.state = SNAPSHOT_READY;
    struct store_batch *batch = store_begin(snapshot->engine->store);
    save(snapshot, batch);
    feed_publish(snapshot->engine, batch, EVENT_SNAPSHOT_READY, snapshot->info.tenant,
                 snapshot->info.id, (struct str){0}, "ready", "");
    store_commit(batch, STORE_DURABLE, on_recorded, shooting);
}

static void ready(struct want *want, struct sandbox *sandbox, const struct err *why)
{
    struct shooting *shooting = (struct shooting *)want;
    struct err err = {0};
    if (why != NULL) {
        fail(shooting, why);
        return;
    }
    const struct provider_table *table = engine_table(shooting->engine, sandbox->info.tier);
    if (table->snapshot_create == NULL) {
        (void)engine_unsupported(sandbox->info.tier, "become a snapshot", &err);
        fail(shooting, &err);
        return;
    }
    shooting->sandbox = sandbox;
    sandbox_begin_work(sandbox);
    table->snapshot_create(sandbox->place, shooting->snapshot->info.id, on_picture, shooting);
}

int snapshot_check_slug(struct engine *engine, const struct engine_caller *caller, struct str slug,
                        struct err *err)
{
    struct err none = {0};
    if (slug.len == 0)
        return 0;
    if (!id_is_valid(slug))
        return err_set(err, ERR_INVALID,
                       "slug: 8 to 64 lower-case letters, digits, '-' and '_' are needed");
    if (find(engine, caller->tenant, slug, &none) != NULL)
        return err_set(err, ERR_CONFLICT, "there is a snapshot '%.*s' already", STR_ARG(slug));
    return 0;
}

static int build(struct engine *engine, const struct engine_caller *caller,
                 const struct snapshot_spec *spec, struct answer *answer, struct err *err);
static int copy_directory(struct engine *engine, const struct engine_caller *caller,
                          const struct snapshot_spec *spec, struct answer *answer, struct err *err);

void engine_snapshot_create(struct engine *engine, const struct engine_caller *caller,
                            const struct snapshot_spec *spec, snapshot_done *done, void *ctx)
{
    struct answer *answer = answer_new(engine, deliver, ctx);
    struct err err = {0};
    struct sandbox *sandbox = NULL;
    answer->done.snapshot = done;
    size_t sources =
        (spec->dependency_count > 0) + (spec->directory.len > 0) + (spec->sandbox.len > 0);
    if (sources != 1) {
        (void)err_set(&err, ERR_INVALID, "one of dependencies, sandbox and directory is needed");
    } else if (engine_check_caller(engine, caller, &err) == 0 &&
               snapshot_check_slug(engine, caller, spec->slug, &err) == 0) {
        if (spec->dependency_count > 0 && build(engine, caller, spec, answer, &err) == 0)
            return;
        if (spec->directory.len > 0 && copy_directory(engine, caller, spec, answer, &err) == 0)
            return;
        if (spec->sandbox.len > 0)
            sandbox = sandbox_find(engine, caller, spec->sandbox, &err);
    }
    if (sandbox == NULL) {
        answer_give(answer, &err);
        return;
    }
    id_new(answer->id);
    struct snapshot *snapshot =
        snapshot_new(engine, str_of(answer->id), caller->tenant, spec->slug, STR("sandbox"));
    snapshot->info.tier = sandbox->info.tier;
    snapshot->info.created_ms = clock_date_ms();
    snapshot->ord = engine_order(engine);
    struct store_batch *batch = store_begin(engine->store);
    save(snapshot, batch);
    feed_publish(engine, batch, EVENT_SNAPSHOT_BUILDING, snapshot->info.tenant, snapshot->info.id,
                 sandbox->info.id, "building", "");
    store_commit(batch, STORE_QUICK, NULL, NULL);
    struct shooting *shooting = mem_alloc(sizeof *shooting);
    *shooting = (struct shooting){.want = {.needs_running = true, .call = ready},
                                  .engine = engine,
                                  .snapshot = snapshot,
                                  .answer = answer};
    sandbox_wait(sandbox, &shooting->want);
}

/* --- From dependencies --- */

struct snapshot *snapshot_build_begin(struct engine *engine, struct str tenant, struct str slug,
                                      struct str source, char ret_id[ID_SIZE])
{
    id_new(ret_id);
    struct snapshot *snapshot = snapshot_new(engine, str_of(ret_id), tenant, slug, source);
    snapshot->info.tier = ENGINE_TIER_JAIL;
    snapshot->info.created_ms = clock_date_ms();
    snapshot->ord = engine_order(engine);
    struct store_batch *batch = store_begin(engine->store);
    save(snapshot, batch);
    feed_publish(engine, batch, EVENT_SNAPSHOT_BUILDING, tenant, snapshot->info.id, (struct str){0},
                 "building", "");
    store_commit(batch, STORE_QUICK, NULL, NULL);
    return snapshot;
}

/* Whose it is, for /readyz. */
static void note_configured(struct snapshot *snapshot, const char *state, const char *detail)
{
    struct engine_dependencies *told = &snapshot->engine->dependencies;
    if (!str_eq(snapshot->info.tenant, STR(CONFIGURED)) ||
        !str_eq(snapshot->info.slug, str_of(told->slug)))
        return;
    told->state = state;
    (void)snprintf(told->detail, sizeof told->detail, "%s", detail);
}

void snapshot_build_in(struct engine *engine, struct str id, struct str sandbox)
{
    struct snapshot *snapshot = map_get(&engine->snapshots, id);
    struct store_batch *batch = store_begin(engine->store);
    buf_clear(&snapshot->image);
    buf_printf(&snapshot->image, BUILT_IN "%.*s", STR_ARG(sandbox));
    save(snapshot, batch);
    store_commit(batch, STORE_QUICK, NULL, NULL);
}

void snapshot_build_progress(struct engine *engine, struct str id, const char *detail)
{
    struct snapshot *snapshot = map_get(&engine->snapshots, id);
    struct store_batch *batch = store_begin(engine->store);
    (void)snprintf(snapshot->detail, sizeof snapshot->detail, "%s", detail);
    note_configured(snapshot, "building", detail);
    log_info("snapshot.building", LOG_VIEW("snapshot", snapshot->info.id),
             LOG_VIEW("slug", snapshot->info.slug), LOG_STR("detail", detail));
    feed_publish(engine, batch, EVENT_SNAPSHOT_BUILDING, snapshot->info.tenant, snapshot->info.id,
                 (struct str){0}, "building", detail);
    store_commit(batch, STORE_QUICK, NULL, NULL);
}

void snapshot_build_ready(struct engine *engine, struct str id, struct str image, int64_t size,
                          store_done *done, void *ctx)
{
    struct snapshot *snapshot = map_get(&engine->snapshots, id);
    struct store_batch *batch = store_begin(engine->store);
    buf_clear(&snapshot->image);
    buf_put(&snapshot->image, image);
    snapshot->info.size_bytes = size;
    snapshot->info.state = SNAPSHOT_READY;
    snapshot->detail[0] = '\0';
    note_configured(snapshot, "ready", "");
    log_info("snapshot.ready", LOG_VIEW("snapshot", snapshot->info.id),
             LOG_VIEW("slug", snapshot->info.slug), LOG_INT("bytes", size));
    save(snapshot, batch);
    feed_publish(engine, batch, EVENT_SNAPSHOT_READY, snapshot->info.tenant, snapshot->info.id,
                 (struct str){0}, "ready", "");
    store_commit(batch, STORE_DURABLE, done, ctx);
}

void snapshot_build_failed(struct engine *engine, struct str id, const struct err *why)
{
    struct snapshot *snapshot = map_get(&engine->snapshots, id);
    if (snapshot == NULL)
        return;
    log_warn("snapshot.failed", LOG_VIEW("snapshot", snapshot->info.id),
             LOG_VIEW("slug", snapshot->info.slug), LOG_STR("error", why->msg));
    note_configured(snapshot, "failed", why->msg);
    struct store_batch *batch = store_begin(engine->store);
    store_remove(batch, &store_snapshots, snapshot->info.id);
    feed_publish(engine, batch, EVENT_SNAPSHOT_FAILED, snapshot->info.tenant, snapshot->info.id,
                 (struct str){0}, "failed", why->msg);
    store_commit(batch, STORE_QUICK, NULL, NULL);
    (void)map_remove(&engine->snapshots, snapshot->info.id);
    (void)snapshot_free(snapshot);
}

/* The same list is built once; who comes while it is built waits for it. */
static int build(struct engine *engine, const struct engine_caller *caller,
                 const struct snapshot_spec *spec, struct answer *answer, struct err *err)
{
    AUTO_ARENA struct arena arena = {0};
    struct snapshot_dependency *sorted = NULL;
    struct provider *provider = NULL;
    struct err none = {0};
    char slug[ENGINE_SLUG_SIZE];
    if (snapshot_dependencies(spec->dependencies, spec->dependency_count, &arena, &sorted, slug,
                              err) < 0 ||
        engine_provider(engine, ENGINE_TIER_JAIL, &provider, err) < 0)
        return -1;
    struct str name = spec->slug.len > 0 ? spec->slug : str_of(slug);
    struct snapshot *there = find(engine, caller->tenant, name, &none);
    if (there != NULL && spec->slug.len > 0)
        return err_set(err, ERR_CONFLICT, "there is a snapshot '%.*s' already", STR_ARG(name));
    if (there != NULL) {
        (void)snprintf(answer->id, sizeof answer->id, "%.*s", STR_ARG(there->info.id));
        if (!snapshot_build_join(engine, there->info.id, answer))
            answer_give(answer, NULL);
        return 0;
    }
    struct snapshot *snapshot =
        snapshot_build_begin(engine, caller->tenant, name, STR("dependencies"), answer->id);
    snapshot_build(engine, caller, snapshot->info.id, sorted, spec->dependency_count, answer);
    return 0;
}

/* --- From a directory of the host --- */

static void on_copied(void *ctx, struct str image, int64_t size, const struct err *why)
{
    struct shooting *shooting = ctx;
    if (why != NULL)
        fail(shooting, why);
    else
        snapshot_build_ready(shooting->engine, shooting->snapshot->info.id, image, size,
                             on_recorded, shooting);
}

/* The operator's word alone: it may name any directory that the server can read. */
static int copy_directory(struct engine *engine, const struct engine_caller *caller,
                          const struct snapshot_spec *spec, struct answer *answer, struct err *err)
{
    const struct provider_table *table = engine_table(engine, ENGINE_TIER_JAIL);
    struct provider *provider = NULL;
    char path[4096];
    if (!caller->is_operator)
        return err_set(err, ERR_FORBIDDEN, "directory: the scope 'admin' is needed");
    if (engine_provider(engine, ENGINE_TIER_JAIL, &provider, err) < 0 ||
        str_to_cstr(spec->directory, path, sizeof path, err) < 0)
        return -1;
    if (path[0] != '/')
        return err_set(err, ERR_INVALID, "directory: '%.100s' is not absolute", path);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "directory: open '%.100s'", path);
    struct shooting *shooting = mem_alloc(sizeof *shooting);
    *shooting = (struct shooting){.engine = engine, .answer = answer};
    shooting->snapshot =
        snapshot_build_begin(engine, caller->tenant, spec->slug, STR("directory"), answer->id);
    table->snapshot_directory(provider, fd_take(&fd), on_copied, shooting);
    return 0;
}

/* --- What the configuration asks for --- */

static void on_configured(UNUSED void *ctx, UNUSED const struct snapshot_info *snapshot,
                          UNUSED const struct err *why)
{
}

void snapshot_build_configured(struct engine *engine)
{
    const struct config_sandbox *config = &engine->config->sandbox;
    struct engine_caller caller = {.tenant = STR(CONFIGURED), .is_operator = true};
    AUTO_ARENA struct arena arena = {0};
    struct snapshot_dependency *sorted = NULL;
    struct err err = {0};
    if (!config->enabled || config->dependencies.len == 0)
        return;
    struct snapshot_dependency *list =
        arena_array(&arena, struct snapshot_dependency, config->dependencies.len);
    for (size_t i = 0; i < config->dependencies.len; i++)
        list[i] = (struct snapshot_dependency){config->dependencies.items[i].package,
                                               config->dependencies.items[i].version};
    struct engine_dependencies *told = &engine->dependencies;
    if (snapshot_dependencies(list, config->dependencies.len, &arena, &sorted, told->slug, &err) <
        0) {
        (void)snprintf(told->slug, sizeof told->slug, "deps");
        told->state = "failed";
        (void)snprintf(told->detail, sizeof told->detail, "%s", err.msg);
        log_error("snapshot.failed", LOG_STR("error", err.msg));
        return;
    }
    const struct snapshot *there = find(engine, caller.tenant, str_of(told->slug), &err);
    told->state = there == NULL ? "building" : "ready";
    if (there != NULL)
        return;
    struct snapshot_spec spec = {.dependencies = sorted,
                                 .dependency_count = config->dependencies.len};
    engine_snapshot_create(engine, &caller, &spec, on_configured, NULL);
}

/* --- Deleting --- */

struct going {
    struct snapshot *snapshot;
    struct answer *answer;
};

static void on_gone(void *ctx, const struct err *why)
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
                                   buf_str(&snapshot->image), on_gone, going->answer);
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
        snapshot = find(engine, caller->tenant, id, &err);
    if (snapshot == NULL) {
        answer_give(answer, &err);
        return;
    }
    if (!str_eq(snapshot->info.tenant, caller->tenant) && !caller->is_operator) {
        answer_fail(answer, ERR_FORBIDDEN, "snapshot '%.*s' is the configuration's", STR_ARG(id));
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
    feed_publish(engine, batch, EVENT_SNAPSHOT_DELETED, snapshot->info.tenant, snapshot->info.id,
                 (struct str){0}, "", "");
    store_commit(batch, STORE_DURABLE, on_forgotten, going);
}
