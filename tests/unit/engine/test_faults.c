/* Fault plan 9.2 for the engine's verbs: each file call of each verb fails in its turn, by itself
 * and with all that follow. The caller gets the error or was not affected, the engine continues,
 * and the next start has what was acknowledged, whole. */

#include "rig.h"

#include <errno.h>

#include "base/vec.h"
#include "store/fault.h"

#ifdef SG_FAULTS

enum { CALLS_MAX = 100 };
enum outcome { THERE, GONE, EITHER };

struct subject {
    char id[64];
    enum outcome outcome;
};

struct walk {
    struct rig rig;
    char id[64]; /* what the verb is tried on, or has made */
    VEC(struct subject) subjects;
};

struct verb {
    const char *name;
    int (*prepare)(struct walk *walk); /* without faults */
    int (*call)(struct walk *walk);
    /* Whether the subject is as a success leaves it; asked at once and after a restart. */
    bool (*holds)(struct walk *walk, const char *id);
    bool is_either;   /* after a failure it may have had its effect, all of it */
    bool leaves_none; /* no sandbox, whatever failed */
};

/* --- Sandboxes --- */

static int make(struct walk *walk)
{
    int made = rig_create(&walk->rig, &(struct sandbox_spec){.timeout_ms = -1});
    (void)snprintf(walk->id, sizeof walk->id, "%s", walk->rig.id);
    return made;
}

static int make_with_file(struct walk *walk)
{
    return make(walk) < 0 ? -1 : rig_write(&walk->rig, walk->id, "/f", walk->id);
}

static bool is_in(struct walk *walk, const char *id, enum sandbox_state *ret_state)
{
    struct sandbox_info info;
    struct err err = {0};
    if (engine_sandbox_get(walk->rig.engine, &walk->rig.caller, str_of(id), &info, &err) < 0)
        return false;
    *ret_state = info.state;
    walk->rig.sandbox = info;
    return true;
}

static bool is_there(struct walk *walk, const char *id)
{
    enum sandbox_state state;
    return is_in(walk, id, &state);
}

static bool is_gone(struct walk *walk, const char *id)
{
    return !is_there(walk, id);
}

static int pause_it(struct walk *walk)
{
    return RIG_CALL(&walk->rig, engine_sandbox_pause, str_of(walk->id), rig_on_sandbox);
}

/* With its file in it. */
static bool is_paused(struct walk *walk, const char *id)
{
    enum sandbox_state state;
    if (!is_in(walk, id, &state) || state != SANDBOX_PAUSED)
        return false;
    CHECK_INT(rig_read(&walk->rig, id, "/f"), 0);
    CHECK_CSTR(walk->rig.texts[0], id);
    return RIG_CALL(&walk->rig, engine_sandbox_pause, str_of(id), rig_on_sandbox) == 0;
}

static int checkpoint_it(struct walk *walk)
{
    return RIG_CALL(&walk->rig, engine_sandbox_checkpoint, str_of(walk->id), STR("c"),
                    rig_on_checkpoint);
}

static bool has_checkpoint(struct walk *walk, const char *id)
{
    return is_there(walk, id) && walk->rig.sandbox.checkpoint_count == 1;
}

static int stop_it(struct walk *walk)
{
    return RIG_CALL(&walk->rig, engine_sandbox_stop, str_of(walk->id), rig_on_sandbox);
}

static bool is_stopped(struct walk *walk, const char *id)
{
    enum sandbox_state state;
    return is_in(walk, id, &state) && state == SANDBOX_STOPPED;
}

static int delete_it(struct walk *walk)
{
    return RIG_CALL(&walk->rig, engine_sandbox_delete, str_of(walk->id), rig_on_plain);
}

/* --- The others --- */

static int nothing(UNUSED struct walk *walk)
{
    return 0;
}

static int make_volume(struct walk *walk)
{
    int made = RIG_CALL(&walk->rig, engine_volume_create, &(struct volume_spec){.ttl_ms = -1},
                        rig_on_volume);
    (void)snprintf(walk->id, sizeof walk->id, "%s", walk->rig.volume);
    return made;
}

static int delete_volume(struct walk *walk)
{
    return RIG_CALL(&walk->rig, engine_volume_delete, str_of(walk->id), rig_on_plain);
}

static bool volume_is_there(struct walk *walk, const char *id)
{
    struct volume_info info;
    struct err err = {0};
    return engine_volume_get(walk->rig.engine, &walk->rig.caller, str_of(id), &info, &err) == 0;
}

