/* The snapshot of the packages that the configuration asks for. */

#include "base/log.h"
#include "base/map.h"
#include "config/config.h"
#include "engine/internal.h"
#include "engine/snapshot/snapshot_build.h"
#include "engine/snapshot/snapshot_internal.h"
#include "store/store.h"

/* --- What was configured before --- */

static void ignore_deleted(UNUSED void *ctx, UNUSED const struct err *why)
{
}

/* A list of packages that is no longer configured has a snapshot that nobody can see; one that
 * sandboxes still stand on stays until a later start. */
static void drop_old(struct engine *engine)
{
    struct engine_caller caller = {.tenant = STR(CONFIGURED), .is_operator = true};
    MAP_EACH (entry, &engine->snapshots) {
        const struct snapshot *snapshot = entry->value;
        if (!str_eq(snapshot->info.tenant, STR(CONFIGURED)) ||
            snapshot->info.state != SNAPSHOT_READY || snapshot->is_deleting ||
            str_eq(snapshot->info.slug, str_of(engine->dependencies.slug)))
            continue;
        log_info("snapshot.old", LOG_VIEW("snapshot", snapshot->info.id),
                 LOG_VIEW("slug", snapshot->info.slug));
        engine_snapshot_delete(engine, &caller, snapshot->info.id, ignore_deleted, NULL);
    }
}

/* --- What became of it --- */

/* Whose it is, for /readyz. */
void snapshot_note_configured(struct snapshot *snapshot, const char *state, const char *detail)
{
    struct engine_dependencies *told = &snapshot->engine->dependencies;
    if (!str_eq(snapshot->info.tenant, STR(CONFIGURED)) ||
        !str_eq(snapshot->info.slug, str_of(told->slug)))
        return;
    told->state = state;
    (void)snprintf(told->detail, sizeof told->detail, "%s", detail);
}

/* Which packages are not there, for /readyz. */
static void note_missing(const struct snapshot *snapshot, struct buf *out)
{
    size_t count = 0;
    for (size_t i = 0; i < snapshot->info.package_count; i++) {
        const struct snapshot_package *package = &snapshot->info.packages[i];
        if (package->is_missing)
            buf_printf(out, "%s%.*s", count++ == 0 ? "not installed: " : ", ",
                       STR_ARG(package->package));
    }
}

void snapshot_configured_is_ready(struct snapshot *snapshot)
{
    AUTO_BUF struct buf missing = {0};
    note_missing(snapshot, &missing);
    snapshot_note_configured(snapshot, "ready", buf_cstr(&missing));
    if (str_eq(snapshot->info.tenant, STR(CONFIGURED)))
        drop_old(snapshot->engine);
}

/* --- A snapshot that lacks packages is built again at the next start --- */

static bool lacks_some(const struct snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->info.package_count; i++)
        if (snapshot->info.packages[i].is_missing)
            return true;
    return false;
}

static void rename_to(struct snapshot *snapshot, struct str slug)
{
    struct store_batch *batch = store_begin(snapshot->engine->store);
    snapshot->info.slug = arena_dup(&snapshot->arena, slug);
    snapshot_save(snapshot, batch);
    store_commit(batch, STORE_QUICK, NULL, NULL);
}

/* Its slug is for the new one; drop_old removes it then. */
static void set_aside(struct snapshot *snapshot)
{
    AUTO_BUF struct buf slug = {0};
    buf_printf(&slug, "old-%.20s", snapshot->info.id.ptr);
    rename_to(snapshot, buf_str(&slug));
    snapshot->engine->set_aside = snapshot->info.id;
}

/* No new one could be built: better some of the packages than none. */
static void take_back(struct engine *engine)
{
    struct snapshot *snapshot = map_get(&engine->snapshots, engine->set_aside);
    if (engine->set_aside.len == 0 || snapshot == NULL)
        return;
    engine->set_aside = (struct str){0};
    rename_to(snapshot, str_of(engine->dependencies.slug));
    snapshot_configured_is_ready(snapshot);
}

/* --- At start --- */

/* The failure of a build that did not begin has not been reported yet. */
static void on_configured(void *ctx, UNUSED const struct snapshot_info *snapshot,
                          const struct err *why)
{
    struct engine *engine = ctx;
    struct engine_dependencies *told = &engine->dependencies;
    if (why == NULL)
        return;
    if (strcmp(told->state, "building") == 0) {
        told->state = "failed";
        (void)snprintf(told->detail, sizeof told->detail, "%s", why->msg);
        log_warn("snapshot.failed", LOG_STR("slug", told->slug), LOG_STR("error", why->msg));
    }
    take_back(engine);
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
    /* Isolates need more of them than other sessions: see snapshot_packages.c. */
    if (config->provider == CONFIG_TIER_ISOLATE)
        (void)snprintf(told->slug + strlen(told->slug), sizeof told->slug - strlen(told->slug),
                       "-js");
    struct snapshot *there = snapshot_find(engine, caller.tenant, str_of(told->slug), &err);
    told->state = "building";
    if (there != NULL && !lacks_some(there)) {
        told->state = "ready";
        drop_old(engine);
        return;
    }
    if (there != NULL)
        set_aside(there);
    struct snapshot_spec spec = {.slug = str_of(told->slug),
                                 .dependencies = sorted,
                                 .dependency_count = config->dependencies.len};
    engine_snapshot_create(engine, &caller, &spec, on_configured, engine);
}
