#include "cli/secret_arg.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/err.h"
#include "base/secret.h"
#include "cli/cli.h"
#include "egress/verdict.h"
#include "engine/config.h"

static int add_configured(struct secrets *secrets, const struct config *config, struct str name,
                          struct err *err)
{
    const struct config_bound_secret *bound = config_bound_secret(config, name);
    struct secret_rule rule;
    /* What stands here may be a key that was pasted by mistake: it is not repeated. */
    if (bound == NULL)
        return err_set(err, ERR_INVALID,
                       "neither NAME=env:VARIABLE@HOST nor the NAME of a [secrets.NAME] in "
                       "config.toml");
    if (config_secret_rule(bound, &rule, err) < 0)
        return -1;
    if (bound->value != NULL)
        return secrets_add(secrets, &rule, secret_reveal(bound->value), err);
    return secrets_load(secrets, &rule, err);
}

static int add(struct secrets *secrets, const struct config *config, struct str text,
               struct err *err)
{
    struct secret_rule rule;
    if (str_find_char(text, '=') == text.len)
        return add_configured(secrets, config, text, err);
    if (secret_rule_parse(text, &rule, err) < 0)
        return -1;
    return secrets_load(secrets, &rule, err);
}

int secrets_from_args(const struct cli_call *call, const struct config *config,
                      struct secrets **ret_secrets, struct err *err)
{
    AUTO_SECRETS struct secrets *secrets = NULL;
    for (size_t i = 0; i < call->given_count; i++) {
        if (strcmp(call->given[i].option->name, "secret") != 0)
            continue;
        if (secrets == NULL)
            secrets = secrets_new();
        if (add(secrets, config, str_of(call->given[i].value), err) < 0)
            return err_wrap(err, "--secret");
    }
    *ret_secrets = secrets;
    secrets = NULL;
    return 0;
}

static bool is_open(const struct policy *policy, const struct secret_place *place)
{
    struct verdict_request request = {
        .scheme = "https", .host = &place->host, .port = place->port, .method = STR("GET")};
    switch (policy == NULL ? VERDICT_POLICY_NONE : verdict_judge(policy, &request).reason) {
    case VERDICT_POLICY_NONE:
    case VERDICT_HOST:
    case VERDICT_HOST_DENIED:
    case VERDICT_PORT:
        return false;
    default: /* methods, paths and addresses are another question */
        return true;
    }
}

int secrets_check_policy(const struct secrets *secrets, const struct policy *policy,
                         struct err *err)
{
    for (size_t i = 0; i < secrets_count(secrets); i++) {
        const struct secret_rule *rule = &secrets_at(secrets, i)->rule;
        for (size_t k = 0; k < rule->place_count; k++)
            if (!is_open(policy, &rule->places[k]))
                return err_set(err, ERR_INVALID,
                               "secret %s is for %.80s:%d, which may not be reached; add "
                               "--allow-host %.80s:%d",
                               rule->name, rule->places[k].host.text, rule->places[k].port,
                               rule->places[k].host.text, rule->places[k].port);
    }
    return 0;
}

void secrets_guard_process(void)
{
    static const struct rlimit none = {0};
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)setrlimit(RLIMIT_CORE, &none);
}
