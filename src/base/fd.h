#pragma once

/* File descriptors: owned by a scope, CLOEXEC from birth, opened beneath a directory. */

#include <sys/types.h>

#include "base/str.h"

struct err;

static inline int fd_take(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}
void fd_close(int *fd); /* closes what is open and sets -1; errno stays */
#define AUTO_CLOSE AUTO(fd_close)

/* Opens `path` below `dir_fd`; the kernel refuses any way out, links included (FORBIDDEN). A path
 * that a sandbox can influence is opened with this and nothing else. */
int fd_open_beneath(int dir_fd, const char *path, int flags, mode_t mode, struct err *err) MUST_USE;

int fd_write_all(int fd, struct str bytes, struct err *err) MUST_USE;

/* Writes beside `name`, syncs, and renames into place: readers see the old file or the new one,
 * after a crash too. */
int fd_replace_file(int dir_fd, const char *name, struct str bytes, mode_t mode,
                    struct err *err) MUST_USE;

/* mkdir -p; existing directories are fine. */
int fd_make_dirs(const char *path, mode_t mode, struct err *err) MUST_USE;
