/* Making snapshots: of what a sandbox has written, of packages, and of a directory of the host.
 * Archives are snapshot_stream.c's. */

#include <errno.h>
#include <fcntl.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "config/config.h"
#include "engine/answer.h"
#include "engine/feed_internal.h"
#include "engine/internal.h"
#include "engine/key.h"
#include "engine/quota.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/snapshot/snapshot_build.h"
#include "engine/snapshot/snapshot_internal.h"
#include "store/store.h"

/* --- Of a sandbox --- */

struct shooting {
    struct want want;
    struct engine *engine;
    struct snapshot *snapshot;
    struct sandbox *sandbox;
    char sandbox_id[ID_SIZE];
    struct answer *answer;
};

static void deliver(struct answer *answer, const struct err *why)
{
    const struct snapshot *snapshot =
        why == NULL ? map_get(&answer->engine->snapshots, str_of(answer->id)) : NULL;
    struct snapshot_info info = {0};
    struct err gone = {0};
    if (snapshot != NULL) {
        info = snapshot_view(snapshot);
    } else if (why == NULL) {
        (void)err_set(&gone, ERR_NOT_FOUND, "no snapshot '%s'", answer->id);
        why = &gone;
    }
    answer->done.snapshot(answer->ctx, why == NULL ? &info : NULL, why);
}

bool snapshot_is_there(struct engine *engine, struct str id)
{
    const struct snapshot *snapshot = map_get(&engine->snapshots, id);
    return snapshot != NULL && !snapshot->is_deleting;
}

static void tell_known(struct answer *answer, struct str id)
{
    (void)snprintf(answer->id, sizeof answer->id, "%.*s", STR_ARG(id));
}

/* Its record and the key of its creator are written together. */
static void record(struct snapshot *snapshot, store_done *done, void *ctx)
{
    struct store_batch *batch = store_begin(snapshot->engine->store);
    snapshot_save(snapshot, batch);
    key_keep(snapshot->claim, snapshot->info.id, batch);
    snapshot->claim = NULL;
    feed_publish(snapshot->engine, batch, EVENT_SNAPSHOT_READY, snapshot->info.tenant,
                 snapshot->info.id, (struct str){0}, "ready", "");
    store_commit(batch, STORE_DURABLE, done, ctx);
}

/* The build has failed: its row is removed, and waiting requests get the reason. */
static void forget(struct engine *engine, struct snapshot *snapshot, const struct err *why)
{
    struct store_batch *batch = store_begin(engine->store);
    store_remove(batch, &store_snapshots, snapshot->info.id);
    feed_publish(engine, batch, EVENT_SNAPSHOT_FAILED, snapshot->info.tenant, snapshot->info.id,
                 (struct str){0}, "failed", why->msg);
    store_commit(batch, STORE_QUICK, NULL, NULL);
    (void)map_remove(&engine->snapshots, snapshot->info.id);
    (void)snapshot_free(snapshot);
}

static void snapshot_make_fail(struct shooting *shooting, const struct err *why)
{
    struct engine *engine = shooting->engine;
    struct snapshot *snapshot = shooting->snapshot;
    log_warn("snapshot.failed", LOG_VIEW("snapshot", snapshot->info.id),
             LOG_ID("sandbox", str_of(shooting->sandbox_id)), LOG_STR("error", why->msg));
    forget(engine, snapshot, why);
    answer_give(shooting->answer, why);
    free(shooting);
}

static void snapshot_make_ignore(UNUSED void *ctx, UNUSED const struct err *why)
{
}

/* It is there, and its size is known. False: it is too much for its tenant, and goes again. */
static bool settle(struct shooting *shooting, struct str image, int64_t size)
{
    struct engine *engine = shooting->engine;
    enum engine_tier tier = shooting->snapshot->info.tier;
    const struct provider_table *table = engine_table(engine, tier);
    struct err err = {0};
    shooting->snapshot->info.size_bytes = size;
    if (quota_settle(&shooting->answer->reservation, &err) == 0)
        return true;
    AUTO_BUF struct buf copy = {0};
    buf_put(&copy, image);
    snapshot_make_fail(shooting, &err);
    if (table->snapshot_delete != NULL && engine->providers[tier] != NULL)
        table->snapshot_delete(engine->providers[tier], buf_str(&copy), snapshot_make_ignore, NULL);
    return false;
}

