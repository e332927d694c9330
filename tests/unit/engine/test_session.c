/* Sessions, volumes, events and tokens against the tier memory. */

#include <errno.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/map.h"
#include "engine/internal.h"
#include "engine/session/session_internal.h"
#include "engine/volume/volume_internal.h"
#include "rig.h"
#include "store/fault.h"

struct heard {
    struct rig *rig;
    int count, states;
    uint64_t last;
    bool is_ordered, has_ended;
};

static int session_file(struct rig *rig, enum file_op op, const char *path, const char *text)
{
    struct file_place place = {.session = STR("session-1")};
    struct file_request request = {.op = op, .path = str_of(path), .bytes = str_of(text)};
    return RIG_CALL(rig, engine_file, &place, &request, rig_on_file);
}

static struct session_info look(struct rig *rig)
{
    struct session_info info = {0};
    struct err err = {0};
    CHECK_OK(engine_session_get(rig->engine, &rig->caller, STR("session-1"), &info, &err));
    return info;
}

static void wait_dormant(struct rig *rig)
{
    int64_t until = clock_now_ms() + 120000;
    while (look(rig).state != SESSION_DORMANT && clock_now_ms() < until)
        rig_run_ms(rig, 20);
    CHECK_INT(look(rig).state, SESSION_DORMANT);
}

/* What a session makes counts as what its caller makes. */
TEST(sessions_count_against_a_quota)
{
    struct rig rig;
    rig_open(&rig, NULL);
    rig.caller.quota.sandboxes = 1;
    struct session_spec second = {.id = STR("session-2")}, first = {.id = STR("session-1")};
    struct session_spec warm = {.id = STR("session-3"), .warm = true};
    CHECK_INT(RIG_CALL(&rig, engine_session_create, &second, rig_on_session), 0);
    CHECK_INT(RIG_CALL(&rig, engine_session_use, STR("session-2"), rig_on_sandbox), 0);
    CHECK_INT(RIG_CALL(&rig, engine_session_create, &first, rig_on_session), 0);
    CHECK_INT(session_file(&rig, FILE_WRITE, "/workspace/a", "mine"), -1);
    CHECK_INT(rig.why.code, ERR_LIMIT);
    CHECK_INT(RIG_CALL(&rig, engine_session_use, STR("session-1"), rig_on_sandbox), -1);
    CHECK_INT(rig.why.code, ERR_LIMIT);
    CHECK_INT(RIG_CALL(&rig, engine_session_create, &warm, rig_on_session), -1);
    CHECK_INT(rig.why.code, ERR_LIMIT);
    rig.caller.quota.sandboxes = 2;
    CHECK_INT(session_file(&rig, FILE_WRITE, "/workspace/a", "mine"), 0);
    CHECK_INT(RIG_CALL(&rig, engine_session_delete, STR("session-1"), rig_on_plain), 0);
    CHECK_INT(RIG_CALL(&rig, engine_session_delete, STR("session-2"), rig_on_plain), 0);
    rig_done(&rig);
}

TEST(volumes_count_against_a_quota)
{
    struct rig rig;
    rig_open(&rig, NULL);
    struct volume_spec spec = {.capacity_bytes = 64 << 20};
    rig.caller.quota.disk_bytes = 100 << 20;
    CHECK_INT(RIG_CALL(&rig, engine_volume_create, &spec, rig_on_volume), 0);
    CHECK_INT(RIG_CALL(&rig, engine_volume_create, &spec, rig_on_volume), -1);
    CHECK_INT(rig.why.code, ERR_LIMIT);
    struct sandbox_spec sandbox = {.limits.disk_bytes = 64 << 20};
    CHECK_INT(rig_create(&rig, &sandbox), -1);
    CHECK_INT(rig.why.code, ERR_LIMIT);
    CHECK_INT(RIG_CALL(&rig, engine_volume_delete, str_of(rig.volume), rig_on_plain), 0);
    CHECK_INT(rig_create(&rig, &sandbox), 0);
    rig_done(&rig);
}

