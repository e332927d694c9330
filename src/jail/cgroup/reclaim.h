#pragma once

/* Cleans up what a killed warden left behind.
 *
 * The kernel ends its jails with it and takes their namespaces and mounts apart. What stays are its
 * control groups, one corner in each hierarchy, named after the instance. A living warden holds a
 * lock on its corners, and makes them under a lock on their parent: a corner that can be locked has
 * no owner. Nothing of a living warden is touched.
 *
 * Every warden reclaims when it starts. It may wait for up to two seconds while killed processes
 * leave. */

#include "base/base.h"

/* In one directory of groups, which `is_locked` by the caller when it could be. */
void reclaim_corners(int parent_fd, bool is_locked);
/* Takes the lock under which corners are made; false when another process holds it. */
bool reclaim_lock(int parent_fd);
void reclaim_unlock(int parent_fd);
