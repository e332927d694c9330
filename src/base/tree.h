#pragma once

/* Deleting trees that other processes filled.
 *
 * A tree leaves its place in one rename, into a trash directory on the same filesystem, and is
 * taken apart there: what is deep is moved up before it is removed, so that neither depth nor
 * path length nor the number of descriptors ever matters, nothing recurses, and whatever a crash
 * leaves over is found in the trash by the next run. No link is followed, no mount crossed, modes
 * without permissions are no obstacle. */

#include "base/str.h"

struct err;

/* Moves `name` from one directory to a fresh name in `trash_fd`. NOT_FOUND when it is not there. */
int tree_discard(int dir_fd, const char *name, int trash_fd, struct err *err) MUST_USE;

/* Removes everything in `trash_fd`. Continues past what cannot be removed (a mount, say), so that
 * one obstacle does not keep the rest, and then fails with the first reason. */
int tree_reclaim(int trash_fd, struct err *err) MUST_USE;
