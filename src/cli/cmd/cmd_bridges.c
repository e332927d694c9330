/* sandglass bridges: what code in an isolate may call; and a way to try it without any. */

#include "base/buf.h"
#include "base/err.h"
#include "base/format/json.h"
#include "cli/cli.h"
#include "cli/cmd/commands.h"
#include "cli/policy_arg.h"
#include "config/config.h"
#include "egress/gate/gate.h"
#include "io/loop.h"
#include "runtime/bridges.h"

enum { TIMEOUT_MS = 30000, TIMEOUT_MAX_MS = 600000 };

static int cmd_bridges_print(void (*put)(const struct bridge_set *set, struct buf *out),
                             struct err *err)
{
    AUTO_BRIDGE_SET struct bridge_set *set = NULL;
    AUTO_BUF struct buf out = {0};
    if (bridge_set_new(bridges, &set, err) < 0)
        return -1;
    put(set, &out);
    cli_print(buf_str(&out));
    return EXIT_OK;
}

static int bridges_list(const struct cli_call *call, struct err *err)
{
    if (cli_has(call, "json") && cli_has(call, "dts"))
        return err_set(err, ERR_INVALID, "bridges: --json and --dts cannot be combined");
    return cmd_bridges_print(cli_has(call, "json")  ? bridge_put_json
                             : cli_has(call, "dts") ? bridge_put_dts
                                                    : bridge_put_text,
                             err);
}

static int docs(UNUSED const struct cli_call *call, struct err *err)
{
    return cmd_bridges_print(bridge_put_docs, err);
}

/* What one call needs, and what came of it. */
struct trial {
    struct loop *loop;
    struct config *config;
    struct bridge_set *set;
    struct gate_options options;
    struct buf servers;
    struct services services;
    bool is_ok;
    struct buf answer;
};

static void trial_done(struct trial *trial)
{
    services_done(&trial->services);
    (void)policy_free(trial->services.policy);
    (void)gate_free(trial->services.gate);
    (void)bridge_set_free(trial->set);
    (void)config_free(trial->config);
    (void)loop_free(trial->loop);
    buf_done(&trial->servers);
    buf_done(&trial->answer);
}

static int read_hints(const struct cli_call *call, struct hints *hints, struct err *err)
{
    for (size_t i = 0; i < call->given_count; i++) {
        if (strcmp(call->given[i].option->name, "hint") != 0)
            continue;
        struct str text = str_of(call->given[i].value);
        size_t equals = str_find_char(text, '=');
        if (equals == text.len)
            return err_set(err, ERR_INVALID, "bridges call: --hint needs KEY=VALUE");
        if (hints_set(hints, str_slice(text, 0, equals), str_slice(text, equals + 1, text.len),
                      err) < 0)
            return -1;
    }
    return 0;
}

static int bridges_prepare(const struct cli_call *call, struct trial *trial, struct err *err)
{
    AUTO_BUF struct buf private = {0}, weather = {0};
    const char *policy = cli_value(call, "policy");
    if (config_load(cli_value(call, "config"), &trial->config, err) < 0 ||
        loop_open(&trial->loop, err) < 0 || bridge_set_new(bridges, &trial->set, err) < 0 ||
        read_hints(call, &trial->services.hints, err) < 0 ||
        policy_from_arg(policy == NULL ? "none" : policy, &trial->services.policy, err) < 0)
        return -1;
    policy_put_servers(trial->config, &trial->servers);
    policy_put_private(trial->config, &private);
    buf_put(&weather, trial->config->bridges.weather_url);
    if (services_set_weather(&trial->services, buf_cstr(&weather), buf_cstr(&private), err) < 0)
        return -1;
    trial->options.dns_servers = trial->servers.len > 0 ? trial->servers.ptr : NULL;
    return gate_open(trial->loop, &trial->options, &trial->services.gate, err);
}

static void on_settled(void *ctx, bool is_ok, struct str json)
{
    struct trial *trial = ctx;
    trial->is_ok = is_ok;
    buf_put(&trial->answer, json);
}

static int print_answer(const struct trial *trial, struct err *err)
{
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text, .pretty = true};
    struct str message;
    if (json_parse(buf_str(&trial->answer), &answer, err) < 0)
        return -1;
    if (!trial->is_ok && json_to_str(json_get(answer, "message"), &message))
        return err_set(err, ERR_UNAVAILABLE, "%.*s", STR_ARG(message));
    json_put_value(&out, answer);
    buf_put_char(&text, '\n');
    cli_print(buf_str(&text));
    return EXIT_OK;
}

static int call_one(const struct cli_call *call, struct err *err)
{
    AUTO(trial_done) struct trial trial = {0};
    struct bridge_call *running = NULL;
    int64_t timeout_ms = TIMEOUT_MS;
    const char *timeout = cli_value(call, "timeout");
    if (timeout != NULL && !str_to_i64(str_of(timeout), 1, TIMEOUT_MAX_MS, &timeout_ms))
        return err_set(err, ERR_INVALID, "bridges call: --timeout needs a number from 1 to %d",
                       TIMEOUT_MAX_MS);
    if (bridges_prepare(call, &trial, err) < 0)
        return -1;
    struct str args = str_of(call->arg_count > 1 ? call->args[1] : "[]");
    if (bridge_call_start(trial.set, trial.loop, &trial.services, str_of(call->args[0]), args,
                          timeout_ms, on_settled, &trial, &running, err) < 0)
        return -1;
    loop_run(trial.loop);
    (void)bridge_call_free(running);
    return print_answer(&trial, err);
}

static const struct cli_option list_options[] = {
    CLI_OPTION_JSON,
    {0, "dts", NULL, "Print TypeScript declarations"},
    {0},
};

static const struct cli_option call_options[] = {
    {0, "policy", "POLICY", "Hosts that api.fetch may reach, as in 'policy test' (default: none)"},
    {0, "hint", "KEY=VALUE", "latitude, longitude, city or country of the user", .repeated = true},
    {0, "timeout", "MS", "Time limit of the call in milliseconds (default 30000)"},
    {0},
};

const struct cli_verb cmd_bridges = {
    .name = "bridges",
    .args = "",
    .summary = "List the host functions that code in an isolate may call",
    .options = list_options,
    .run = bridges_list,
};

const struct cli_verb cmd_bridges_call = {
    .name = "bridges call",
    .args = "NAME [ARGUMENTS]",
    .summary = "Call one host function, as a script would",
    .details = "ARGUMENTS is a JSON array, like '[{\"latitude\": 52.52, \"longitude\": 13.41}]'. "
               "Prints the result as JSON.",
    .options = call_options,
    .args_min = 1,
    .args_max = 2,
    .run = call_one,
};

const struct cli_verb cmd_bridges_docs = {
    .name = "bridges docs",
    .args = "",
    .summary = "Print docs/BRIDGES.md",
    .hidden = true,
    .run = docs,
};