static void snapshot_make_on_recorded(void *ctx, const struct err *why)
{
    struct shooting *shooting = ctx;
    if (why != NULL) {
        snapshot_make_fail(shooting, why);
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
        snapshot_make_fail(shooting, why);
        return;
    }
    if (!settle(shooting, image, size))
        return;
    buf_put(&snapshot->image, image);
    snapshot->info.state = SNAPSHOT_READY;
    record(snapshot, snapshot_make_on_recorded, shooting);
}

static void ready(struct want *want, struct sandbox *sandbox, const struct err *why)
{
    struct shooting *shooting = (struct shooting *)want;
    struct err err = {0};
    if (why != NULL) {
        snapshot_make_fail(shooting, why);
        return;
    }
    const struct provider_table *table = engine_table(shooting->engine, sandbox->info.tier);
    if (table->snapshot_create == NULL) {
        (void)engine_unsupported(sandbox->info.tier, "become a snapshot", &err);
        snapshot_make_fail(shooting, &err);
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
                       "slug: must have 8 to 64 lower-case letters, digits, '-' and '_'");
    if (snapshot_find(engine, caller->tenant, slug, &none) != NULL)
        return err_set(err, ERR_CONFLICT, "snapshot '%.*s' already exists", STR_ARG(slug));
    return 0;
}

static int shoot(struct engine *engine, const struct engine_caller *caller,
                 const struct snapshot_spec *spec, struct answer *answer, struct err *err)
{
    struct sandbox *sandbox = NULL;
    if (quota_check_count(engine, caller->tenant, QUOTA_SNAPSHOTS, err) == 0)
        sandbox = sandbox_find(engine, caller, spec->sandbox, err);
    if (sandbox == NULL)
        return -1;
    id_new(answer->id);
    struct snapshot *snapshot =
        snapshot_new(engine, str_of(answer->id), caller->tenant, spec->slug, STR("sandbox"));
    snapshot->info.tier = sandbox->info.tier;
    snapshot->info.created_ms = clock_date_ms();
    snapshot->ord = engine_order(engine);
    snapshot->claim = answer->claim;
    struct store_batch *batch = store_begin(engine->store);
    snapshot_save(snapshot, batch);
    feed_publish(engine, batch, EVENT_SNAPSHOT_BUILDING, snapshot->info.tenant, snapshot->info.id,
                 sandbox->info.id, "building", "");
    store_commit(batch, STORE_QUICK, NULL, NULL);
    struct shooting *shooting = mem_alloc(sizeof *shooting);
    *shooting = (struct shooting){.want = {.needs_running = true, .call = ready},
                                  .engine = engine,
                                  .snapshot = snapshot,
                                  .answer = answer};
    (void)snprintf(shooting->sandbox_id, sizeof shooting->sandbox_id, "%.*s",
                   STR_ARG(sandbox->info.id));
    sandbox_wait(sandbox, &shooting->want);
    return 0;
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
    snapshot_save(snapshot, batch);
    feed_publish(engine, batch, EVENT_SNAPSHOT_BUILDING, tenant, snapshot->info.id, (struct str){0},
                 "building", "");
    store_commit(batch, STORE_QUICK, NULL, NULL);
    return snapshot;
}

void snapshot_build_in(struct engine *engine, struct str id, struct str sandbox)
{
    struct snapshot *snapshot = map_get(&engine->snapshots, id);
    struct store_batch *batch = store_begin(engine->store);
    buf_clear(&snapshot->image);
    buf_printf(&snapshot->image, BUILT_IN "%.*s", STR_ARG(sandbox));
    snapshot_save(snapshot, batch);
    store_commit(batch, STORE_QUICK, NULL, NULL);
}

