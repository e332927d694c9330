#pragma once

/* What one place may reach, and with what: a sandbox's policy as it comes to on this machine, the
 * values of its secrets, the authority that opens their hosts, its limits.
 *
 * Made anew at every change and for every place, constant after that, shared by whoever holds a
 * reference. Placeholders are new with every place; a change in a living one keeps them. */

#include "egress/porter.h"
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
    struct porter_limits limits;
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

/* Variables for programs: the way to the proxy, which is there for sandboxes without a network too,
 * its certificates, what leads installers, and the placeholders. `in_jail` false: the placeholders
 * alone. */
struct engine_pairs network_env(const struct network *network, bool in_jail, struct arena *arena);

/* Where the roots lie that a jail trusts once connections are opened. */
#define NETWORK_CA_FILE "/tmp/.sandglass/ca.pem"

/* --- Groups: what `npm` and `pypi` mean here, looked up behind the loop's back --- */

struct groups;
struct groups *groups_new(struct engine *engine);
struct groups *groups_free(struct groups *groups);
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

/* For the limit on all bytes, which a sandbox takes along when it is paused. */
void network_moved(struct engine *engine, struct str sandbox, int64_t bytes);

/* Logged and told as an event, once for each host, port and reason. */
void network_blocked(struct engine *engine, struct str sandbox, const char *channel,
                     const char *host, uint16_t port, const char *reason, const char *text);
