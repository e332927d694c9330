/* Writing a policy, in its one canonical form. */

#include "base/buf.h"
#include "egress/policy/policy.h"

void policy_put_rule(const struct policy_rule *rule, struct buf *out)
{
    if (rule->is_below)
        buf_put_cstr(out, "*.");
    if (rule->host.len == 0)
        buf_put_char(out, '*');
    else
        buf_put(out, rule->host);
    for (size_t i = 0; i < rule->port_count; i++)
        buf_printf(out, "%c%d", i == 0 ? ':' : '|', rule->ports[i]);
    for (size_t i = 0; i < rule->method_count; i++)
        buf_printf(out, "%c%.*s", i == 0 ? ' ' : '|', STR_ARG(rule->methods[i]));
    for (size_t i = 0; i < rule->path_count; i++)
        buf_printf(out, " %.*s", STR_ARG(rule->paths[i]));
}

static void put_private(const struct policy_private *entry, struct buf *out)
{
    char address[IP_TEXT_SIZE];
    ip_format(&entry->ip, address);
    bool is_v6 = entry->ip.version == 6;
    buf_printf(out, "%s=%s%s%s:%d", entry->host.text, is_v6 ? "[" : "", address, is_v6 ? "]" : "",
               entry->port);
}

/* What stands before the next entry of a list. */
static void put_start(struct buf *out, const char *keyword, bool is_first)
{
    if (!is_first)
        buf_put_cstr(out, ", ");
    else
        buf_printf(out, "%s%s ", out->len > 0 ? "; " : "", keyword);
}

void policy_put(const struct policy *policy, struct buf *out)
{
    AUTO_BUF struct buf text = {0};
    if (policy->mode != POLICY_LIST)
        buf_put_cstr(&text, policy->mode == POLICY_NONE ? "none" : "public");
    VEC_EACH (rule, &policy->allow) {
        put_start(&text, "allow", rule == policy->allow.ptr);
        policy_put_rule(rule, &text);
    }
    VEC_EACH (rule, &policy->deny) {
        put_start(&text, "deny", rule == policy->deny.ptr);
        policy_put_rule(rule, &text);
    }
    VEC_EACH (entry, &policy->private) {
        put_start(&text, "private", entry == policy->private.ptr);
        put_private(entry, &text);
    }
    buf_put(out, buf_str(&text));
}
