/* Names in place of ids, and how long sandboxes are kept. */

#include "base/map.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox_internal.h"
#include "rig.h"

static int make(struct rig *rig, const char *name, char id[64])
{
    int made = rig_create(rig, &(struct sandbox_spec){.name = str_of(name)});
    (void)snprintf(id, 64, "%s", rig->id);
    return made;
}

TEST(a_name_stands_for_an_id_while_only_one_has_it)
{
    struct rig rig;
    char first[64], second[64];
    struct err err = {0};
    struct sandbox_info info;
    rig_open(&rig, NULL);
    CHECK_INT(make(&rig, "data work", first), 0);
    CHECK_OK(engine_sandbox_get(rig.engine, &rig.caller, STR("data work"), &info, &err));
    CHECK_STR(info.id, first);
    CHECK_INT(rig_write(&rig, "data work", "/workspace/a", "by name"), 0);
    CHECK_INT(rig_read(&rig, first, "/workspace/a"), 0);
    CHECK_CSTR(rig.texts[0], "by name");
    CHECK_INT(make(&rig, "data work", second), 0);
    CHECK_ERR(engine_sandbox_get(rig.engine, &rig.caller, STR("data work"), &info, &err),
              ERR_CONFLICT);
    CHECK(strstr(err.msg, "2 sandboxes are named 'data work'") != NULL);
    CHECK(strstr(err.msg, first) != NULL && strstr(err.msg, second) != NULL);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_delete, str_of(first), rig_on_plain), 0);
    CHECK_OK(engine_sandbox_get(rig.engine, &rig.caller, STR("data work"), &info, &err));
    CHECK_STR(info.id, second);
    struct engine_caller stranger = {.tenant = STR("stranger")};
    CHECK_ERR(engine_sandbox_get(rig.engine, &stranger, STR("data work"), &info, &err),
              ERR_NOT_FOUND);
    CHECK_ERR(engine_sandbox_get(rig.engine, &rig.caller, STR(""), &info, &err), ERR_NOT_FOUND);

    struct session_spec spec = {.id = STR("session-1"), .name = STR("mine")};
    CHECK_INT(RIG_CALL(&rig, engine_session_create, &spec, rig_on_session), 0);
    struct session_info session;
    CHECK_OK(engine_session_get(rig.engine, &rig.caller, STR("mine"), &session, &err));
    CHECK_STR(session.id, "session-1");
    spec.id = STR("session-2");
    CHECK_INT(RIG_CALL(&rig, engine_session_create, &spec, rig_on_session), 0);
    CHECK_ERR(engine_session_get(rig.engine, &rig.caller, STR("mine"), &session, &err),
              ERR_CONFLICT);
    rig_done(&rig);
}

static void age(struct rig *rig, const char *id, int64_t days)
{
    struct sandbox *sandbox = map_get(&rig->engine->sandboxes, str_of(id));
    CHECK(sandbox != NULL);
    int64_t ms = days * 86400000;
    sandbox->info.created_ms -= ms;
    sandbox->info.active_ms -= ms;
    if (sandbox->info.ended_ms > 0)
        sandbox->info.ended_ms -= ms;
}

static bool is_there(struct rig *rig, const char *id)
{
    struct sandbox_info info;
    struct err err = {0};
    return engine_sandbox_get(rig->engine, &rig->caller, str_of(id), &info, &err) == 0;
}

/* As one that stopped, which gives its place back, but with the state of one that failed. */
static void make_failed(struct rig *rig, const char *name, char id[64])
{
    CHECK_INT(make(rig, name, id), 0);
    CHECK_INT(RIG_CALL(rig, engine_sandbox_stop, str_of(id), rig_on_sandbox), 0);
    struct sandbox *sandbox = map_get(&rig->engine->sandboxes, str_of(id));
    CHECK(sandbox != NULL);
    sandbox->info.state = SANDBOX_FAILED;
}

static void check_retention(const char *toml, bool keeps_stopped, bool keeps_failed,
                            bool keeps_paused)
{
    struct rig rig;
    char running[64], stopped[64], fresh[64], paused[64], failed[64], failed_late[64];
    rig_open(&rig, toml);
    CHECK_INT(make(&rig, "running", running), 0);
    CHECK_INT(make(&rig, "stopped", stopped), 0);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_stop, str_of(stopped), rig_on_sandbox), 0);
    CHECK_INT(make(&rig, "fresh", fresh), 0);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_stop, str_of(fresh), rig_on_sandbox), 0);
    make_failed(&rig, "failed", failed);
    make_failed(&rig, "failed late", failed_late);
    CHECK_INT(make(&rig, "paused", paused), 0);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_pause, str_of(paused), rig_on_sandbox), 0);
    age(&rig, running, 100);
    age(&rig, stopped, 8);
    age(&rig, fresh, 6);
    age(&rig, failed, 31);
    age(&rig, failed_late, 29);
    age(&rig, paused, 100);
    sandbox_retain(rig.engine);
    rig_run_ms(&rig, 300);
    for (int i = 0; i < 6000 && ((!keeps_stopped && is_there(&rig, stopped)) ||
                                 (!keeps_failed && is_there(&rig, failed)) ||
                                 (!keeps_paused && is_there(&rig, paused)));
         i++)
        rig_run_ms(&rig, 20);
    CHECK(is_there(&rig, running) && is_there(&rig, fresh) && is_there(&rig, failed_late));
    CHECK_INT(is_there(&rig, stopped), keeps_stopped);
    CHECK_INT(is_there(&rig, failed), keeps_failed);
    CHECK_INT(is_there(&rig, paused), keeps_paused);
    rig_done(&rig);
}

TEST(what_has_stopped_or_failed_goes_after_its_days_and_what_is_paused_stays)
{
    check_retention(NULL, false, false, true);
}

TEST(retention_is_as_configured)
{
    check_retention("[sandbox]\nprovider = \"memory\"\n"
                    "[retention]\nstopped_days = 0\npaused_days = 50\n",
                    true, false, false);
    check_retention("[sandbox]\nprovider = \"memory\"\n[retention]\nfailed_days = 0\n", false, true,
                    true);
}
