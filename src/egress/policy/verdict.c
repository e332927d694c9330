#include "egress/policy/verdict.h"

#include <stdarg.h>

#include "base/buf.h"
#include "base/err.h"

enum { SHOWN_HOST = 100 };

const char *verdict_reason_name(enum verdict_reason reason)
{
    static const char *const names[] = {
#define X(name, wire) [VERDICT_##name] = (wire),
        VERDICT_MAP(X)
#undef X
    };
    return names[reason];
}

struct verdict verdict_make(enum verdict_reason reason, const char *fmt, ...)
{
    struct verdict verdict = {.reason = reason};
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(verdict.text, sizeof verdict.text, fmt, args);
    va_end(args);
    return verdict;
}

struct verdict verdict_unresolved(const char *host, const char *why)
{
    return verdict_make(VERDICT_NOT_RESOLVED, "'%.*s' cannot be resolved: %s", SHOWN_HOST, host,
                        why);
}

/* "blocked api.example.com:443: why" */
static struct verdict block(const struct verdict_request *request, enum verdict_reason reason,
                            const char *why)
{
    return verdict_make(reason, "blocked %.*s:%d: %s", SHOWN_HOST, request->host->text,
                        request->port, why);
}

static bool matches_host(const struct policy_rule *rule, const struct host *host)
{
    if (rule->host.len == 0)
        return true;
    if (rule->is_below)
        return !host_is_ip(host) && host_is_below(host_str(host), rule->host);
    return str_eq(host_str(host), rule->host);
}

static bool has_port(const struct policy_rule *rule, uint16_t port)
{
    for (size_t i = 0; i < rule->port_count; i++)
        if (rule->ports[i] == port)
            return true;
    return false;
}

static bool allows_port(const struct policy_rule *rule, uint16_t port)
{
    return rule->port_count == 0 ? port == 443 || port == 80 : has_port(rule, port);
}

static bool allows_method(const struct policy_rule *rule, struct str method)
{
    for (size_t i = 0; i < rule->method_count; i++)
        if (str_eq(rule->methods[i], method))
            return true;
    return rule->method_count == 0;
}

/* "/v1" covers "/v1" and "/v1/x" but not "/v10"; "/v1/" covers what lies below. */
static bool allows_path(const struct policy_rule *rule, struct str path)
{
    for (size_t i = 0; i < rule->path_count; i++) {
        struct str prefix = rule->paths[i];
        bool is_dir = prefix.ptr[prefix.len - 1] == '/';
        if (str_starts(path, prefix) &&
            (is_dir || path.len == prefix.len || path.ptr[prefix.len] == '/'))
            return true;
    }
    return rule->path_count == 0;
}

/* Servers decode, fold and climb each in their own way: a path whose meaning depends on that is
 * not measured against a prefix. */
static bool is_ambiguous(struct str path)
{
    for (size_t i = 0; i + 2 < path.len; i++) {
        struct str code = str_slice(path, i, i + 3);
        if (str_eq_nocase(code, STR("%2e")) || str_eq_nocase(code, STR("%2f")) ||
            str_eq_nocase(code, STR("%5c")) || str_eq_nocase(code, STR("%00")) ||
            str_eq_nocase(code, STR("%25")))
            return true;
    }
    return str_find(path, STR("/./")) < path.len || str_find(path, STR("/../")) < path.len ||
           str_ends(path, STR("/.")) || str_ends(path, STR("/..")) ||
           str_find(path, STR("//")) < path.len || str_find_char(path, ';') < path.len ||
           str_find_char(path, '\\') < path.len;
}

/* How far this rule goes along with the request; the farthest gives the message. */
static enum verdict_reason try_rule(const struct policy_rule *rule,
                                    const struct verdict_request *request)
{
    bool is_tunnel = strcmp(request->scheme, "tcp") == 0;
    if (!matches_host(rule, request->host))
        return VERDICT_HOST;
    if (!allows_port(rule, request->port))
        return VERDICT_PORT;
    if (request->is_lookup || rule->method_count + rule->path_count == 0)
        return VERDICT_ALLOWED;
    if (is_tunnel)
        return VERDICT_NOT_INSPECTED;
    if (!allows_method(rule, request->method))
        return VERDICT_METHOD;
    if (rule->path_count > 0 && is_ambiguous(request->path))
        return VERDICT_PATH_AMBIGUOUS;
    return allows_path(rule, request->path) ? VERDICT_ALLOWED : VERDICT_PATH;
}

static const char *why_not(enum verdict_reason reason)
{
    switch (reason) {
    case VERDICT_PORT:
        return "the policy allows this host only on other ports";
    case VERDICT_METHOD:
        return "the policy allows only other methods on this host";
    case VERDICT_PATH:
        return "the policy allows only other paths on this host";
    case VERDICT_PATH_AMBIGUOUS:
        return "the path can be read in two ways (dots, '//', ';' or encoded slashes), and the "
               "policy limits paths on this host";
    case VERDICT_NOT_INSPECTED:
        return "the policy limits methods or paths on this host, which a tunnel hides";
    default:
        return "the policy does not name this host";
    }
}

static bool is_denied(const struct policy *policy, const struct verdict_request *request)
{
    VEC_EACH (rule, &policy->deny)
        if (matches_host(rule, request->host) &&
            (rule->port_count == 0 || has_port(rule, request->port)))
            return true;
    return false;
}

