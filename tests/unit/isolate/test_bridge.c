/* The table of bridges: what a row must be, what arguments must be, and how calls end. */

#include "isolate/bridge/bridge.h"

#include "base/format/json.h"
#include "io/loop.h"
#include "test.h"

static int starts, stops;

static int start_echo(struct bridge_call *call, UNUSED struct err *err)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    starts++;
    json_begin_array(&out);
    json_put_value(&out, bridge_arg(call, 0));
    json_put_bool(&out, bridge_arg(call, 1) != NULL);
    json_end_array(&out);
    bridge_done(call, buf_str(&text));
    return 0;
}

static int start_silent(UNUSED struct bridge_call *call, UNUSED struct err *err)
{
    starts++;
    return 0;
}

static int start_failing(UNUSED struct bridge_call *call, struct err *err)
{
    starts++;
    return err_set(err, ERR_FORBIDDEN, "not \"today\"");
}

static void count_stop(UNUSED struct bridge_call *call)
{
    stops++;
}

#define NUMBER_SCHEMA "{\"type\":\"number\",\"minimum\":0,\"description\":\"How many.\"}"

static const struct bridge echo = {
    .name = "echo",
    .description = "Gives it back.",
    .params = {{"value", NUMBER_SCHEMA, false},
               {"options",
                "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}},"
                "\"additionalProperties\":false}",
                true}},
    .returns = "unknown",
    .timeout_ms = 1000,
    .start = start_echo,
    .stop = count_stop,
};
static const struct bridge silent = {.name = "silent",
                                     .description = "Never answers.",
                                     .returns = "void",
                                     .timeout_ms = 30,
                                     .start = start_silent,
                                     .stop = count_stop};
static const struct bridge failing = {.name = "failing",
                                      .description = "Fails.",
                                      .returns = "void",
                                      .timeout_ms = 1000,
                                      .start = start_failing,
                                      .stop = count_stop};
static const struct bridge *const rows[] = {&echo, &silent, &failing, NULL};

struct settled {
    int calls;
    bool is_ok;
    char json[256];
};

static void on_settled(void *ctx, bool is_ok, struct str json)
{
    struct settled *settled = ctx;
    settled->calls++;
    settled->is_ok = is_ok;
    (void)snprintf(settled->json, sizeof settled->json, "%.*s", STR_ARG(json));
}

static struct settled run(const char *name, const char *args, int64_t left_ms)
{
    struct err err = {0};
    struct settled settled = {0};
    AUTO_LOOP struct loop *loop = NULL;
    AUTO_BRIDGE_SET struct bridge_set *set = NULL;
    struct bridge_call *call = NULL;
    CHECK_OK(loop_open(&loop, &err));
    CHECK_OK(bridge_set_new(rows, &set, &err));
    starts = stops = 0;
    int result = bridge_call_start(set, loop, NULL, str_of(name), str_of(args), left_ms, on_settled,
                                   &settled, &call, &err);
    if (result < 0) {
        (void)snprintf(settled.json, sizeof settled.json, "%s", err.msg);
        CHECK(starts == 0 && (err.code == ERR_INVALID || err.code == ERR_NOT_FOUND));
        return settled;
    }
    CHECK_INT(settled.calls, 0); /* never from within the start */
    loop_run(loop);
    CHECK(settled.calls == 1 && starts == 1 && stops == 1);
    (void)bridge_call_free(call);
    CHECK_INT(stops, 1);
    return settled;
}

TEST(calls_settle_once)
{
    struct settled settled = run("echo", "[1.5]", 1000);
    CHECK(settled.is_ok);
    CHECK_CSTR(settled.json, "[1.5,false]");
    CHECK_CSTR(run("echo", "[1,{}]", 1000).json, "[1,true]");
    CHECK_CSTR(run("echo", "[1,null]", 1000).json, "[1,false]");
    settled = run("failing", "[]", 1000);
    CHECK(!settled.is_ok);
    CHECK_CSTR(settled.json, "{\"name\":\"Error\",\"message\":\"api.failing: not \\\"today\\\"\","
                             "\"code\":\"forbidden\"}");
}

TEST(time_is_the_rows_or_what_the_isolate_has_left)
{
    static const char late[] = "{\"name\":\"TimeoutError\",\"message\":\"api.silent: no answer in "
                               "time\",\"code\":\"timeout\"}";
    CHECK_CSTR(run("silent", "[]", 100000).json, late);
    CHECK_CSTR(run("silent", "[]", 1).json, late);
    CHECK_CSTR(run("silent", "[]", -5).json, late);
}

