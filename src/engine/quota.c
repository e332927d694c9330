/* What one tenant may use at a time: in its sandboxes with their checkpoints (made by a request or
 * automatically) and the files that forks share with deleted sandboxes, in its volumes and in its
 * snapshots.
 *
 * Sandboxes and volumes count from the moment they are requested: all of it happens in one turn of
 * the loop. The size of a snapshot or a checkpoint is known only when it is complete. So such a job
 * reserves what it may need before it starts, and when it is done the tenant must be within its
 * quota, or the result is deleted. Jobs that may not fit together run one after the other. */

#include "engine/quota.h"

#include "base/map.h"
#include "config/config.h"
#include "engine/approval/approval_internal.h"
#include "engine/internal.h"
#include "engine/sandbox/bases.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/turn_internal.h"
#include "engine/session/session_internal.h"
#include "engine/snapshot/snapshot_internal.h"
#include "engine/volume/volume_internal.h"

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
    struct engine_quota held = {.disk_bytes =
                                    volume_bytes(engine, tenant) + bases_bytes(engine, tenant)};
    MAP_EACH (entry, &engine->sandboxes) {
        const struct sandbox *sandbox = entry->value;
        if (!str_eq(sandbox->info.tenant, tenant))
            continue;
        held.disk_bytes += checkpoint_bytes(sandbox) + history_bytes(&sandbox->history);
        if (!holds_place(sandbox))
            continue;
        held.sandboxes++;
        held.memory_bytes += sandbox->info.limits.memory_bytes + sandbox->raising_bytes;
        held.disk_bytes += sandbox->info.limits.disk_bytes + sandbox->raising_disk;
    }
    MAP_EACH (entry, &engine->sessions) {
        const struct session *session = entry->value;
        if (str_eq(session->info.tenant, tenant))
            held.disk_bytes += history_bytes(&session->history);
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
        return err_set(err, ERR_LIMIT,
                       "this server already has %d sandboxes, its maximum; delete some",
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
        return err_set(err, ERR_LIMIT, "the quota of %lld sandboxes would be exceeded; delete some",
                       (long long)quota->sandboxes);
    if (quota->memory_bytes > 0 && held.memory_bytes + more->memory_bytes > quota->memory_bytes)
        return err_set(err, ERR_LIMIT,
                       "the quota of %lld bytes of memory in all sandboxes would be exceeded; "
                       "delete some",
                       (long long)quota->memory_bytes);
    if (quota->disk_bytes > 0 && held.disk_bytes + more->disk_bytes > quota->disk_bytes)
        return err_set(err, ERR_LIMIT,
                       "the quota of %lld bytes of disk in all sandboxes, checkpoints, volumes and "
                       "snapshots would be exceeded; delete some",
                       (long long)quota->disk_bytes);
    return 0;
}

/* --- Works whose size is known at their end --- */

static bool is_of(const struct reservation *reservation, struct str tenant)
{
    return str_eq(str_of(reservation->tenant), tenant);
}

/* What its tenant has left, apart from what others have reserved. */
static int64_t room_of(const struct reservation *asked)
{
    return asked->quota.disk_bytes - held_by(asked->engine, str_of(asked->tenant)).disk_bytes;
}

/* The number of works of its tenant that have begun, and what they have reserved. */
static size_t count_others(const struct reservation *asked, int64_t *ret_bytes)
{
    size_t count = 0;
    *ret_bytes = 0;
    for (const struct reservation *other = asked->engine->reservations; other != NULL;
         other = other->next)
        if (other != asked && !other->is_waiting && is_of(other, str_of(asked->tenant)))
            count++, *ret_bytes += other->bytes;
    return count;
}

static int refuse_disk(const struct reservation *asked, struct err *err)
{
    return err_set(err, ERR_LIMIT,
                   "the quota of %lld bytes of disk in all sandboxes, checkpoints, volumes and "
                   "snapshots would be exceeded; delete some",
                   (long long)asked->quota.disk_bytes);
}

/* Grants it, refuses it, or leaves it waiting for the end of another. */
static void consider(struct reservation *asked)
{
    struct err err = {0};
    int64_t room = room_of(asked), reserved = 0;
    size_t others = count_others(asked, &reserved);
    if (asked->engine->is_stopping) {
        (void)err_set(&err, ERR_CANCELED, "the server is stopping");
    } else if (room <= 0) {
        (void)refuse_disk(asked, &err);
    } else if (others > 0 && room - reserved < asked->most_bytes) {
        asked->is_waiting = true;
        return;
    }
    asked->is_waiting = false;
    asked->bytes = err.code == ERR_NONE ? MIN(room, asked->most_bytes) : 0;
    asked->call(asked->ctx, err.code == ERR_NONE ? NULL : &err);
}

void quota_reserve(struct engine *engine, const struct engine_caller *caller, int64_t most_bytes,
                   struct reservation *asked, void (*call)(void *ctx, const struct err *why),
                   void *ctx)
{
    assert(asked->engine == NULL);
    if (caller->quota.disk_bytes <= 0) {
        call(ctx, NULL);
        return;
    }
    *asked = (struct reservation){.engine = engine,
                                  .quota = caller->quota,
                                  .most_bytes = most_bytes > 0 ? most_bytes : INT64_MAX,
                                  .call = call,
                                  .ctx = ctx};
    asked->tenant = mem_alloc(caller->tenant.len + 1);
    memcpy(asked->tenant, caller->tenant.ptr, caller->tenant.len);
    struct reservation **at = &engine->reservations;
    while (*at != NULL) /* the oldest first */
        at = &(*at)->next;
    *at = asked;
    consider(asked);
}

static struct reservation *next_waiting(const struct engine *engine, struct str tenant)
{
    struct reservation *other = engine->reservations;
    while (other != NULL && !(other->is_waiting && is_of(other, tenant)))
        other = other->next;
    return other;
}

void quota_release(struct reservation *asked)
{
    struct engine *engine = asked->engine;
    if (engine == NULL)
        return;
    char *tenant = asked->tenant;
    struct reservation **at = &engine->reservations, *next;
    while (*at != asked)
        at = &(*at)->next;
    *at = asked->next;
    *asked = (struct reservation){0};
    /* Each is granted or refused, until one must go on waiting. */
    while ((next = next_waiting(engine, str_of(tenant))) != NULL) {
        consider(next);
        if (next_waiting(engine, str_of(tenant)) == next)
            break;
    }
    free(tenant);
}

int quota_settle(struct reservation *asked, struct err *err)
{
    if (asked->engine == NULL)
        return 0;
    int64_t held = held_by(asked->engine, str_of(asked->tenant)).disk_bytes;
    asked->bytes = 0; /* what it is has been counted */
    return held > asked->quota.disk_bytes ? refuse_disk(asked, err) : 0;
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
            count += sandbox->checkpoints.len + sandbox->checkpoints_coming +
                     history_count(&sandbox->history);
    }
    MAP_EACH (entry, &engine->sessions) {
        const struct session *session = entry->value;
        if (str_eq(session->info.tenant, tenant))
            count += history_count(&session->history);
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
    [QUOTA_APPROVALS] = {"approvals", offsetof(struct config_limits, approvals),
                         approval_count_pending},
};

int quota_check_count(const struct engine *engine, struct str tenant, enum quota_kind kind,
                      struct err *err)
{
    const char *limits = (const char *)&engine->config->limits;
    int64_t limit = *(const int64_t *)(const void *)(limits + kinds[kind].limit);
    if (limit == 0 || (int64_t)kinds[kind].count(engine, tenant) < limit)
        return 0;
    return err_set(err, ERR_LIMIT,
                   "there are already %lld %s, the most that one tenant may have: delete some, or "
                   "raise limits.%s in the server's configuration",
                   (long long)limit, kinds[kind].name, kinds[kind].name);
}
