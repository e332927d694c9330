/* What one tenant may hold at a time: in its sandboxes, whoever made them, in its volumes and in
 * its snapshots. */

#include "engine/internal.h"
#include "engine/snapshot_internal.h"

static bool holds_place(const struct sandbox *sandbox)
{
    return sandbox->info.state != SANDBOX_STOPPED && sandbox->info.state != SANDBOX_FAILED;
}

static struct engine_quota held_by(const struct engine *engine, struct str tenant)
{
    struct engine_quota held = {.disk_bytes = volume_bytes(engine, tenant)};
    MAP_EACH (entry, &engine->sandboxes) {
        const struct sandbox *sandbox = entry->value;
        if (!holds_place(sandbox) || !str_eq(sandbox->info.tenant, tenant))
            continue;
        held.sandboxes++;
        held.memory_bytes += sandbox->info.limits.memory_bytes;
        held.disk_bytes += sandbox->info.limits.disk_bytes;
    }
    MAP_EACH (entry, &engine->snapshots) {
        const struct snapshot *snapshot = entry->value;
        if (str_eq(snapshot->info.tenant, tenant))
            held.disk_bytes += snapshot->info.size_bytes;
    }
    return held;
}

/* The machine's own bound, for all tenants together. */
static int check_places(const struct engine *engine, struct err *err)
{
    size_t all = 0;
    MAP_EACH (entry, &engine->sandboxes)
        all += holds_place(entry->value);
    if (all >= SANDBOXES_MAX)
        return err_set(err, ERR_LIMIT, "%d sandboxes are there already; delete some",
                       SANDBOXES_MAX);
    return 0;
}

int quota_check(const struct engine *engine, const struct engine_caller *caller,
                const struct engine_quota *more, struct err *err)
{
    const struct engine_quota *quota = &caller->quota;
    if (more->sandboxes > 0 && check_places(engine, err) < 0)
        return -1;
    if (quota->sandboxes <= 0 && quota->memory_bytes <= 0 && quota->disk_bytes <= 0)
        return 0;
    struct engine_quota held = held_by(engine, caller->tenant);
    if (quota->sandboxes > 0 && held.sandboxes + more->sandboxes > quota->sandboxes)
        return err_set(err, ERR_LIMIT, "more than %lld sandboxes: delete some",
                       (long long)quota->sandboxes);
    if (quota->memory_bytes > 0 && held.memory_bytes + more->memory_bytes > quota->memory_bytes)
        return err_set(err, ERR_LIMIT, "more than %lld bytes of memory in all sandboxes",
                       (long long)quota->memory_bytes);
    if (quota->disk_bytes > 0 && held.disk_bytes + more->disk_bytes > quota->disk_bytes)
        return err_set(err, ERR_LIMIT,
                       "more than %lld bytes of disk in all sandboxes, volumes and snapshots",
                       (long long)quota->disk_bytes);
    return 0;
}