TEST(a_session_sleeps_and_comes_back_with_its_files)
{
    struct rig rig;
    rig_open(&rig, NULL);
    struct session_spec spec = {.id = STR("session-1"), .idle_ms = 300};
    CHECK_INT(RIG_CALL(&rig, engine_session_create, &spec, rig_on_session), 0);
    CHECK_INT(look(&rig).sandbox.len, 0); /* lazy */
    CHECK_INT(RIG_CALL(&rig, engine_session_create, &spec, rig_on_session), -1);
    CHECK_INT(rig.why.code, ERR_CONFLICT);
    CHECK_INT(session_file(&rig, FILE_WRITE, "/workspace/a", "mine"), 0);
    CHECK_INT(look(&rig).state, SESSION_ACTIVE);
    wait_dormant(&rig);
    CHECK_INT(look(&rig).sandbox.len, 0);
    CHECK_INT(session_file(&rig, FILE_READ, "/workspace/a", ""), 0);
    CHECK_CSTR(rig.texts[0], "mine");
    /* Over a restart in good order, too. */
    CHECK_INT(RIG_CALL(&rig, engine_session_rest, STR("session-1"), rig_on_session), 0);
    rig_close(&rig);
    rig_reopen(&rig);
    CHECK_INT(session_file(&rig, FILE_READ, "/workspace/a", ""), 0);
    CHECK_CSTR(rig.texts[0], "mine");
    CHECK_INT(RIG_CALL(&rig, engine_session_delete, STR("session-1"), rig_on_plain), 0);
    struct volume_list volumes;
    struct err err = {0};
    AUTO_ARENA struct arena arena = {0};
    CHECK_OK(engine_volume_list(rig.engine, &rig.caller, &(struct engine_page){0}, &arena, &volumes,
                                &err));
    CHECK_INT(volumes.count, 0);
    rig_done(&rig);
}

TEST(a_warm_session_has_its_sandbox_at_once)
{
    struct rig rig;
    rig_open(&rig, NULL);
    struct session_spec spec = {.id = STR("session-1"), .warm = true};
    CHECK_INT(RIG_CALL(&rig, engine_session_create, &spec, rig_on_session), 0);
    CHECK(look(&rig).sandbox.len > 0);
    /* A caller that uses it at the same moment gets the same. */
    char first[64];
    rig.awaited += 2;
    engine_session_use(rig.engine, &rig.caller, STR("session-1"), rig_on_sandbox, &rig);
    engine_session_use(rig.engine, &rig.caller, STR("session-1"), rig_on_sandbox, &rig);
    CHECK_INT(rig_wait(&rig), 0);
    (void)snprintf(first, sizeof first, "%s", rig.id);
    CHECK_STR(look(&rig).sandbox, first);
    rig_done(&rig);
}

/* As if nobody had used it for so long. */
static void age_volume(struct rig *rig, struct str id, int64_t ms)
{
    struct volume *volume = map_get(&rig->engine->volumes, id);
    CHECK(volume != NULL);
    volume->used_at -= ms;
}

TEST(a_volume_goes_after_its_time_with_its_rows)
{
    struct rig rig;
    struct err err = {0};
    AUTO_ARENA struct arena arena = {0};
    rig_open(&rig, NULL);
    struct volume_spec spec = {.name = STR("short"), .ttl_ms = 600000};
    CHECK_INT(RIG_CALL(&rig, engine_volume_create, &spec, rig_on_volume), 0);
    struct sandbox_spec with = {.volume = STR("short")};
    CHECK_INT(rig_create(&rig, &with), 0);
    struct volume_info info;
    CHECK_OK(engine_volume_get(rig.engine, &rig.caller, STR("short"), &info, &err));
    age_volume(&rig, info.id, 700000);
    rig_run_ms(&rig, 700); /* in use: its time does not run */
    CHECK_OK(engine_volume_get(rig.engine, &rig.caller, STR("short"), &info, &err));
    CHECK_STR(info.sandbox, rig.id);
    CHECK_INT(info.expires_ms, 0);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_delete, str_of(rig.id), rig_on_plain), 0);
    CHECK_OK(engine_volume_get(rig.engine, &rig.caller, STR("short"), &info, &err));
    age_volume(&rig, info.id, 700000);
    int64_t until = clock_now_ms() + 120000;
    while (engine_volume_get(rig.engine, &rig.caller, STR("short"), &info, &err) == 0 &&
           clock_now_ms() < until)
        rig_run_ms(&rig, 20);
    CHECK_ERR(engine_volume_get(rig.engine, &rig.caller, STR("short"), &info, &err), ERR_NOT_FOUND);
    rig_close(&rig);
    rig_reopen(&rig);
    struct volume_list list;
    CHECK_OK(
        engine_volume_list(rig.engine, &rig.caller, &(struct engine_page){0}, &arena, &list, &err));
    CHECK_INT(list.count, 0);
    rig_done(&rig);
}

