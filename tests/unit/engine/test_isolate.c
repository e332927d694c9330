/* The tier isolate through the engine: code once, code with a memory, and its pictures. */

#include "rig.h"

#include "base/format/json.h"

static void on_eval(void *ctx, const struct eval_result *result, const struct err *why)
{
    struct rig *rig = ctx;
    if (result != NULL) {
        (void)snprintf(rig->texts[0], sizeof rig->texts[0], "%.*s",
                       STR_ARG(buf_str(&result->run->json)));
        (void)snprintf(rig->texts[1], sizeof rig->texts[1], "%s",
                       isolate_status_name(result->run->status));
        AUTO_BUF struct buf json = {0};
        struct eval_line line = {ISOLATE_STDOUT, STR("said")};
        eval_put_json(result, &line, 1, &(struct json_out){.buf = &json});
        AUTO_JSON struct json_t *parsed = NULL;
        struct err err = {0};
        CHECK_OK(json_parse(buf_str(&json), &parsed, &err));
        CHECK(json_get(parsed, "environment") != NULL);
    }
    rig_on_plain(rig, why);
}

static void on_output(void *ctx, UNUSED enum isolate_stream stream, struct str line)
{
    struct rig *rig = ctx;
    (void)snprintf(rig->texts[2], sizeof rig->texts[2], "%.*s", STR_ARG(line));
}

static int eval(struct rig *rig, const char *sandbox, const char *session, const char *code)
{
    static const struct eval_calls calls = {on_output, on_eval};
    struct eval_spec spec = {
        .sandbox = str_of(sandbox), .session = str_of(session), .code = str_of(code)};
    rig->awaited++;
    engine_eval(rig->engine, &rig->caller, &spec, &calls, rig);
    return rig_wait(rig);
}

#define CONFIG "[sandbox]\nprovider = \"isolate\"\n"

TEST(code_is_evaluated_once)
{
    struct rig rig;
    rig_open(&rig, CONFIG);
    CHECK_INT(eval(&rig, "", "", "console.log('hi'); 1 + 1"), 0);
    CHECK_CSTR(rig.texts[0], "2");
    CHECK_CSTR(rig.texts[2], "hi\n");
    CHECK_INT(eval(&rig, "", "", "globalThis.x = 1"), 0);
    CHECK_INT(eval(&rig, "", "", "typeof x"), 0); /* nothing is left of it */
    CHECK_CSTR(rig.texts[0], "\"undefined\"");
    CHECK_INT(eval(&rig, "", "", "throw new Error('no')"), 0);
    CHECK_CSTR(rig.texts[1], "error");
    CHECK_INT(eval(&rig, "", "", "for (;;) ;"), 0);
    CHECK_CSTR(rig.texts[1], "timeout");
    CHECK_INT(eval(&rig, "", "", "6 * 7"), 0);
    CHECK_CSTR(rig.texts[0], "42");
    rig_done(&rig);
}

TEST(many_at_once_are_all_answered)
{
    static const struct eval_calls calls = {NULL, on_eval};
    struct rig rig;
    rig_open(&rig, CONFIG);
    struct eval_spec spec = {.code = STR("await new Promise(r => setTimeout(r, 20)); 7")};
    for (int i = 0; i < 40; i++) {
        rig.awaited++;
        engine_eval(rig.engine, &rig.caller, &spec, &calls, &rig);
    }
    CHECK_INT(rig_wait(&rig), 0);
    CHECK_CSTR(rig.texts[0], "7");
    rig_done(&rig);
}

TEST(a_sandbox_remembers_over_pause_and_restart)
{
    struct rig rig;
    rig_open(&rig, CONFIG);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    CHECK_INT(eval(&rig, rig.id, "", "let n = 41; globalThis.f = () => ++n; n"), 0);
    CHECK_INT(eval(&rig, rig.id, "", "f()"), 0);
    CHECK_CSTR(rig.texts[0], "42");
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_pause, str_of(rig.id), rig_on_sandbox), 0);
    CHECK_INT(eval(&rig, rig.id, "", "f()"), 0); /* work resumes it */
    CHECK_CSTR(rig.texts[0], "43");
    rig_close(&rig);
    rig_reopen(&rig);
    CHECK_INT(rig_state(&rig, rig.id), SANDBOX_PAUSED);
    CHECK_INT(eval(&rig, rig.id, "", "f()"), 0);
    CHECK_CSTR(rig.texts[0], "44");
    rig_done(&rig);
}