void snapshot_build_progress(struct engine *engine, struct str id, const char *detail)
{
    struct snapshot *snapshot = map_get(&engine->snapshots, id);
    struct store_batch *batch = store_begin(engine->store);
    (void)snprintf(snapshot->detail, sizeof snapshot->detail, "%s", detail);
    snapshot_note_configured(snapshot, "building", detail);
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
    buf_clear(&snapshot->image);
    buf_put(&snapshot->image, image);
    snapshot->info.size_bytes = size;
    snapshot->info.state = SNAPSHOT_READY;
    snapshot->detail[0] = '\0';
    snapshot_configured_is_ready(snapshot);
    log_info("snapshot.ready", LOG_VIEW("snapshot", snapshot->info.id),
             LOG_VIEW("slug", snapshot->info.slug), LOG_INT("bytes", size));
    record(snapshot, done, ctx);
}

void snapshot_build_failed(struct engine *engine, struct str id, const struct err *why)
{
    struct snapshot *snapshot = map_get(&engine->snapshots, id);
    if (snapshot == NULL)
        return;
    log_warn("snapshot.failed", LOG_VIEW("snapshot", snapshot->info.id),
             LOG_VIEW("slug", snapshot->info.slug), LOG_STR("error", why->msg));
    snapshot_note_configured(snapshot, "failed", why->msg);
    forget(engine, snapshot, why);
}

/* The key's object is a snapshot that another request makes or has made. */
static void keep_key(struct engine *engine, struct answer *answer)
{
    if (answer->claim == NULL)
        return;
    struct store_batch *batch = store_begin(engine->store);
    key_keep(answer->claim, str_of(answer->id), batch);
    store_commit(batch, STORE_QUICK, NULL, NULL);
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
    struct snapshot *there = snapshot_find(engine, caller->tenant, name, &none);
    if (there != NULL && spec->slug.len > 0)
        return err_set(err, ERR_CONFLICT, "snapshot '%.*s' already exists", STR_ARG(name));
    if (there != NULL) {
        (void)snprintf(answer->id, sizeof answer->id, "%.*s", STR_ARG(there->info.id));
        keep_key(engine, answer);
        if (!snapshot_build_join(engine, there->info.id, answer))
            answer_give(answer, NULL);
        return 0;
    }
    if (quota_check_count(engine, caller->tenant, QUOTA_SNAPSHOTS, err) < 0)
        return -1;
    struct snapshot *snapshot =
        snapshot_build_begin(engine, caller->tenant, name, STR("dependencies"), answer->id);
    snapshot->claim = answer->claim;
    bool is_configured = str_eq(caller->tenant, STR(CONFIGURED));
    struct build_how how = {.needs_bundles = is_configured && engine->config->sandbox.provider ==
                                                                  CONFIG_TIER_ISOLATE,
                            .may_leave_out = is_configured};
    snapshot_build(engine, caller, snapshot->info.id, sorted, spec->dependency_count, how, answer);
    return 0;
}

/* --- From a directory of the host --- */

static void on_copied(void *ctx, struct str image, int64_t size, const struct err *why)
{
    struct shooting *shooting = ctx;
    if (why != NULL)
        snapshot_make_fail(shooting, why);
    else if (settle(shooting, image, size))
        snapshot_build_ready(shooting->engine, shooting->snapshot->info.id, image, size,
                             snapshot_make_on_recorded, shooting);
}

/* Only for the operator: it may name any directory that the server can read, also the one with the
 * first token, which may approve; so the caller must be one who may. */
