#include "api/http/guard.h"

#include <netinet/in.h>

#include "base/crypto/hash.h"
#include "base/sip.h"

/* An address is remembered in one of so few places that looking is cheap; the one among them that
 * is forgotten soonest makes room. */
enum { WAYS = 8 };

static uint64_t hash_of(const struct sockaddr *peer)
{
    int family = peer == NULL ? AF_UNSPEC : peer->sa_family;
    if (family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)peer;
        return sip_hash(str_n((const char *)&v4->sin_addr, sizeof v4->sin_addr));
    }
    if (family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)peer;
        return sip_hash(str_n((const char *)&v6->sin6_addr, 8));
    }
    return sip_hash(STR("local"));
}

static struct guard_slot *guard_slot_of(struct guard *guard, uint64_t address)
{
    struct guard_slot *set = &guard->slots[address % (GUARD_SLOTS / WAYS) * WAYS];
    struct guard_slot *soonest = set;
    for (struct guard_slot *slot = set; slot < set + WAYS; slot++) {
        if (slot->address == address)
            return slot;
        if (slot->paid_ms < soonest->paid_ms)
            soonest = slot;
    }
    *soonest = (struct guard_slot){.address = address};
    return soonest;
}

int64_t guard_fail(struct guard *guard, const struct sockaddr *peer, int64_t now_ms)
{
    struct guard_slot *slot = guard_slot_of(guard, hash_of(peer));
    int64_t paid_ms = MAX(slot->paid_ms, now_ms) + GUARD_STEP_MS;
    int64_t over_ms = paid_ms - now_ms - (int64_t)GUARD_BURST * GUARD_STEP_MS;
    if (over_ms > 0)
        return (over_ms + 999) / 1000; /* not counted: hammering on does not make it worse */
    slot->paid_ms = paid_ms;
    return 0;
}