static bool volume_is_gone(struct walk *walk, const char *id)
{
    return !volume_is_there(walk, id);
}

static int make_session(struct walk *walk)
{
    int made =
        RIG_CALL(&walk->rig, engine_session_create, &(struct session_spec){0}, rig_on_session);
    (void)snprintf(walk->id, sizeof walk->id, "%s", walk->rig.session);
    return made;
}

/* A warm one: its volume and its sandbox too. */
static int make_warm(struct walk *walk)
{
    int made = RIG_CALL(&walk->rig, engine_session_create, &(struct session_spec){.warm = true},
                        rig_on_session);
    (void)snprintf(walk->id, sizeof walk->id, "%s", walk->rig.session);
    return made;
}

static bool session_is_there(struct walk *walk, const char *id)
{
    struct session_info info;
    struct err err = {0};
    return engine_session_get(walk->rig.engine, &walk->rig.caller, str_of(id), &info, &err) == 0;
}

static int delete_session(struct walk *walk)
{
    return RIG_CALL(&walk->rig, engine_session_delete, str_of(walk->id), rig_on_plain);
}

static bool session_is_gone(struct walk *walk, const char *id)
{
    return !session_is_there(walk, id);
}

static int make_token(struct walk *walk)
{
    struct token_spec spec = {.tenant = STR("one"), .scopes = TOKEN_READ};
    walk->rig.awaited++;
    engine_token_create(walk->rig.engine, &spec, rig_on_token, &walk->rig);
    int made = rig_wait(&walk->rig);
    (void)snprintf(walk->id, sizeof walk->id, "%.63s", walk->rig.secret);
    return made;
}

static bool token_is_there(struct walk *walk, const char *id)
{
    struct token_info info;
    return engine_token_find(walk->rig.engine, str_of(id), &info);
}

/* --- Walking --- */

static const struct verb verbs[] = {
    {"create", nothing, make, is_there, false},
    {"pause", make_with_file, pause_it, is_paused, true},
    {"checkpoint", make_with_file, checkpoint_it, has_checkpoint, true},
    {"stop", make, stop_it, is_stopped, true},
    {"delete", make, delete_it, is_gone, true, true},
    {"volume create", nothing, make_volume, volume_is_there, false},
    {"volume delete", make_volume, delete_volume, volume_is_gone, true},
    {"session create", nothing, make_session, session_is_there, false},
    {"warm session", nothing, make_warm, session_is_there, true},
    {"session delete", make_session, delete_session, session_is_gone, true},
    {"token create", nothing, make_token, token_is_there, false},
};

/* One try with the nth call failing; true when none was reached. */
static bool attempt(struct walk *walk, const struct verb *verb, int64_t nth, int code, bool all)
{
    CHECK_INT(verb->prepare(walk), 0);
    /* What the preparing left for later is no part of it. */
    rig_run_ms(&walk->rig, 8);
    walk->rig.id[0] = walk->rig.volume[0] = walk->rig.session[0] = walk->rig.secret[0] = '\0';
    store_fault_at(nth, code, all);
    int done = verb->call(walk);
    bool untouched = store_fault_count() < nth;
    store_fault_at(0, 0, false);
    if (done < 0) {
        CHECK(walk->rig.why.msg[0] != '\0');
        CHECK(walk->rig.why.code != ERR_NONE);
    }
    CHECK(done == 0 || !untouched);
    if (done == 0)
        CHECK(verb->holds(walk, walk->id));
    if (walk->id[0] == '\0')
        return untouched;
    struct subject *subject = vec_push(&walk->subjects);
    (void)snprintf(subject->id, sizeof subject->id, "%s", walk->id);
    subject->outcome = done == 0 ? THERE : verb->is_either ? EITHER : GONE;
    return untouched;
}

static void judge(struct walk *walk, const struct verb *verb)
{
    VEC_EACH (subject, &walk->subjects) {
        bool holds = verb->holds(walk, subject->id);
        if (subject->outcome == THERE)
            CHECK(holds);
        if (subject->outcome == GONE)
            CHECK(!holds);
    }
}

static size_t count_sandboxes(struct walk *walk)
{
    struct sandbox_list list;
    struct err err = {0};
    AUTO_ARENA struct arena arena = {0};
    CHECK_OK(engine_sandbox_list(walk->rig.engine, &walk->rig.caller, &(struct sandbox_filter){0},
                                 &arena, &list, &err));
    return list.count;
}

