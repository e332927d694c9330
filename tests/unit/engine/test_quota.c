/* What one tenant may have: by number, for all, and by disk, for a token's quota. */

#include "rig.h"

static void on_session(void *ctx, UNUSED const struct session_info *session, const struct err *why)
{
    rig_on_plain(ctx, why);
}

static void on_volume(void *ctx, const struct volume_info *volume, const struct err *why)
{
    struct rig *rig = ctx;
    if (volume != NULL)
        (void)snprintf(rig->texts[3], sizeof rig->texts[3], "%.*s", STR_ARG(volume->id));
    rig_on_plain(rig, why);
}

static void on_snapshot(void *ctx, UNUSED const struct snapshot_info *snapshot,
                        const struct err *why)
{
    rig_on_plain(ctx, why);
}

static void on_checkpoint(void *ctx, UNUSED const struct sandbox_checkpoint *checkpoint,
                          const struct err *why)
{
    rig_on_plain(ctx, why);
}

static int checkpoint(struct rig *rig, const char *id)
{
    return RIG_CALL(rig, engine_sandbox_checkpoint, str_of(id), STR(""), on_checkpoint);
}

static void check_refused(const struct rig *rig, const char *key)
{
    CHECK_INT(rig->why.code, ERR_LIMIT);
    CHECK(strstr(rig->why.msg, key) != NULL);
}

static const char small[] = "[sandbox]\nprovider = \"memory\"\n[limits]\nsandboxes = 2\n"
                            "sessions = 1\nvolumes = 1\nsnapshots = 1\ncheckpoints = 2\n";

TEST(a_tenant_has_at_most_this_many_of_each)
{
    struct rig rig;
    rig_open(&rig, small);
    struct session_spec session = {.id = STR("session-1")}, second = {.id = STR("session-2")};
    CHECK_INT(RIG_CALL(&rig, engine_session_create, &session, on_session), 0);
    CHECK_INT(RIG_CALL(&rig, engine_session_create, &second, on_session), -1);
    check_refused(&rig, "limits.sessions");
    CHECK_INT(RIG_CALL(&rig, engine_session_delete, session.id, rig_on_plain), 0);
    CHECK_INT(RIG_CALL(&rig, engine_session_create, &second, on_session), 0);

    struct volume_spec volume = {.capacity_bytes = 1 << 20};
    CHECK_INT(RIG_CALL(&rig, engine_volume_create, &volume, on_volume), 0);
    CHECK_INT(RIG_CALL(&rig, engine_volume_create, &volume, on_volume), -1);
    check_refused(&rig, "limits.volumes");

    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    CHECK_INT(checkpoint(&rig, rig.id), 0);
    CHECK_INT(checkpoint(&rig, rig.id), 0);
    CHECK_INT(checkpoint(&rig, rig.id), -1);
    check_refused(&rig, "limits.checkpoints");
    struct snapshot_spec snapshot = {.sandbox = str_of(rig.id)};
    CHECK_INT(RIG_CALL(&rig, engine_snapshot_create, &snapshot, on_snapshot), 0);
    CHECK_INT(RIG_CALL(&rig, engine_snapshot_create, &snapshot, on_snapshot), -1);
    check_refused(&rig, "limits.snapshots");

    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), -1);
    check_refused(&rig, "limits.sandboxes");
    /* Its neighbour has its own. */
    rig.caller.tenant = STR("two");
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    rig_done(&rig);
}

TEST(a_limit_of_nothing_is_none)
{
    struct rig rig;
    rig_open(&rig, "[sandbox]\nprovider = \"memory\"\n[limits]\nvolumes = 0\n");
    struct volume_spec volume = {.capacity_bytes = 1 << 20};
    for (int i = 0; i < 5; i++)
        CHECK_INT(RIG_CALL(&rig, engine_volume_create, &volume, on_volume), 0);
    rig_done(&rig);
}

TEST(checkpoints_are_disk_in_a_tokens_quota)
{
    struct rig rig;
    char id[64];
    rig_open(&rig, NULL);
    struct sandbox_spec spec = {.limits.disk_bytes = 64 << 20};
    rig.caller.quota.disk_bytes = (64 << 20) + 200;
    CHECK_INT(rig_create(&rig, &spec), 0);
    (void)snprintf(id, sizeof id, "%s", rig.id);
    CHECK_INT(rig_write(&rig, id, "/f",
                        "more than a hundred bytes, of which each is written once, "
                        "and which the next checkpoint finds there before it"),
              0);
    /* Two at once, with room for one. */
    rig.awaited += 2;
    engine_sandbox_checkpoint(rig.engine, &rig.caller, str_of(id), STR(""), on_checkpoint, &rig);
    engine_sandbox_checkpoint(rig.engine, &rig.caller, str_of(id), STR(""), on_checkpoint, &rig);
    CHECK_INT(rig_wait(&rig), -1);
    check_refused(&rig, "checkpoints");
    CHECK_INT(checkpoint(&rig, id), -1);
    check_refused(&rig, "checkpoints");
    struct sandbox_info info;
    struct err err = {0};
    CHECK_OK(engine_sandbox_get(rig.engine, &rig.caller, str_of(id), &info, &err));
    CHECK_INT(info.checkpoint_count, 1);
    rig_close(&rig);
    rig_reopen(&rig);
    rig.caller.quota.disk_bytes = (64 << 20) + 200;
    CHECK_INT(checkpoint(&rig, id), -1);
    check_refused(&rig, "checkpoints");
    rig.caller.quota.disk_bytes = 0;
    CHECK_INT(checkpoint(&rig, id), 0);
    rig_done(&rig);
}
