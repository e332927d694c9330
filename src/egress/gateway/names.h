#pragma once

/* Addresses that stand for names, in one sandbox.
 *
 * A sandbox that asks for an allowed name gets an address of a range that leads nowhere; connecting
 * to it is connecting to the name. So the name that was judged is never lost between a lookup and
 * a connection, and no answer of a name server ever reaches the sandbox. */

#include "base/map.h"
#include "base/vec.h"
#include "egress/policy/host.h"

enum { NAMES_MAX = 4096, NAMES_ADDRESSES_MAX = 64, NAMES_FRESH_MS = 10000 };

struct names_entry {
    struct host host;
    /* What it resolved to, all judged, while that is fresh: the connection that follows a lookup
     * needs no second one. */
    struct ip *addresses;
    size_t address_count;
    int64_t resolved_ms; /* monotonic */
};

struct names {
    VEC(struct names_entry) entries; /* the position is the address */
    struct map by_name;              /* position plus one */
};

void names_done(struct names *names);
/* The address of a name, new or as before. False when there are NAMES_MAX already. */
bool names_address(struct names *names, const struct host *host, struct ip *ret_address,
                   bool *ret_is_new);
/* NULL for an address that stands for nothing. Good until the next name is added. */
struct names_entry *names_find(struct names *names, const struct ip *address);
struct names_entry *names_get(struct names *names, const struct host *host);
void names_remember(struct names_entry *entry, const struct ip *addresses, size_t count);
bool names_is_fresh(const struct names_entry *entry);
