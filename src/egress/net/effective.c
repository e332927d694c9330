#include "egress/net/effective.h"

#include "base/err.h"
#include "egress/policy/verdict.h"

static bool is_group(const struct policy_rule *rule, size_t *ret_group)
{
    if (rule->is_below || rule->port_count + rule->method_count + rule->path_count > 0)
        return false;
    for (size_t i = 0; i < GROUP_COUNT; i++)
        if (str_eq(rule->host, str_of(group_name(i)))) {
            *ret_group = i;
            return true;
        }
    return false;
}

unsigned policy_groups(const struct policy *policy)
{
    unsigned groups = 0;
    size_t group;
    VEC_EACH (rule, &policy->allow)
        if (is_group(rule, &group))
            groups |= 1U << group;
    return groups;
}

/* One more entry of a list; the keyword stands before the first. */
static void effective_put_entry(struct buf *out, const char *keyword, bool *has_any,
                                struct str entry)
{
    if (*has_any)
        buf_put_cstr(out, ", ");
    else
        buf_printf(out, "%s%s ", out->len > 0 ? "; " : "", keyword);
    buf_put(out, entry);
    *has_any = true;
}

static void put_rules(const struct policy *policy, const struct effective_sources *sources,
                      struct buf *out)
{
    AUTO_BUF struct buf rule_text = {0};
    bool has_any = false;
    size_t group;
    VEC_EACH (rule, &policy->allow) {
        buf_clear(&rule_text);
        policy_put_rule(rule, &rule_text);
        if (is_group(rule, &group) && sources->groups[group] != NULL) {
            if (sources->groups[group]->allow.len > 0)
                effective_put_entry(out, "allow", &has_any,
                                    buf_str(&sources->groups[group]->allow));
        } else {
            effective_put_entry(out, "allow", &has_any, buf_str(&rule_text));
        }
    }
    has_any = false;
    VEC_EACH (rule, &policy->deny) {
        buf_clear(&rule_text);
        policy_put_rule(rule, &rule_text);
        effective_put_entry(out, "deny", &has_any, buf_str(&rule_text));
    }
}

/* Private entries open their host by themselves; here they only count for hosts that were named. */
static bool is_named(const struct policy *allowed, const struct policy *entries)
{
    VEC_EACH (entry, &entries->private) {
        struct verdict_request request = {
            .scheme = "tcp", .host = &entry->host, .port = entry->port, .is_lookup = true};
        enum verdict_reason reason = verdict_judge(allowed, &request).reason;
        if (reason != VERDICT_ALLOWED && reason != VERDICT_ADDRESS)
            return false;
    }
    return true;
}

static int put_configured(const struct policy *allowed, const struct effective_sources *sources,
                          bool *has_any, struct buf *out, struct err *err)
{
    AUTO_BUF struct buf text = {0};
    for (size_t i = 0; i < sources->private_count; i++) {
        AUTO_POLICY struct policy *entries = NULL;
        buf_clear(&text);
        buf_printf(&text, "allow invalid.invalid; private %.*s", STR_ARG(sources->private[i]));
        if (policy_parse(buf_str(&text), POLICY_BY_OPERATOR, &entries, err) < 0)
            return err_wrap(err, "egress.private");
        if (is_named(allowed, entries))
            effective_put_entry(out, "private", has_any, sources->private[i]);
    }
    return 0;
}

/* The private entries of the policy itself, in its words. */
static void put_own_private(const struct policy *policy, bool *has_any, struct buf *out)
{
    AUTO_BUF struct buf whole = {0};
    policy_put(policy, &whole);
    size_t at = str_find(buf_str(&whole), STR("private "));
    if (policy->private.len > 0 && at < whole.len)
        effective_put_entry(out, "private", has_any,
                            str_slice(buf_str(&whole), at + strlen("private "), whole.len));
}

int policy_effective(const struct policy *policy, const struct effective_sources *sources,
                     struct policy **ret_policy, struct err *err)
{
    AUTO_BUF struct buf text = {0};
    AUTO_POLICY struct policy *allowed = NULL;
    bool has_any = false;
    unsigned groups = policy_groups(policy);
    if (policy->mode != POLICY_LIST)
        buf_put_cstr(&text, policy->mode == POLICY_NONE ? "none" : "public");
    put_rules(policy, sources, &text);
    if (policy_parse(buf_str(&text), POLICY_BY_OPERATOR, &allowed, err) < 0)
        return -1;
    put_own_private(policy, &has_any, &text);
    for (size_t i = 0; i < GROUP_COUNT; i++)
        if ((groups & 1U << i) != 0 && sources->groups[i] != NULL &&
            sources->groups[i]->private.len > 0)
            effective_put_entry(&text, "private", &has_any, buf_str(&sources->groups[i]->private));
    if (allowed->mode != POLICY_NONE && put_configured(allowed, sources, &has_any, &text, err) < 0)
        return -1;
    return policy_parse(buf_str(&text), POLICY_BY_OPERATOR, ret_policy, err);
}