TEST(a_session_remembers_that_its_volume_expired)
{
    struct rig rig;
    struct err err = {0};
    rig_open(&rig, NULL);
    struct session_spec spec = {.id = STR("session-1")};
    CHECK_INT(RIG_CALL(&rig, engine_session_create, &spec, rig_on_session), 0);
    CHECK_INT(session_file(&rig, FILE_WRITE, "/workspace/a", "mine"), 0);
    CHECK_INT(RIG_CALL(&rig, engine_session_rest, STR("session-1"), rig_on_session), 0);
    /* One that was made by name has no time to live. */
    CHECK_INT(RIG_CALL(&rig, engine_volume_create, &(struct volume_spec){.name = STR("kept")},
                       rig_on_volume),
              0);
    struct volume_info kept;
    CHECK_OK(engine_volume_get(rig.engine, &rig.caller, STR("kept"), &kept, &err));
    CHECK_INT(kept.ttl_ms, 0);
    CHECK_INT(look(&rig).volume_expired_ms, 0);
    age_volume(&rig, kept.id, 365LL * 86400000);
    age_volume(&rig, look(&rig).volume, 31 * 60000);
    int64_t until = clock_now_ms() + 120000;
    while (look(&rig).volume.len > 0 && clock_now_ms() < until)
        rig_run_ms(&rig, 20);
    CHECK(look(&rig).volume_expired_ms > 0);
    CHECK_OK(engine_volume_get(rig.engine, &rig.caller, STR("kept"), &kept, &err));
    rig_close(&rig);
    rig_reopen(&rig);
    int64_t when_ms = look(&rig).volume_expired_ms;
    CHECK(when_ms > 0);
    struct session *session = session_find(rig.engine, rig.caller.tenant, STR("session-1"), &err);
    CHECK_INT(session_take_expired(session), when_ms);
    CHECK_INT(session_take_expired(session), 0);
    CHECK_INT(look(&rig).volume_expired_ms, 0);
    rig_done(&rig);
}

TEST(files_of_a_volume_that_nobody_uses)
{
    struct rig rig;
    rig_open(&rig, NULL);
    struct volume_spec spec = {.name = STR("single"), .ttl_ms = -1};
    CHECK_INT(RIG_CALL(&rig, engine_volume_create, &spec, rig_on_volume), 0);
    struct file_place place = {.volume = STR("single")};
    struct file_request write = {
        .op = FILE_WRITE, .path = STR("/workspace/x"), .bytes = STR("still here")};
    struct file_request read = {.op = FILE_READ, .path = STR("/workspace/x")};
    CHECK_INT(RIG_CALL(&rig, engine_file, &place, &write, rig_on_file), 0);
    rig_run_ms(&rig, 50);
    CHECK_INT(RIG_CALL(&rig, engine_file, &place, &read, rig_on_file), 0);
    CHECK_CSTR(rig.texts[0], "still here");
    rig_run_ms(&rig, 50);
    /* What served it is gone and was never shown. */
    struct sandbox_list list;
    struct err err = {0};
    AUTO_ARENA struct arena arena = {0};
    CHECK_OK(engine_sandbox_list(rig.engine, &rig.caller, &(struct sandbox_filter){0}, &arena,
                                 &list, &err));
    CHECK_INT(list.count, 0);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){.volume = STR("single")}), 0);
    CHECK_INT(rig_read(&rig, rig.id, "/workspace/x"), 0);
    rig_done(&rig);
}

/* --- Events --- */

static void on_event(void *ctx, const struct event *event)
{
    struct heard *heard = ctx;
    heard->is_ordered = (heard->count == 0 || heard->is_ordered) && event->seq > heard->last;
    heard->last = event->seq;
    heard->count++;
    heard->states += event->kind == EVENT_SANDBOX_STATE;
    CHECK_STR(event->tenant, "one");
}

static void on_feed_end(void *ctx, UNUSED const struct err *why)
{
    struct heard *heard = ctx;
    heard->has_ended = true;
}

TEST(events_are_replayed_and_then_told_as_they_come)
{
    static const struct feed_calls calls = {on_event, on_feed_end};
    struct rig rig;
    struct err err = {0};
    struct heard all = {0}, late = {0};
    struct feed_reader *one = NULL, *two = NULL;
    rig_open(&rig, NULL);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    rig.caller.tenant = STR("two");
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0); /* not for our ears */
    rig.caller.tenant = STR("one");
    CHECK_OK(engine_feed_open(rig.engine, &rig.caller, STR(""), 0, &calls, &all, &one, &err));
    CHECK_OK(
        engine_feed_open(rig.engine, &rig.caller, STR(""), UINT64_MAX, &calls, &late, &two, &err));
    for (int i = 0; i < 9000 && all.count < 2; i++)
        rig_run_ms(&rig, 20);
    CHECK(all.count >= 2 && all.is_ordered);
    CHECK_INT(late.count, 0);
    feed_reader_pause(one);
    int before = all.count;
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_delete, str_of(rig.id), rig_on_plain), 0);
    CHECK_INT(all.count, before);
    feed_reader_resume(one);
    for (int i = 0; i < 9000 && all.count - before < late.count; i++)
        rig_run_ms(&rig, 20);
    CHECK_INT(all.count - before, late.count);
    CHECK(late.states >= 2 && all.is_ordered);
    (void)feed_reader_free(two);
    rig_close(&rig);
    CHECK(all.has_ended);
    rig_done(&rig);
}

