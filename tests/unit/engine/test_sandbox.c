/* Sandboxes against the tier memory: their life, their lists, their pictures. */

#include "rig.h"

#include "base/id.h"

TEST(a_sandbox_is_made_found_and_deleted)
{
    struct rig rig;
    struct sandbox_info info;
    struct err err = {0};
    rig_open(&rig, NULL);
    struct engine_pair labels[] = {{STR("team"), STR("red")}};
    struct sandbox_spec spec = {.name = STR("first"), .metadata = {labels, 1}};
    CHECK_INT(rig_create(&rig, &spec), 0);
    CHECK(id_is_valid(str_of(rig.id)));
    CHECK_INT(rig.sandbox.state, SANDBOX_RUNNING);
    CHECK_OK(engine_sandbox_get(rig.engine, &rig.caller, str_of(rig.id), &info, &err));
    CHECK_STR(info.name, "first");
    CHECK_STR(info.metadata.items[0].value, "red");
    CHECK_STR(info.runtime, "none");
    /* No absolute limit unless asked for; the idle one is the configuration's. */
    CHECK_INT(info.expires_ms, 0);
    CHECK_INT(info.timeout_ms, 0);
    CHECK_INT(info.idle_ms, 300000);
    CHECK_INT(info.command_ms, 0);

    struct engine_caller other = {.tenant = STR("two")};
    CHECK_ERR(engine_sandbox_get(rig.engine, &other, str_of(rig.id), &info, &err), ERR_NOT_FOUND);
    char unknown[ID_SIZE];
    id_new(unknown);
    CHECK_ERR(engine_sandbox_get(rig.engine, &rig.caller, str_of(unknown), &info, &err),
              ERR_NOT_FOUND);

    CHECK_INT(RIG_CALL(&rig, engine_sandbox_delete, str_of(rig.id), rig_on_plain), 0);
    CHECK_ERR(engine_sandbox_get(rig.engine, &rig.caller, str_of(rig.id), &info, &err),
              ERR_NOT_FOUND);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_delete, str_of(rig.id), rig_on_plain), -1);
    CHECK_INT(rig.why.code, ERR_NOT_FOUND);
    rig_done(&rig);
}

TEST(bad_specs_are_refused_by_the_field)
{
    static const struct str nowhere[] = {{"nothere1", 8}};
    static const struct {
        struct sandbox_spec spec;
        enum err_code code;
        const char *text;
    } rows[] = {
        {{.runtime = {"python3", 7}}, ERR_UNSUPPORTED, "runtime"},
        {{.timeout_ms = -2}, ERR_INVALID, "timeoutMs"},
        {{.limits = {.pids = 5}}, ERR_INVALID, "limits.pids"},
        {{.network = {"allow", 5}}, ERR_INVALID, "network"},
        {{.network = {"allow x.test; private x.test=10.0.0.1:1", 39}}, ERR_FORBIDDEN, "network"},
        {{.name = {"a\nb", 3}}, ERR_INVALID, "name"},
        {{.volume = {"nothere1", 8}}, ERR_NOT_FOUND, "volume"},
        {{.snapshots = nowhere, .snapshot_count = 1}, ERR_NOT_FOUND, "snapshot"},
    };
    struct rig rig;
    rig_open(&rig, NULL);
    for (size_t i = 0; i < countof(rows); i++) {
        CHECK_INT(rig_create(&rig, &rows[i].spec), -1);
        CHECK_INT(rig.why.code, rows[i].code);
        CHECK(strstr(rig.why.msg, rows[i].text) != NULL);
    }
    struct sandbox_list list;
    struct err err = {0};
    AUTO_ARENA struct arena arena = {0};
    CHECK_OK(engine_sandbox_list(rig.engine, &rig.caller, &(struct sandbox_filter){0}, &arena,
                                 &list, &err));
    CHECK_INT(list.count, 0);
    rig_done(&rig);
}