static int copy_directory(struct engine *engine, const struct engine_caller *caller,
                          const struct snapshot_spec *spec, struct answer *answer, struct err *err)
{
    const struct provider_table *table = engine_table(engine, ENGINE_TIER_JAIL);
    struct provider *provider = NULL;
    char path[4096];
    if (!caller->is_operator || !caller->may_approve)
        return err_set(err, ERR_FORBIDDEN, "directory: needs the scopes 'admin' and 'approve'");
    if (engine_provider(engine, ENGINE_TIER_JAIL, &provider, err) < 0 ||
        quota_check_count(engine, caller->tenant, QUOTA_SNAPSHOTS, err) < 0 ||
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
    shooting->snapshot->claim = answer->claim;
    table->snapshot_directory(provider, fd_take(&fd), on_copied, shooting);
    return 0;
}

/* --- Of either --- */

static int make(struct engine *engine, const struct engine_caller *caller,
                const struct snapshot_spec *spec, struct answer *answer, struct err *err)
{
    if (snapshot_check_slug(engine, caller, spec->slug, err) < 0)
        return -1;
    if (spec->dependency_count > 0)
        return build(engine, caller, spec, answer, err);
    return spec->directory.len > 0 ? copy_directory(engine, caller, spec, answer, err)
                                   : shoot(engine, caller, spec, answer, err);
}

/* One that waits for room on the disk. */
struct asking {
    struct answer *answer;
    struct arena arena;
    struct engine_caller caller;
    struct snapshot_spec spec;
};

static void snapshot_make_on_room(void *ctx, const struct err *why)
{
    struct asking *asking = ctx;
    struct err err = {0};
    if (why != NULL)
        answer_give(asking->answer, why);
    else if (make(asking->answer->engine, &asking->caller, &asking->spec, asking->answer, &err) < 0)
        answer_give(asking->answer, &err);
    arena_done(&asking->arena);
    free(asking);
}

/* The largest size of a sandbox's snapshot: its written files and the layers below them. */
static int64_t most_bytes(struct engine *engine, const struct engine_caller *caller,
                          struct str sandbox_id)
{
    struct err none = {0};
    const struct sandbox *sandbox = sandbox_find(engine, caller, sandbox_id, &none);
    int64_t most = sandbox == NULL ? 0 : sandbox->info.limits.disk_bytes;
    for (size_t i = 0; most > 0 && i < sandbox->info.snapshot_count; i++) {
        const struct snapshot *below =
            snapshot_find(engine, caller->tenant, sandbox->info.snapshots[i], &none);
        most += below == NULL ? 0 : below->info.size_bytes;
    }
    return most;
}

/* A build is in a sandbox of its own, whose disk counts as long as it lasts. */
static int snapshot_make_begin(struct engine *engine, const struct engine_caller *caller,
                               const struct snapshot_spec *spec, struct answer *answer,
                               struct err *err)
{
    if (spec->dependency_count > 0)
        return make(engine, caller, spec, answer, err);
    struct asking *asking = mem_alloc(sizeof *asking);
    asking->answer = answer;
    asking->caller = (struct engine_caller){.tenant = arena_dup(&asking->arena, caller->tenant),
                                            .is_operator = caller->is_operator,
                                            .may_approve = caller->may_approve,
                                            .quota = caller->quota};
    asking->spec = (struct snapshot_spec){.sandbox = arena_dup(&asking->arena, spec->sandbox),
                                          .directory = arena_dup(&asking->arena, spec->directory),
                                          .slug = arena_dup(&asking->arena, spec->slug)};
    quota_reserve(engine, caller, most_bytes(engine, caller, spec->sandbox), &answer->reservation,
                  snapshot_make_on_room, asking);
    return 0;
}

void engine_snapshot_create(struct engine *engine, const struct engine_caller *caller,
                            const struct snapshot_spec *spec, snapshot_done *done, void *ctx)
{
    struct answer *answer = answer_new(engine, deliver, ctx);
    struct err err = {0};
    int known = -1;
    answer->done.snapshot = done;
    size_t sources =
        (spec->dependency_count > 0) + (spec->directory.len > 0) + (spec->sandbox.len > 0);
    if (sources != 1)
        (void)err_set(&err, ERR_INVALID, "give one of dependencies, sandbox and directory");
    else if (engine_check_caller(engine, caller, &err) == 0)
        known = answer_claim(answer, caller, snapshot_is_there, tell_known, &err);
    if (known < 0 || (known == 0 && snapshot_make_begin(engine, caller, spec, answer, &err) < 0))
        answer_give(answer, &err);
}
