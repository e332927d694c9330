#include "egress/keys/opened.h"

#include "base/err.h"
#include "base/vec.h"
#include "egress/keys/authority.h"
#include "egress/keys/secrets.h"
#include "egress/policy/verdict.h"

static bool is_limited(const struct policy_rule *rule)
{
    return rule->method_count + rule->path_count > 0;
}

bool opened_any(const struct policy *policy, const struct secrets *secrets)
{
    if (secrets_count(secrets) > 0)
        return true;
    if (policy != NULL)
        VEC_EACH (rule, &policy->allow)
            if (is_limited(rule))
                return true;
    return false;
}

struct authority *opened_authority(const struct policy *policy, const struct secrets *secrets)
{
    VEC(struct host) hosts = {0};
    bool is_any = false;
    for (size_t i = 0; i < secrets_count(secrets); i++) {
        const struct secret_rule *rule = &secrets_at(secrets, i)->rule;
        for (size_t k = 0; k < rule->place_count; k++)
            *vec_push(&hosts) = rule->places[k].host;
    }
    if (policy != NULL)
        VEC_EACH (rule, &policy->allow) {
            struct host host;
            struct err err;
            if (!is_limited(rule))
                continue;
            if (rule->host.len == 0 || host_parse(rule->host, &host, &err) < 0)
                is_any = true;
            else
                *vec_push(&hosts) = host;
        }
    struct authority *authority = authority_new(hosts.ptr, is_any ? 0 : hosts.len);
    vec_done(&hosts);
    return authority;
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

int opened_check_rule(const struct secret_rule *rule, const struct policy *policy,
                      const char *remedy, struct err *err)
{
    for (size_t i = 0; i < rule->place_count; i++) {
        const struct secret_place *place = &rule->places[i];
        if (!is_open(policy, place))
            return err_set(err, ERR_INVALID,
                           "secret %s is bound to %.80s:%d, which the network policy does not "
                           "allow; %s %.80s:%d",
                           rule->name, place->host.text, place->port, remedy, place->host.text,
                           place->port);
    }
    return 0;
}
