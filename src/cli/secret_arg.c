#include "cli/secret_arg.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/crypto/secret.h"
#include "base/err.h"
#include "cli/cli.h"
#include "config/config.h"
#include "egress/keys/opened.h"

static int add_configured(struct secrets *secrets, const struct config *config, struct str name,
                          struct err *err)
{
    const struct config_bound_secret *bound = config_bound_secret(config, name);
    struct secret_rule rule;
    /* The argument may be a key that was pasted by mistake: it is not repeated. */
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

static int secret_arg_add(struct secrets *secrets, const struct config *config, struct str text,
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
        if (secret_arg_add(secrets, config, str_of(call->given[i].value), err) < 0)
            return err_wrap(err, "--secret");
    }
    *ret_secrets = secrets;
    secrets = NULL;
    return 0;
}

int secrets_check_policy(const struct secrets *secrets, const struct policy *policy,
                         struct err *err)
{
    for (size_t i = 0; i < secrets_count(secrets); i++)
        if (opened_check_rule(&secrets_at(secrets, i)->rule, policy, "add --allow-host", err) < 0)
            return -1;
    return 0;
}

void secrets_guard_process(void)
{
    /* With 0 a core_pattern with a pipe still starts its program; jails inherit the limit and could
     * not raise it. */
    static const struct rlimit none = {1, 1};
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)setrlimit(RLIMIT_CORE, &none);
}