TEST(lists_are_filtered_and_paged)
{
    struct rig rig;
    struct err err = {0};
    AUTO_ARENA struct arena arena = {0};
    rig_open(&rig, NULL);
    for (int i = 0; i < 7; i++) {
        struct engine_pair labels[] = {{STR("odd"), i % 2 == 1 ? STR("yes") : STR("no")}};
        CHECK_INT(rig_create(&rig, &(struct sandbox_spec){.metadata = {labels, 1}}), 0);
    }
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_stop, str_of(rig.id), rig_on_sandbox), 0);
    struct sandbox_list list;
    struct sandbox_filter filter = {.states = 1U << SANDBOX_RUNNING, .page = {.limit = 4}};
    CHECK_OK(engine_sandbox_list(rig.engine, &rig.caller, &filter, &arena, &list, &err));
    CHECK_INT(list.count, 4);
    filter.page.after = str_of(list.next);
    CHECK_OK(engine_sandbox_list(rig.engine, &rig.caller, &filter, &arena, &list, &err));
    CHECK_INT(list.count, 2);
    CHECK_CSTR(list.next, "");
    struct engine_pair odd[] = {{STR("odd"), STR("yes")}};
    filter = (struct sandbox_filter){.metadata = {odd, 1}};
    CHECK_OK(engine_sandbox_list(rig.engine, &rig.caller, &filter, &arena, &list, &err));
    CHECK_INT(list.count, 3);
    filter.page.after = STR("x");
    CHECK_ERR(engine_sandbox_list(rig.engine, &rig.caller, &filter, &arena, &list, &err),
              ERR_INVALID);
    rig_done(&rig);
}

/* A thousand rows of this kind would be too long for an answer. */
TEST(a_page_of_long_rows_ends_before_its_limit)
{
    struct rig rig;
    struct err err = {0};
    AUTO_ARENA struct arena arena = {0};
    char *value = mem_alloc(60 << 10);
    size_t all = 0, pages = 0;
    memset(value, '"', 60 << 10);
    struct engine_pair env[] = {{STR("A"), str_n(value, 60 << 10)}};
    rig_open(&rig, NULL);
    for (int i = 0; i < 90; i++)
        CHECK_INT(rig_create(&rig, &(struct sandbox_spec){.env = {env, 1}}), 0);
    struct sandbox_list list = {0};
    struct sandbox_filter filter = {.page = {.limit = 1000}};
    do {
        filter.page.after = arena_dup(&arena, str_of(list.next));
        CHECK_OK(engine_sandbox_list(rig.engine, &rig.caller, &filter, &arena, &list, &err));
        CHECK(list.count > 0 && list.count < 90);
        all += list.count;
        pages++;
    } while (list.next[0] != '\0');
    CHECK_INT(all, 90);
    CHECK_INT(pages, 2);
    free(value);
    rig_done(&rig);
}

TEST(pause_and_resume_keep_the_files_over_a_restart)
{
    struct rig rig;
    char id[64];
    rig_open(&rig, NULL);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    (void)snprintf(id, sizeof id, "%s", rig.id);
    CHECK_INT(rig_write(&rig, id, "/a/b.txt", "hello"), 0);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_pause, str_of(id), rig_on_sandbox), 0);
    CHECK_INT(rig.sandbox.state, SANDBOX_PAUSED);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_pause, str_of(id), rig_on_sandbox), 0); /* is there */
    rig_free(&rig);
    rig_reopen(&rig);
    CHECK_INT(rig_state(&rig, id), SANDBOX_PAUSED);
    CHECK_INT(rig_read(&rig, id, "/a/b.txt"), 0); /* work brings it back */
    CHECK_CSTR(rig.texts[0], "hello");
    CHECK_INT(rig_state(&rig, id), SANDBOX_RUNNING);
    rig_done(&rig);
}

TEST(what_ran_is_interrupted_after_a_restart_and_can_go_on)
{
    struct rig rig;
    rig_open(&rig, NULL);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    rig_free(&rig);
    rig_reopen(&rig);
    CHECK_INT(rig_state(&rig, rig.id), SANDBOX_INTERRUPTED);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_connect, str_of(rig.id), 0, rig_on_sandbox), 0);
    CHECK_INT(rig.sandbox.state, SANDBOX_RUNNING);
    rig_close(&rig); /* in good order: put aside */
    rig_reopen(&rig);
    CHECK_INT(rig_state(&rig, rig.id), SANDBOX_PAUSED);
    rig_done(&rig);
}