/* --- Tokens --- */

TEST(tokens_are_shown_once_and_kept_as_digests)
{
    struct rig rig;
    struct token_info info;
    struct token_spec spec = {
        .tenant = STR("one"), .name = STR("ci"), .scopes = TOKEN_READ | TOKEN_RUN};
    char secret[256], id[256];
    rig_open(&rig, NULL);
    rig.awaited++;
    engine_token_create(rig.engine, &spec, rig_on_token, &rig);
    CHECK_INT(rig_wait(&rig), 0);
    (void)snprintf(secret, sizeof secret, "%s", rig.secret);
    (void)snprintf(id, sizeof id, "%s", rig.token);
    CHECK_INT(strlen(secret), TOKEN_LEN);
    rig_close(&rig);
    rig_reopen(&rig);
    CHECK(engine_token_find(rig.engine, str_of(secret), &info));
    CHECK_INT(info.scopes, TOKEN_READ | TOKEN_RUN);
    CHECK_STR(info.name, "ci");
    CHECK(!engine_token_find(rig.engine, STR("wrong"), &info));
    spec.scopes = 0;
    rig.awaited++;
    engine_token_create(rig.engine, &spec, rig_on_token, &rig);
    CHECK_INT(rig_wait(&rig), -1);
    CHECK_INT(rig.why.code, ERR_INVALID);
    rig.awaited++;
    engine_token_delete(rig.engine, str_of(id), rig_on_plain, &rig);
    CHECK_INT(rig_wait(&rig), 0);
    CHECK(!engine_token_find(rig.engine, str_of(secret), &info));
    rig_done(&rig);
}

/* --- 9.2: a disk that fails --- */

#ifdef SG_FAULTS
TEST(a_full_disk_refuses_and_passes)
{
    struct rig rig;
    rig_open(&rig, NULL);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    store_fault_at(1, ENOSPC, true);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), -1);
    CHECK_INT(rig.why.code, ERR_NO_SPACE);
    struct volume_spec volume = {.name = STR("v")};
    CHECK_INT(RIG_CALL(&rig, engine_volume_create, &volume, rig_on_volume), -1);
    CHECK_INT(rig.why.code, ERR_NO_SPACE);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_pause, str_of(rig.id), rig_on_sandbox), -1);
    store_fault_at(0, 0, false);
    CHECK_INT(rig_state(&rig, rig.id), SANDBOX_RUNNING); /* it could not be put aside: it runs on */
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    CHECK_INT(RIG_CALL(&rig, engine_volume_create, &volume, rig_on_volume), 0);
    struct sandbox_list list;
    struct err err = {0};
    AUTO_ARENA struct arena arena = {0};
    CHECK_OK(engine_sandbox_list(rig.engine, &rig.caller, &(struct sandbox_filter){0}, &arena,
                                 &list, &err));
    CHECK_INT(list.count, 2); /* nothing half-made is left */
    rig_done(&rig);
}

TEST(each_file_call_of_a_create_fails_in_its_turn)
{
    struct rig rig;
    rig_open(&rig, NULL);
    for (int64_t nth = 1; nth < 200; nth++) {
        store_fault_at(nth, EIO, false);
        int made = rig_create(&rig, &(struct sandbox_spec){0});
        bool untouched = store_fault_count() < nth;
        store_fault_at(0, 0, false);
        if (made == 0)
            CHECK_INT(RIG_CALL(&rig, engine_sandbox_delete, str_of(rig.id), rig_on_plain), 0);
        if (untouched)
            break;
    }
    rig_close(&rig);
    rig_reopen(&rig);
    struct sandbox_list list;
    struct err err = {0};
    AUTO_ARENA struct arena arena = {0};
    CHECK_OK(engine_sandbox_list(rig.engine, &rig.caller, &(struct sandbox_filter){0}, &arena,
                                 &list, &err));
    CHECK_INT(list.count, 0);
    rig_done(&rig);
}
#endif
