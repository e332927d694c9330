#pragma once

/* Where a sandbox may go: nowhere, to a list of hosts, or to the public Internet.
 *
 * As text, statements separated by ';', entries by ',':
 *
 *     none
 *     public; deny x.github.com
 *     allow api.example.com, *.github.com:443; deny x.github.com
 *     allow api.example.com:443|8443 GET|HEAD /v1/ /v2/status
 *     allow db.internal:5432; private db.internal=10.0.0.5:5432
 *
 * "*.x" is every host below x and not x itself. Without ports an allowed host has 443 and 80; a
 * denied one is denied on all. Denials win. A private entry opens one address that is not public,
 * for one host and port; only the operator may use it, "*" and "*.com".
 *
 * As JSON: {"mode": "none|list|public", "allow": [...], "deny": [...], "private": [...]}, entries
 * as text or as {"host", "ports", "methods", "paths"} and {"host", "address", "port"}.
 *
 * Constant once parsed, so that any number of holders may share it. */

#include "base/arena.h"
#include "base/vec.h"
#include "egress/policy/host.h"

struct buf;

enum {
    POLICY_TEXT_MAX = 64 << 10,
    POLICY_RULES_MAX = 256, /* of each kind */
    POLICY_PORTS_MAX = 8,
    POLICY_METHODS_MAX = 8,
    POLICY_PATHS_MAX = 16,
    POLICY_PATH_LEN_MAX = 256,
};

enum policy_mode { POLICY_NONE, POLICY_LIST, POLICY_PUBLIC };

struct policy_rule {
    struct str host; /* canonical; empty for every host */
    bool is_below;   /* its subdomains, not the host itself */
    uint16_t ports[POLICY_PORTS_MAX];
    struct str methods[POLICY_METHODS_MAX];
    struct str paths[POLICY_PATHS_MAX]; /* prefixes */
    size_t port_count, method_count, path_count;
};

struct policy_private {
    struct host host;
    struct ip ip;
    uint16_t port;
};

struct policy {
    enum policy_mode mode;
    VEC(struct policy_rule) allow;
    VEC(struct policy_rule) deny;
    VEC(struct policy_private) private;
    size_t refs;
    struct arena arena;
};

/* Who wrote it. */
enum policy_author { POLICY_BY_USER, POLICY_BY_OPERATOR };

/* Text, or JSON if it begins with '{'. Fails with INVALID and the position, FORBIDDEN for what only
 * an operator may write, or TOO_LARGE. */
int policy_parse(struct str text, enum policy_author author, struct policy **ret_policy,
                 struct err *err) MUST_USE;
struct policy *policy_ref(struct policy *policy);
struct policy *policy_free(struct policy *policy); /* drops one reference */
DEFINE_FREEP(policy)
#define AUTO_POLICY AUTO(policy_freep)

/* Where the operator's private entries lead HOST:PORT, at most `max` addresses; 0: they do not name
 * it. With `*port` 0 the first entry of the host decides, and sets it. No name server is asked for
 * such a host. */
size_t policy_private_addresses(const struct policy *policy, const struct host *host,
                                uint16_t *port, struct ip *ret_addresses, size_t max);

/* The one way to write it: parsed again it gives the same. */
void policy_put(const struct policy *policy, struct buf *out);
void policy_put_rule(const struct policy_rule *rule, struct buf *out);