TEST(stopped_is_stopped)
{
    struct rig rig;
    rig_open(&rig, NULL);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_stop, str_of(rig.id), rig_on_sandbox), 0);
    CHECK_INT(rig.sandbox.state, SANDBOX_STOPPED);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_stop, str_of(rig.id), rig_on_sandbox), 0);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_resume, str_of(rig.id), rig_on_sandbox), -1);
    CHECK_INT(rig.why.code, ERR_GONE);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_pause, str_of(rig.id), rig_on_sandbox), -1);
    CHECK_INT(rig.why.code, ERR_CONFLICT);
    CHECK_INT(rig_read(&rig, rig.id, "/x"), -1);
    CHECK_INT(rig.why.code, ERR_GONE);
    rig_done(&rig);
}

TEST(a_key_makes_a_create_repeatable)
{
    struct rig rig;
    char first[64];
    rig_open(&rig, NULL);
    rig.caller.key = STR("k1");
    rig.caller.request_hash = STR("aa");
    /* Two at once, and one later, over a restart. */
    rig.awaited += 2;
    engine_sandbox_create(rig.engine, &rig.caller, &(struct sandbox_spec){0}, rig_on_sandbox, &rig);
    engine_sandbox_create(rig.engine, &rig.caller, &(struct sandbox_spec){0}, rig_on_sandbox, &rig);
    CHECK_INT(rig_wait(&rig), 0);
    (void)snprintf(first, sizeof first, "%s", rig.id);
    rig_free(&rig);
    rig_reopen(&rig);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    CHECK_CSTR(rig.id, first);
    rig.caller.request_hash = STR("bb");
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), -1);
    CHECK_INT(rig.why.code, ERR_CONFLICT);
    rig.caller =
        (struct engine_caller){.tenant = STR("two"), .key = STR("k1"), .request_hash = STR("bb")};
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0); /* keys are the tenant's own */
    CHECK(strcmp(rig.id, first) != 0);
    rig.caller = (struct engine_caller){.tenant = STR("one")};
    rig_done(&rig);
}

TEST(quotas_hold)
{
    struct rig rig;
    rig_open(&rig, NULL);
    rig.caller.quota.sandboxes = 2;
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), -1);
    CHECK_INT(rig.why.code, ERR_LIMIT);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_delete, str_of(rig.id), rig_on_plain), 0);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    rig.caller.quota = (struct engine_quota){.memory_bytes = 1LL << 30};
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), -1); /* two have 512 MiB each */
    rig_done(&rig);
}

TEST(forks_begin_where_their_parent_was)
{
    struct rig rig;
    char parent[64];
    rig_open(&rig, NULL);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    (void)snprintf(parent, sizeof parent, "%s", rig.id);
    CHECK_INT(rig_write(&rig, parent, "/f", "shared"), 0);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_fork, str_of(parent), STR(""), 5, rig_on_many), 0);
    CHECK_INT(rig.many_count, 5);
    CHECK_INT(rig_write(&rig, rig.many[0], "/f", "own"), 0);
    CHECK_INT(rig_read(&rig, rig.many[1], "/f"), 0);
    CHECK_CSTR(rig.texts[0], "shared");
    CHECK_INT(rig_read(&rig, parent, "/f"), 0);
    CHECK_CSTR(rig.texts[0], "shared");
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_fork, str_of(parent), STR(""), 0, rig_on_many), -1);
    CHECK_INT(rig.why.code, ERR_INVALID);
    /* All or none. */
    rig.caller.quota.sandboxes = 8;
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_fork, str_of(parent), STR(""), 5, rig_on_many), -1);
    rig_done(&rig);
}