static enum verdict_reason try_rules(const struct policy *policy,
                                     const struct verdict_request *request)
{
    if (policy->mode == POLICY_PUBLIC)
        return VERDICT_ALLOWED;
    enum verdict_reason best = VERDICT_HOST;
    VEC_EACH (rule, &policy->allow) {
        enum verdict_reason reason = try_rule(rule, request);
        if (reason == VERDICT_ALLOWED)
            return reason;
        best = MAX(best, reason);
    }
    return best;
}

/* The operator's entry for this host, address and port; with `ip` NULL for any address. */
static bool has_private(const struct policy *policy, const struct verdict_request *request,
                        const struct ip *ip)
{
    VEC_EACH (entry, &policy->private)
        if (entry->port == request->port && strcmp(entry->host.text, request->host->text) == 0 &&
            (ip == NULL || ip_eq(&entry->ip, ip)))
            return true;
    return false;
}

static bool is_own(const struct verdict_request *request, const struct ip *ip)
{
    for (size_t i = 0; i < request->own_count; i++)
        if (ip_eq(&request->own[i], ip))
            return true;
    return false;
}

static bool may_reach(const struct policy *policy, const struct verdict_request *request,
                      const struct ip *ip, bool by_rule)
{
    if (has_private(policy, request, ip))
        return true;
    return by_rule && ip_is_public(ip) && !is_own(request, ip);
}

static struct verdict judge_addresses(const struct policy *policy,
                                      const struct verdict_request *request, bool by_rule)
{
    static const char why[] = "it leads to an address that is not public (egress.private of "
                              "config.toml can allow it)";
    if (host_is_ip(request->host)) {
        if (!may_reach(policy, request, &request->host->ip, by_rule))
            return block(request, VERDICT_ADDRESS, why);
    } else if (host_is_localhost(request->host) && !has_private(policy, request, NULL)) {
        return block(request, VERDICT_ADDRESS, why);
    } else if (request->is_resolved && request->address_count == 0) {
        return verdict_unresolved(request->host->text, "the name has no address");
    }
    if (request->is_resolved)
        for (size_t i = 0; i < request->address_count; i++)
            if (!may_reach(policy, request, &request->addresses[i], by_rule))
                return block(request, VERDICT_ADDRESS, why);
    return verdict_make(VERDICT_ALLOWED, "allowed %.*s:%d", SHOWN_HOST, request->host->text,
                        request->port);
}

struct verdict verdict_judge(const struct policy *policy, const struct verdict_request *request)
{
    if (policy == NULL || policy->mode == POLICY_NONE)
        return block(request, VERDICT_POLICY_NONE,
                     "this sandbox has no network: allow a host, npm or pypi with --allow-host "
                     "(network in the API)");
    if (strcmp(request->scheme, "http") != 0 && strcmp(request->scheme, "https") != 0 &&
        strcmp(request->scheme, "tcp") != 0)
        return block(request, VERDICT_SCHEME, "only http and https are supported");
    if (request->port == 0)
        return block(request, VERDICT_PORT, "0 is not a port");
    if (is_denied(policy, request))
        return block(request, VERDICT_HOST_DENIED, "the policy denies it");
    enum verdict_reason by_rule = try_rules(policy, request);
    if (by_rule != VERDICT_ALLOWED && !has_private(policy, request, NULL))
        return block(request, by_rule, why_not(by_rule));
    return judge_addresses(policy, request, by_rule == VERDICT_ALLOWED);
}

static bool try_lookup(const struct policy *policy, const struct host *host, uint16_t port,
                       struct verdict *ret_verdict)
{
    struct verdict_request request = {
        .scheme = "tcp", .host = host, .port = port, .is_lookup = true};
    *ret_verdict = verdict_judge(policy, &request);
    return verdict_is_allowed(ret_verdict);
}

struct verdict verdict_judge_name(const struct policy *policy, const struct host *host,
                                  uint16_t *ret_port)
{
    struct verdict first, verdict;
    *ret_port = 443;
    if (try_lookup(policy, host, 443, &first))
        return first;
    *ret_port = 80;
    if (policy == NULL || try_lookup(policy, host, 80, &verdict))
        return policy == NULL ? first : verdict;
    VEC_EACH (rule, &policy->allow)
        for (size_t i = 0; i < rule->port_count; i++) {
            *ret_port = rule->ports[i];
            if (try_lookup(policy, host, *ret_port, &verdict))
                return verdict;
        }
    VEC_EACH (entry, &policy->private) {
        *ret_port = entry->port;
        if (try_lookup(policy, host, *ret_port, &verdict))
            return verdict;
    }
    *ret_port = 443;
    return first;
}

struct verdict verdict_judge_url(const struct policy *policy, struct str method, struct str text,
                                 struct url *ret_url)
{
    struct err err = {0};
    struct url url;
    if (url_parse(text, &url, &err) < 0)
        return verdict_make(err.code == ERR_UNSUPPORTED ? VERDICT_SCHEME : VERDICT_URL_INVALID,
                            "blocked: %s", err.msg);
    struct verdict_request request = {
        .scheme = url_scheme(&url),
        .host = &url.host,
        .port = url.port,
        .method = method,
        .path = url_path(&url),
    };
    struct verdict verdict = verdict_judge(policy, &request);
    if (verdict_is_allowed(&verdict))
        *ret_url = url;
    return verdict;
}