TEST(wrong_arguments_are_named)
{
    CHECK_CSTR(run("nope", "[]", 1).json, "api.nope is not a function");
    CHECK_CSTR(run("echo", "[]", 1).json, "api.echo: argument 1, value, is missing");
    CHECK_CSTR(run("echo", "[\"x\"]", 1).json,
               "api.echo: value must be a number of at least 0, got \"x\"");
    CHECK_CSTR(run("echo", "[1,{\"n\":1.5}]", 1).json,
               "api.echo: options.n must be an integer, got 1.5");
    CHECK_CSTR(run("echo", "[1,{},3]", 1).json, "api.echo: takes 2 arguments, got 3");
    CHECK_CSTR(run("echo", "{}", 1).json, "api.echo: the arguments must be an array");
    CHECK(strstr(run("echo", "[", 1).json, "api.echo: JSON, line 1") != NULL);
    CHECK_CSTR(run("silent", "[1]", 1).json, "api.silent: takes 0 arguments, got 1");
}

TEST(a_dropped_call_is_stopped_and_never_settles)
{
    struct err err = {0};
    struct settled settled = {0};
    AUTO_LOOP struct loop *loop = NULL;
    AUTO_BRIDGE_SET struct bridge_set *set = NULL;
    struct bridge_call *call = NULL;
    CHECK_OK(loop_open(&loop, &err));
    CHECK_OK(bridge_set_new(rows, &set, &err));
    stops = 0;
    static const char *const names[] = {"silent", "echo", "failing"};
    for (size_t i = 0; i < countof(names); i++) {
        CHECK_OK(bridge_call_start(set, loop, NULL, str_of(names[i]),
                                   i == 1 ? STR("[1]") : STR("[]"), 1000, on_settled, &settled,
                                   &call, &err));
        call = bridge_call_free(call);
    }
    loop_run(loop);
    CHECK_INT(settled.calls, 0);
    CHECK_INT(stops, 3);
}

TEST(rows_that_cannot_work_are_refused)
{
    struct err err = {0};
    AUTO_BRIDGE_SET struct bridge_set *set = NULL;
    CHECK_OK(bridge_set_new(rows, &set, &err));
    CHECK_ERR(bridge_set_add(set, &echo, &err), ERR_CONFLICT);
    struct bridge bad = echo;
    bad.name = "not-a-name";
    CHECK_ERR(bridge_set_add(set, &bad, &err), ERR_INVALID);
    bad = silent;
    bad.name = "x";
    bad.timeout_ms = 0;
    CHECK_ERR(bridge_set_add(set, &bad, &err), ERR_INVALID);
    bad = echo;
    bad.name = "x";
    bad.params[0].schema = "{\"type\":\"string\",\"pattern\":\"(a+)+\"}";
    CHECK_ERR(bridge_set_add(set, &bad, &err), ERR_INVALID);
    CHECK_MSG("unsupported keyword 'pattern'");
    bad.params[0] = (struct bridge_param){"value", NUMBER_SCHEMA, true};
    bad.params[1].is_optional = false;
    CHECK_ERR(bridge_set_add(set, &bad, &err), ERR_INVALID);
    struct bridge good = silent;
    good.name = "ofTheEmbedder";
    CHECK_OK(bridge_set_add(set, &good, &err));
    const char *const *names = bridge_set_names(set);
    CHECK_CSTR(names[0], "echo");
    CHECK_CSTR(names[3], "ofTheEmbedder");
    CHECK(names[4] == NULL);
}

TEST(declarations_follow_the_schemas)
{
    struct err err = {0};
    AUTO_BRIDGE_SET struct bridge_set *set = NULL;
    AUTO_BUF struct buf dts = {0}, json = {0};
    AUTO_JSON struct json_t *parsed = NULL;
    CHECK_OK(bridge_set_new(rows, &set, &err));
    bridge_put_dts(set, &dts);
    CHECK(strstr(buf_cstr(&dts), "    /**\n     * Gives it back.\n     * @param value How many.\n"
                                 "     */\n    echo(value: number, options?: { n?: number }): "
                                 "Promise<unknown>;\n") != NULL);
    bridge_put_json(set, &json);
    CHECK_OK(json_parse(buf_str(&json), &parsed, &err));
    CHECK_INT(json_len(json_get(parsed, "bridges")), 3);
}
