/* What one tenant may hold at a time: in its sandboxes with their checkpoints, whoever made them,
 * in its volumes and in its snapshots. */

#include "engine/config.h"
#include "engine/internal.h"
#include "engine/session_internal.h"
#include "engine/snapshot_internal.h"

static bool holds_place(const struct sandbox *sandbox)
{
    return sandbox->info.state != SANDBOX_STOPPED && sandbox->info.state != SANDBOX_FAILED;
}

/* A checkpoint of a jail lies on those before it and its size counts theirs; elsewhere each is a
 * copy of the whole. */
static int64_t checkpoint_bytes(const struct sandbox *sandbox)
{
    int64_t sum = 0, most = 0;
    VEC_EACH (checkpoint, &sandbox->checkpoints) {
        sum += checkpoint->size_bytes;
        most = MAX(most, checkpoint->size_bytes);
    }
    return sandbox->info.tier == ENGINE_TIER_JAIL ? most : sum;
}

static struct engine_quota held_by(const struct engine *engine, struct str tenant)
{
    struct engine_quota held = {.disk_bytes = volume_bytes(engine, tenant)};
    MAP_EACH (entry, &engine->sandboxes) {
        const struct sandbox *sandbox = entry->value;
        if (!str_eq(sandbox->info.tenant, tenant))
            continue;
        held.disk_bytes += checkpoint_bytes(sandbox);
        if (!holds_place(sandbox))
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
                       "more than %lld bytes of disk in all sandboxes, checkpoints, volumes and "
                       "snapshots: delete some",
                       (long long)quota->disk_bytes);
    return 0;
}

/* --- How many --- */

static size_t count_sandboxes(const struct engine *engine, struct str tenant)
{
    size_t count = 0;
    MAP_EACH (entry, &engine->sandboxes) {
        const struct sandbox *sandbox = entry->value;
        count += !sandbox->is_helper && str_eq(sandbox->info.tenant, tenant);
    }
    return count;
}

static size_t count_sessions(const struct engine *engine, struct str tenant)
{
    size_t count = 0;
    MAP_EACH (entry, &engine->sessions)
        count += str_eq(((const struct session *)entry->value)->info.tenant, tenant);
    return count;
}

static size_t count_snapshots(const struct engine *engine, struct str tenant)
{
    size_t count = 0;
    MAP_EACH (entry, &engine->snapshots)
        count += str_eq(((const struct snapshot *)entry->value)->info.tenant, tenant);
    return count;
}

static size_t count_checkpoints(const struct engine *engine, struct str tenant)
{
    size_t count = 0;
    MAP_EACH (entry, &engine->sandboxes) {
        const struct sandbox *sandbox = entry->value;
        if (str_eq(sandbox->info.tenant, tenant))
            count += sandbox->checkpoints.len;
    }
    return count;
}

static const struct {
    const char *name;
    size_t limit; /* where it stands among the limits */
    size_t (*count)(const struct engine *engine, struct str tenant);
} kinds[] = {
    [QUOTA_SANDBOXES] = {"sandboxes", offsetof(struct config_limits, sandboxes), count_sandboxes},
    [QUOTA_SESSIONS] = {"sessions", offsetof(struct config_limits, sessions), count_sessions},
    [QUOTA_VOLUMES] = {"volumes", offsetof(struct config_limits, volumes), volume_count},
    [QUOTA_SNAPSHOTS] = {"snapshots", offsetof(struct config_limits, snapshots), count_snapshots},
    [QUOTA_CHECKPOINTS] = {"checkpoints", offsetof(struct config_limits, checkpoints),
                           count_checkpoints},
};

int quota_check_count(const struct engine *engine, struct str tenant, enum quota_kind kind,
                      struct err *err)
{
    const char *limits = (const char *)&engine->config->limits;
    int64_t limit = *(const int64_t *)(const void *)(limits + kinds[kind].limit);
    if (limit == 0 || (int64_t)kinds[kind].count(engine, tenant) < limit)
        return 0;
    return err_set(err, ERR_LIMIT,
                   "there are %lld %s already, as many as one tenant may have: delete some, or "
                   "raise limits.%s in the server's configuration",
                   (long long)limit, kinds[kind].name, kinds[kind].name);
}
