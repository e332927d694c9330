#pragma once

/* The process that the first process of every jail is a copy of.
 *
 * The warden starts it once from the sealed program, before the first jail. It holds nothing of the
 * warden's or of a tenant's: its memory is that of a program which has just begun, its descriptors
 * are its socket, the null device and the warden's pidfd. Asked for a jail it clones; the copy
 * builds the fence around itself (jail/setup.h) and then is init. So no jail pays for an exec, and
 * none gets a copy of the warden's memory.
 *
 * A question comes with the jail's control socket. What there is to say about the jail goes out on
 * that, never on the seed's own: INIT_BORN or INIT_UNBORN from the seed, the rest from the copy. */

#include "base/base.h"

enum seed_message {
    SEED_HELLO = 1, /* whether jails are made as the host's root without the privilege to be others:
                       once, before the first question; INIT_READY or INIT_BROKEN comes back */
    /* The outer id; whether the seed must become it to clone; whether a group to clone into is
     * among the descriptors; how many doors of groups are; the plan, without sources. Descriptors:
     * control socket, network, the group, doors, layers, the writable layer, volumes. */
    SEED_MAKE,
};

enum { SEED_SOCKET_FD = 3, SEED_ALIVE_FD = 5, SEED_FDS_MAX = 224 };

/* All of the seed, and in its copies all of pid 1. */
int seed_main(void);
