#pragma once

/* What one place may reach, and with what: the effective policy of a sandbox on this machine, the
 * values of its secrets, the certificate authority for their hosts, its limits.
 *
 * A new one is made at every change and for every place; it is constant and reference-counted. Each
 * place gets new placeholders; a change in a running place keeps them. */

#include "base/buf.h"
#include "egress/gateway/egress_proxy.h"
#include "engine/keyring.h"

struct authority;
struct verdict;

struct network {
    size_t refs;
    struct policy *policy;       /* never NULL */
    struct secrets *secrets;     /* NULL: none */
    struct authority *authority; /* NULL: no connection is opened */
    /* Whose they are when they are those of an earlier network of the place; or NULL. */
    struct network *secrets_of, *authority_of;
    struct egress_proxy_limits limits;
    struct buf settings; /* lines "NAME=VALUE": variables for installers of groups */
};

struct network_spec {
    struct str tenant, policy;
    const struct sandbox_secrets *secrets; /* kept ones; NULL: as they were before */
    const struct sandbox_limits *limits;
};

/* `before` (may be NULL): what holds now in the same place. BUSY while the groups that it names are
 * still being looked up; see network_waits. */
int network_new(struct engine *engine, const struct network_spec *spec, struct network *before,
                struct network **ret_network, struct err *err) MUST_USE;
struct network *network_ref(struct network *network);
struct network *network_free(struct network *network); /* drops one reference */
DEFINE_FREEP(network)
#define AUTO_NETWORK AUTO(network_freep)

static inline bool network_is_offline(const struct network *network)
{
    return network->policy->mode == POLICY_NONE;
}

/* Environment variables for programs: the proxy (which sandboxes without a network have too), its
 * certificates, the settings of installers, and the placeholders. `in_jail` false: only the
 * placeholders. */
struct engine_pairs network_env(const struct network *network, bool in_jail, struct arena *arena);

/* The file of trusted certificates in a jail once connections are opened. */
#define NETWORK_CA_FILE "/tmp/.sandglass/ca.pem"

/* --- Groups: what `npm` and `pypi` mean here, looked up behind the loop's back --- */

struct groups;
struct groups *network_groups_new(struct engine *engine);
struct groups *network_groups_free(struct groups *groups);
/* True while a policy that names groups would be BUSY. */
bool network_waits(const struct engine *engine, struct str policy);
/* After network_waits said so: `call` comes once, when they are known, cannot be, or the engine
 * ends. */
struct groups_want {
    struct groups_want *next;
    void (*call)(struct groups_want *want);
};
void network_wait(struct engine *engine, struct groups_want *want);

/* --- News --- */

/* For the limit on the total bytes, whose count a sandbox keeps when it is paused. */
void network_moved(struct engine *engine, struct str sandbox, int64_t bytes);

/* Logged and reported as an event, once for each host, port and reason. */
void network_blocked(struct engine *engine, struct str sandbox, const char *channel,
                     const char *host, uint16_t port, const char *reason, const char *text);