TEST(forks_and_rollbacks_have_their_own_memory)
{
    struct rig rig;
    rig_open(&rig, CONFIG);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    CHECK_INT(eval(&rig, rig.id, "", "globalThis.n = 1"), 0);
    CHECK_INT(
        RIG_CALL(&rig, engine_sandbox_checkpoint, str_of(rig.id), STR("one"), rig_on_checkpoint),
        0);
    CHECK_INT(eval(&rig, rig.id, "", "n = 2"), 0);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_fork, str_of(rig.id), STR(""), 3, rig_on_many), 0);
    CHECK_INT(eval(&rig, rig.many[0], "", "n += 10"), 0);
    CHECK_INT(eval(&rig, rig.many[1], "", "n"), 0);
    CHECK_CSTR(rig.texts[0], "2");
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_rollback, str_of(rig.id), STR("one"), rig_on_sandbox),
              0);
    CHECK_INT(eval(&rig, rig.id, "", "n"), 0);
    CHECK_CSTR(rig.texts[0], "1");
    rig_done(&rig);
}

TEST(a_session_keeps_its_variables_and_modules)
{
    struct rig rig;
    rig_open(&rig, CONFIG);
    struct session_spec spec = {.id = STR("session-1"), .idle_ms = 300};
    CHECK_INT(RIG_CALL(&rig, engine_session_create, &spec, rig_on_session), 0);
    struct module_spec module = {.path = STR("lib/a.js"), .source = STR("export const a = 5;")};
    CHECK_INT(RIG_CALL(&rig, engine_module_put, STR("session-1"), &module, rig_on_plain), 0);
    CHECK_INT(eval(&rig, "", "session-1", "globalThis.v = 1; v"), 0);
    struct session_info info = {.state = SESSION_ACTIVE};
    struct err err = {0};
    for (int i = 0; i < 4000 && info.state != SESSION_DORMANT; i++) {
        rig_run_ms(&rig, 50);
        CHECK_OK(engine_session_get(rig.engine, &rig.caller, STR("session-1"), &info, &err));
    }
    CHECK_INT(info.state, SESSION_DORMANT);
    CHECK_INT(eval(&rig, "", "session-1", "v + 1"), 0);
    CHECK_CSTR(rig.texts[0], "2");
    CHECK_INT(eval(&rig, "", "session-1", "(await import('./lib/a.js')).a"), 0);
    CHECK_CSTR(rig.texts[0], "5");
    CHECK_INT(RIG_CALL(&rig, engine_session_delete, STR("session-1"), rig_on_plain), 0);
    rig_done(&rig);
}

TEST(it_has_no_files_and_no_commands)
{
    struct rig rig;
    rig_open(&rig, CONFIG);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    CHECK_INT(rig_read(&rig, rig.id, "/x"), -1);
    CHECK_INT(rig.why.code, ERR_UNSUPPORTED);
    CHECK_INT(eval(&rig, "nothere123", "", "1"), -1);
    CHECK_INT(rig.why.code, ERR_NOT_FOUND);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_delete, str_of(rig.id), rig_on_plain), 0);
    rig_done(&rig);
}

TEST(an_engine_that_is_freed_at_once_answers_every_caller)
{
    static const struct eval_calls calls = {NULL, on_eval};
    struct rig rig;
    rig_open(&rig, CONFIG);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    struct eval_spec once = {.code = STR("for (;;) ;")},
                     kept_one = {.code = STR("for (;;) ;"), .sandbox = str_of(rig.id)};
    rig.awaited += 2;
    engine_eval(rig.engine, &rig.caller, &once, &calls, &rig);
    engine_eval(rig.engine, &rig.caller, &kept_one, &calls, &rig);
    rig_run_ms(&rig, 50);
    rig_free(&rig);
    CHECK_INT(rig.answers, rig.awaited);
    rig_done(&rig);
}