TEST(rollback_leads_back_to_a_checkpoint)
{
    struct rig rig;
    rig_open(&rig, NULL);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    CHECK_INT(rig_write(&rig, rig.id, "/f", "one"), 0);
    CHECK_INT(
        RIG_CALL(&rig, engine_sandbox_checkpoint, str_of(rig.id), STR("first"), rig_on_checkpoint),
        0);
    CHECK_INT(rig_write(&rig, rig.id, "/f", "two"), 0);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_checkpoint, str_of(rig.id), STR(""), rig_on_checkpoint),
              0);
    CHECK_INT(
        RIG_CALL(&rig, engine_sandbox_checkpoint, str_of(rig.id), STR("first"), rig_on_checkpoint),
        -1);
    CHECK_INT(rig.why.code, ERR_CONFLICT);
    CHECK_INT(rig_write(&rig, rig.id, "/f", "three"), 0);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_rollback, str_of(rig.id), str_of(rig.checkpoint),
                       rig_on_sandbox),
              0);
    CHECK_INT(rig_read(&rig, rig.id, "/f"), 0);
    CHECK_CSTR(rig.texts[0], "two");
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_rollback, str_of(rig.id), STR("first"), rig_on_sandbox),
              0);
    CHECK_INT(rig.sandbox.checkpoint_count, 1);
    CHECK_INT(rig_read(&rig, rig.id, "/f"), 0);
    CHECK_CSTR(rig.texts[0], "one");
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_rollback, str_of(rig.id), STR("gone"), rig_on_sandbox),
              -1);
    CHECK_INT(rig.why.code, ERR_NOT_FOUND);
    rig_done(&rig);
}

TEST(timeouts_pause_or_kill)
{
    struct rig rig;
    char idle[64], killed[64];
    rig_open(&rig, NULL);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){.idle_ms = 300}), 0);
    (void)snprintf(idle, sizeof idle, "%s", rig.id);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){.timeout_ms = 300,
                                                      .on_timeout = SANDBOX_KILL_AT_TIMEOUT}),
              0);
    (void)snprintf(killed, sizeof killed, "%s", rig.id);
    for (int i = 0; i < 4000 && (rig_state(&rig, idle) != SANDBOX_PAUSED ||
                                 rig_state(&rig, killed) != SANDBOX_STOPPED);
         i++)
        rig_run_ms(&rig, 50);
    CHECK_INT(rig_state(&rig, idle), SANDBOX_PAUSED);
    CHECK_INT(rig_state(&rig, killed), SANDBOX_STOPPED);
    rig_done(&rig);
}

TEST(changes_hold_and_are_kept)
{
    struct rig rig;
    struct sandbox_info info;
    struct err err = {0};
    rig_open(&rig, NULL);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){.name = STR("a")}), 0);
    struct engine_pair pairs[] = {{STR("k"), STR("v")}};
    struct engine_pairs labels = {pairs, 1};
    struct str network = STR("allow api.example.com"), name = STR("b");
    struct sandbox_change change = {.name = &name, .metadata = &labels, .network = &network};
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_update, str_of(rig.id), &change, rig_on_sandbox), 0);
    rig_close(&rig);
    rig_reopen(&rig);
    CHECK_OK(engine_sandbox_get(rig.engine, &rig.caller, str_of(rig.id), &info, &err));
    CHECK_STR(info.name, "b");
    CHECK_STR(info.metadata.items[0].name, "k");
    CHECK(str_find(info.network, STR("api.example.com")) < info.network.len);
    rig_done(&rig);
}

TEST(verbs_at_the_same_moment_come_to_one_end)
{
    struct rig rig;
    rig_open(&rig, NULL);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    struct str id = str_of(rig.id);
    rig.awaited += 5;
    engine_sandbox_pause(rig.engine, &rig.caller, id, rig_on_sandbox, &rig);
    engine_sandbox_resume(rig.engine, &rig.caller, id, rig_on_sandbox, &rig);
    engine_sandbox_stop(rig.engine, &rig.caller, id, rig_on_sandbox, &rig);
    engine_sandbox_delete(rig.engine, &rig.caller, id, rig_on_plain, &rig);
    engine_sandbox_pause(rig.engine, &rig.caller, id, rig_on_sandbox, &rig);
    (void)rig_wait(&rig);
    struct sandbox_info info;
    struct err err = {0};
    CHECK_ERR(engine_sandbox_get(rig.engine, &rig.caller, id, &info, &err), ERR_NOT_FOUND);
    rig_done(&rig);
}

TEST(the_tier_memory_runs_nothing)
{
    struct rig rig;
    rig_open(&rig, NULL);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    struct command_spec spec = {.sandbox = str_of(rig.id), .shell = STR("true")};
    rig.awaited++;
    engine_command_start(rig.engine, &rig.caller, &spec, rig_on_command, &rig);
    CHECK_INT(rig_wait(&rig), -1);
    CHECK_INT(rig.why.code, ERR_UNSUPPORTED);
    rig_done(&rig);
}
