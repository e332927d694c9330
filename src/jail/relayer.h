#pragma once

/* Exchanges the root of a running jail for one of other layers: the warden's part of a checkpoint.
 *
 * Every process of the jail that stands at the old "/" stands at the new one afterwards; mounts
 * (/usr, /proc, /tmp, volumes) move over. The old root is read-only from then on for whoever still
 * has something of it open, so that a frozen layer stays frozen. Files open for writing and working
 * directories inside the layer cannot move: with any of those the answer is BUSY and nothing has
 * changed. */

#include "jail/maker.h"

/* As warden_link.h has jail_ask_seal: the layer in memory that takes the writes is sealed, and the
 * next one takes them. Gives a descriptor of the sealed one. */
struct relayer_seal {
    size_t kept;        /* of those that were sealed before stay part of the root */
    int64_t most_bytes; /* in memory, all of them together */
};
int relayer_seal(struct maker *maker, struct made *made, const struct jail_plan *plan,
                 const struct relayer_seal *seal, bool *ret_broken, struct err *err) MUST_USE;

/* `was_frozen`: the jail is paused and shall stay so. *ret_broken: it failed half-way and the jail
 * must end. */
int relayer_run(struct maker *maker, struct made *made, const struct jail_plan *plan,
                bool was_frozen, bool *ret_broken, struct err *err) MUST_USE;
