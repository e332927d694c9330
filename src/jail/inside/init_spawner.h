#pragma once

/* The process that the first process of every jail is a copy of.
 *
 * The warden starts it once from the sealed program, before the first jail. It holds nothing of the
 * warden's or of a tenant's: its memory is that of a program which has just started, its
 * descriptors are its socket, the null device and the warden's pidfd. Asked for a jail it clones;
 * the copy sets up its own isolation (jail/inside/setup.h) and then is init. So no jail pays for an
 * exec, and none gets a copy of the warden's memory.
 *
 * A request comes with the jail's control socket. All messages about the jail are sent on that
 * socket, never on the init spawner's own: INIT_CLONED or INIT_NOT_CLONED from the init spawner,
 * the rest from the copy. */

#include "base/base.h"

enum init_spawner_message {
    INIT_SPAWNER_HELLO =
        1, /* whether jails are made as the host's root without the privilege to be others:
      once, before the first question; INIT_READY or INIT_BROKEN comes back */
    /* The outer id; whether the init spawner must become it to clone; whether a group to clone into
     * is among the descriptors; how many entries of groups are; the plan, without sources.
     * Descriptors: control socket, network, the group, entries, layers, the writable layer,
     * volumes.
     */
    INIT_SPAWNER_MAKE,
};

enum { INIT_SPAWNER_SOCKET_FD = 3, INIT_SPAWNER_ALIVE_FD = 5, INIT_SPAWNER_FDS_MAX = 224 };

/* All of the init spawner, and in its copies all of pid 1. */
int init_spawner_main(void);
