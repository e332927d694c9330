#pragma once

/* May this request leave? One function for every way out: an isolate's fetch, a proxy, a tunnel, a
 * redirect. Pure: no input or output, no state.
 *
 * A request is judged twice: by its name before anything is resolved, so that not even a query
 * leaves for a host that the policy does not know, and with every address once they are resolved.
 * One forbidden address refuses the whole request. */

#include "egress/policy/policy.h"
#include "egress/policy/url.h"

/* name, machine-readable reason */
#define VERDICT_MAP(X)                                                                             \
    X(ALLOWED, "allowed")                                                                          \
    X(POLICY_NONE, "policy_none")                                                                  \
    X(URL_INVALID, "url_invalid")                                                                  \
    X(HOST_INVALID, "host_invalid")                                                                \
    X(SCHEME, "scheme_not_allowed")                                                                \
    X(HOST_DENIED, "host_denied")                                                                  \
    X(HOST, "host_not_allowed")                                                                    \
    X(PORT, "port_not_allowed")                                                                    \
    X(METHOD, "method_not_allowed")                                                                \
    X(PATH, "path_not_allowed")                                                                    \
    X(PATH_AMBIGUOUS, "path_ambiguous")                                                            \
    X(NOT_INSPECTED, "not_inspected")                                                              \
    X(NOT_RESOLVED, "not_resolved")                                                                \
    X(ADDRESS, "address_not_public")                                                               \
    X(REDIRECT_LOOP, "too_many_redirects")                                                         \
    X(REDIRECT_DOWNGRADE, "redirect_downgrade")                                                    \
    X(REDIRECT, "redirect_refused")                                                                \
    X(SERVER_NAME, "server_name_mismatch")                                                         \
    X(NOT_TLS, "not_tls")                                                                          \
    X(HOST_HEADER, "host_header_mismatch")                                                         \
    X(NOT_HTTP, "not_http")                                                                        \
    X(LIMIT, "limit_reached")

enum verdict_reason {
#define X(name, wire) VERDICT_##name,
    VERDICT_MAP(X)
#undef X
        VERDICT_COUNT
};

enum { VERDICT_TEXT_SIZE = 240 };

struct verdict {
    enum verdict_reason reason;
    char text[VERDICT_TEXT_SIZE]; /* one sentence for people; names no internal address */
};

struct verdict_request {
    const char *scheme; /* "http", "https", or "tcp" for a tunnel that is not intercepted */
    const struct host *host;
    uint16_t port;
    struct str method, path; /* both empty for a tunnel */
    /* Judges only the host: rules on methods and paths are not applied. */
    bool is_lookup;
    /* What the name resolved to. Not asked for while `is_resolved` is false. */
    bool is_resolved;
    const struct ip *addresses;
    size_t address_count;
    const struct ip *own; /* this machine's own addresses; ip_own_list */
    size_t own_count;
};

struct verdict verdict_judge(const struct policy *policy, const struct verdict_request *request);
/* Judges only by name. On allow sets `*ret_url`; its text stays the caller's. */
struct verdict verdict_judge_url(const struct policy *policy, struct str method, struct str text,
                                 struct url *ret_url);
/* May this name be looked up: is there a port on which the policy knows it? `*ret_port` is the
 * first such port, or the one that the refusal speaks of. */
struct verdict verdict_judge_name(const struct policy *policy, const struct host *host,
                                  uint16_t *ret_port);
/* The policy allows the name, but it has no address. */
struct verdict verdict_unresolved(const char *host, const char *why);
struct verdict verdict_make(enum verdict_reason reason, const char *fmt, ...) PRINTF_LIKE(2, 3);

static inline bool verdict_is_allowed(const struct verdict *verdict)
{
    return verdict->reason == VERDICT_ALLOWED;
}
const char *verdict_reason_name(enum verdict_reason reason);
