#pragma once

/* What a warden leaves that was killed.
 *
 * The kernel ends its jails with it and takes their namespaces and mounts apart. What stays are its
 * control groups, one corner in each hierarchy, named after the instance. A living warden holds a
 * lock on its corners, and makes them under a lock on what they lie in: a corner that can be locked
 * has no owner. Nothing of a living warden is touched.
 *
 * Every warden reclaims when it starts; the daemon can do so without starting one. */

#include "base/base.h"

struct err;

struct reclaimed {
    size_t corners; /* removed, over all hierarchies */
    size_t busy;    /* ownerless, but something in them would not die or is not ours to kill */
};

/* Looks where a warden started by this process would make its corners. May wait for up to two
 * seconds while killed processes leave. */
int jail_reclaim(struct reclaimed *ret_reclaimed, struct err *err) MUST_USE;

/* For the maker: in one directory of groups, which `is_locked` by the caller when it could be. */
void reclaim_corners(int parent_fd, bool is_locked, struct reclaimed *reclaimed);
/* Takes the lock under which corners are made; false when somebody keeps it from us. */
bool reclaim_lock(int parent_fd);
void reclaim_unlock(int parent_fd);
