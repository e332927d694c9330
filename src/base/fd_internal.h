#pragma once

/* The walk that replaces openat2. Returns a descriptor, or -1 with errno as openat2 sets it:
 * EXDEV for a way out, EAGAIN when the tree changed under the walk. */

#include <sys/types.h>

int fd_walk_open(int dir_fd, const char *path, int flags, mode_t mode, unsigned how);
