#pragma once

/* Replaces the root of a running jail by one with a new writable layer: the warden's part of a
 * checkpoint.
 *
 * The root of init is the old "/" before and the new one afterwards; mounts (/usr, /proc, /tmp,
 * volumes) are moved. Other processes may run in it only if the caller allows them, the jail is
 * frozen, and nothing ties them to the old root (relayer_processes.c). Else, and while a file of
 * the layer is open for writing, the answer is BUSY and nothing has changed. */

#include "jail/warden/builder.h"

/* As warden_link.h has jail_ask_seal: the layer in memory that takes the writes is sealed, and the
 * next one takes them. Gives a descriptor of the sealed one. With seal->processes the caller has
 * frozen the jail. *ret_broken: it failed half-way and the jail must end. */
int relayer_seal(struct builder *builder, struct made *made, const struct jail_plan *plan,
                 const struct jail_seal *seal, bool *ret_broken, struct err *err) MUST_USE;
