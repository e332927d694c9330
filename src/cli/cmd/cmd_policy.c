/* sandglass policy test: the verdict that every way out would get, and its reason. */

#include "base/buf.h"
#include "base/err.h"
#include "base/format/json.h"
#include "cli/cli.h"
#include "cli/cmd/commands.h"
#include "cli/policy_arg.h"
#include "config/config.h"
#include "egress/net/effective.h"
#include "egress/net/resolve.h"
#include "egress/policy/verdict.h"
#include "io/loop.h"

struct question {
    const struct policy *policy;
    struct str method;
    struct url url;
    struct verdict verdict;
};

static void policy_judge(struct question *question, const struct ip *addresses, size_t count)
{
    struct err err = {0};
    struct ip own[IP_OWN_MAX];
    size_t own_count = 0;
    if (ip_own_list(own, &own_count, &err) < 0) {
        question->verdict = verdict_make(VERDICT_NOT_RESOLVED, "blocked: %s", err.msg);
        return;
    }
    struct verdict_request request = {
        .scheme = url_scheme(&question->url),
        .host = &question->url.host,
        .port = question->url.port,
        .method = question->method,
        .path = url_path(&question->url),
        .is_resolved = true,
        .addresses = addresses,
        .address_count = count,
        .own = own,
        .own_count = own_count,
    };
    question->verdict = verdict_judge(question->policy, &request);
}

static void policy_on_resolved(void *ctx, const struct ip *addresses, size_t count,
                               const struct err *why)
{
    struct question *question = ctx;
    if (why != NULL)
        question->verdict = verdict_unresolved(question->url.host.text, why->msg);
    else
        policy_judge(question, addresses, count);
}

static int resolve(const struct cli_call *call, struct question *question, struct err *err)
{
    struct ip known[RESOLVE_ADDRESSES_MAX];
    size_t count = policy_private_addresses(question->policy, &question->url.host,
                                            &question->url.port, known, countof(known));
    if (host_is_ip(&question->url.host) || count > 0) {
        policy_judge(question, count > 0 ? known : &question->url.host.ip, MAX(count, (size_t)1));
        return 0;
    }
    AUTO_CONFIG struct config *config = NULL;
    AUTO_LOOP struct loop *loop = NULL;
    AUTO_BUF struct buf servers = {0};
    struct resolve *lookup = NULL;
    if (config_load(cli_value(call, "config"), &config, err) < 0 || loop_open(&loop, err) < 0)
        return -1;
    policy_put_servers(config, &servers);
    struct resolve_options options = {.servers = servers.len > 0 ? servers.ptr : NULL};
    if (resolve_start(loop, &options, host_str(&question->url.host), policy_on_resolved, question,
                      &lookup, err) < 0)
        return -1;
    loop_run(loop);
    (void)resolve_free(lookup);
    return 0;
}

static void cmd_policy_put_json(const struct question *question, struct buf *out)
{
    AUTO_BUF struct buf policy = {0};
    struct json_out json = {.buf = out, .pretty = true};
    bool is_parsed = question->url.port != 0;
    policy_put(question->policy, &policy);
    json_begin_object(&json);
    json_key(&json, "allowed"), json_put_bool(&json, verdict_is_allowed(&question->verdict));
    json_key(&json, "reason");
    json_put_cstr(&json, verdict_reason_name(question->verdict.reason));
    json_key(&json, "message"), json_put_cstr(&json, question->verdict.text);
    json_key(&json, "policy"), json_put_str(&json, buf_str(&policy));
    if (is_parsed) {
        json_key(&json, "scheme"), json_put_cstr(&json, url_scheme(&question->url));
        json_key(&json, "host"), json_put_cstr(&json, question->url.host.text);
        json_key(&json, "port"), json_put_i64(&json, question->url.port);
    }
    json_key(&json, "method"), json_put_str(&json, question->method);
    json_end_object(&json);
    buf_put_char(out, '\n');
}

static void drop_hosts(struct group_hosts (*hosts)[GROUP_COUNT])
{
    for (size_t i = 0; i < GROUP_COUNT; i++)
        group_hosts_done(&(*hosts)[i]);
}

/* Groups stand for what this machine is configured to use, and its private entries hold, here as
 * everywhere. */
static int apply_config(const struct cli_call *call, struct policy **policy, struct err *err)
{
    AUTO_CONFIG struct config *config = NULL;
    AUTO_BUF struct buf servers = {0};
    AUTO(drop_hosts) struct group_hosts hosts[GROUP_COUNT] = {0};
    struct effective_sources sources = {0};
    struct policy *effective = NULL;
    unsigned named = policy_groups(*policy);
    if (config_load(cli_value(call, "config"), &config, err) < 0)
        return -1;
    sources.private = config->egress.private.items;
    sources.private_count = config->egress.private.len;
    if (named == 0 && sources.private_count == 0)
        return 0;
    struct group_sources from;
    config_group_sources(config, &servers, &from);
    for (size_t i = 0; i < GROUP_COUNT; i++) {
        if ((named & 1U << i) == 0)
            continue;
        if (group_expand(str_of(group_name(i)), &from, &hosts[i], err) < 0)
            return err_wrap(err, "group '%s'", group_name(i));
        sources.groups[i] = &hosts[i];
    }
    if (policy_effective(*policy, &sources, &effective, err) < 0)
        return -1;
    (void)policy_free(*policy);
    *policy = effective;
    return 0;
}

static int test(const struct cli_call *call, struct err *err)
{
    AUTO_POLICY struct policy *policy = NULL;
    struct str url = str_of(call->args[1]);
    const char *method = cli_value(call, "method");
    struct err unread;
    if (policy_from_arg(call->args[0], &policy, err) < 0 || apply_config(call, &policy, err) < 0)
        return -1;
    struct question question = {.policy = policy,
                                .method = str_of(method == NULL ? "GET" : method)};
    question.verdict = verdict_judge_url(policy, question.method, url, &question.url);
    if (verdict_is_allowed(&question.verdict) && cli_has(call, "resolve") &&
        resolve(call, &question, err) < 0)
        return -1;
    if (!verdict_is_allowed(&question.verdict))
        (void)!url_parse(url, &question.url, &unread);
    AUTO_BUF struct buf out = {0};
    if (cli_has(call, "json"))
        cmd_policy_put_json(&question, &out);
    else
        buf_printf(&out, "%s (%s)\n", question.verdict.text,
                   verdict_reason_name(question.verdict.reason));
    cli_print(buf_str(&out));
    return verdict_is_allowed(&question.verdict) ? EXIT_OK : EXIT_FAILED;
}

static const struct cli_option options[] = {
    {0, "method", "METHOD", "Test this method (default GET)"},
    {0, "resolve", NULL, "Resolve the name and check its addresses too"},
    CLI_OPTION_JSON,
    {0},
};

const struct cli_verb cmd_policy_test = {
    .name = "policy test",
    .args = "POLICY URL",
    .summary = "Show whether a network policy allows a request, and why",
    .details = "POLICY is text like 'allow api.example.com, *.github.com:443; deny x.github.com', "
               "'public' or 'none', or the path of a .json file. Exits 0 when the request is "
               "allowed, 1 when it is refused.",
    .options = options,
    .args_min = 2,
    .args_max = 2,
    .run = test,
};
