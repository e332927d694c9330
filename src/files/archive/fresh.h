#pragma once

/* The directory that an archive is unpacked in before its entries have their place.
 *
 * A process that is killed while it unpacks leaves its directory behind. Each such directory is
 * locked (flock) by the process that uses it, so the next one that unpacks beside it can tell what
 * nobody uses any more, and removes it. */

#include "files/internal.h"

/* Makes and locks an empty directory with a temporary name in `parent_fd`, and removes those that
 * killed processes have left there. The lock goes with the descriptor. */
int files_fresh_make(int parent_fd, char ret_name[FILES_TEMP_SIZE], int *ret_fd,
                     struct err *err) MUST_USE;

/* Locks a directory that is about to get a temporary name, so that no other process removes it
 * meanwhile. Returns its descriptor; -1: it is no directory, or a program holds a lock on it. */
int files_fresh_lock(int parent_fd, const char *name);