static void walk_verb(const struct verb *verb, int code, bool all)
{
    struct walk walk = {0};
    rig_open(&walk.rig, NULL);
    for (int64_t nth = 1;; nth++) {
        CHECK(nth < CALLS_MAX);
        if (attempt(&walk, verb, nth, code, all))
            break;
    }
    rig_close(&walk.rig);
    rig_reopen(&walk.rig);
    judge(&walk, verb);
    if (verb->leaves_none)
        CHECK_INT(count_sandboxes(&walk), 0);
    /* It serves on. */
    CHECK_INT(make_with_file(&walk), 0);
    CHECK_INT(delete_it(&walk), 0);
    vec_done(&walk.subjects);
    rig_done(&walk.rig);
}

static void walk_all(int code, bool all)
{
    for (size_t i = 0; i < countof(verbs); i++)
        walk_verb(&verbs[i], code, all);
}

TEST(each_call_of_each_verb_fails_with_eio)
{
    walk_all(EIO, false);
}

TEST(each_call_of_each_verb_and_all_later_fail_with_enospc)
{
    walk_all(ENOSPC, true);
}

/* What cannot be put aside is interrupted: it does not hold up the end. */
TEST(a_pause_that_fails_while_the_engine_stops_is_an_interruption)
{
    struct walk walk = {0};
    rig_open(&walk.rig, NULL);
    CHECK_INT(make_with_file(&walk), 0);
    rig_run_ms(&walk.rig, 8);
    store_fault_at(1, EIO, true);
    walk.rig.awaited++;
    engine_stop(walk.rig.engine, rig_on_plain, &walk.rig);
    CHECK_INT(rig_wait(&walk.rig), 0);
    CHECK_INT(rig_state(&walk.rig, walk.id), SANDBOX_INTERRUPTED);
    store_fault_at(0, 0, false);
    rig_free(&walk.rig);
    rig_reopen(&walk.rig);
    CHECK_INT(rig_state(&walk.rig, walk.id), SANDBOX_INTERRUPTED);
    CHECK_INT(delete_it(&walk), 0);
    rig_done(&walk.rig);
}

/* One that is being made when the engine stops is put aside as soon as it runs; a caller that waits
 * for one that lies aside is refused, and does not bring it back. */
TEST(what_comes_to_run_while_the_engine_stops_is_put_aside)
{
    struct walk walk = {0};
    struct sandbox_spec spec = {.timeout_ms = -1};
    rig_open(&walk.rig, NULL);
    CHECK_INT(make_with_file(&walk), 0);
    struct rig *rig = &walk.rig;
    rig->awaited += 4;
    engine_sandbox_create(rig->engine, &rig->caller, &spec, rig_on_sandbox, rig);
    engine_sandbox_pause(rig->engine, &rig->caller, str_of(walk.id), rig_on_sandbox, rig);
    engine_sandbox_resume(rig->engine, &rig->caller, str_of(walk.id), rig_on_sandbox, rig);
    engine_stop(rig->engine, rig_on_plain, rig);
    (void)rig_wait(rig);
    CHECK_INT(rig_state(rig, walk.id), SANDBOX_PAUSED);
    rig_free(rig);
    rig_reopen(rig);
    CHECK_INT(rig_read(rig, walk.id, "/f"), 0);
    CHECK_CSTR(rig->texts[0], walk.id);
    struct sandbox_list list;
    struct err err = {0};
    AUTO_ARENA struct arena arena = {0};
    CHECK_OK(engine_sandbox_list(rig->engine, &rig->caller, &(struct sandbox_filter){0}, &arena,
                                 &list, &err));
    CHECK_INT(list.count, 2);
    for (size_t i = 0; i < list.count; i++)
        CHECK(list.items[i].state == SANDBOX_RUNNING || list.items[i].state == SANDBOX_PAUSED);
    rig_done(rig);
}

TEST(the_other_ways_to_fail_in_a_soak)
{
    if (getenv("SG_SOAK") == NULL)
        SKIP("only in a soak: it takes a minute");
    walk_all(EIO, true);
    walk_all(ENOSPC, false);
    walk_all(EDQUOT, false);
    walk_all(EDQUOT, true);
}

#else

TEST(faults_are_not_built_in)
{
    SKIP("this build has no -Dfaults=true");
}

#endif
