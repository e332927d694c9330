#pragma once

/* Counts wrong tokens by address, in memory that no number of addresses can make grow.
 *
 * A right token is served whatever its address has done before: it cannot be guessed in any time,
 * and one client with an old token must not lock out the others behind the same address. What is
 * bounded is the work and the noise that wrong ones make. An IPv6 network of 64 bits counts as one
 * address, and so do all clients of a unix socket. */

#include <sys/socket.h>

#include "base/base.h"

enum {
    GUARD_BURST = 64,     /* failures that an address has at once */
    GUARD_STEP_MS = 1000, /* and one more each such time */
    GUARD_SLOTS = 1024,   /* addresses that are remembered */
};

/* All-zero is empty. */
struct guard {
    struct guard_slot {
        uint64_t address; /* its hash */
        int64_t paid_ms;  /* when all its failures will be forgotten */
    } slots[GUARD_SLOTS];
};

/* One more failure of this address. Gives 0, or after how many seconds it may try again. `peer` may
 * be NULL; `now_ms` is monotonic. */
int64_t guard_fail(struct guard *guard, const struct sockaddr *peer, int64_t now_ms);
