#pragma once

/* File descriptors: owned by a scope, CLOEXEC when created, opened beneath a directory. */

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

/* How fd_open_in resolves a path. */
enum {
    FD_IN_ROOT = 1, /* "/" and ".." stop at `dir_fd`, as after chroot; else they are PATH_ESCAPES */
    FD_NO_LINKS = 2, /* a symbolic link on the way is refused (ELOOP) */
    FD_NO_XDEV = 4,  /* a mount point on the way is refused (PATH_ESCAPES) */
};

/* Opens `path` below `dir_fd`; the kernel refuses any way out, symbolic links and the magic ones
 * of /proc included. A path that a sandbox can influence is opened with this and nothing else.
 * Kernels without openat2 get a walk over the components with the same results. */
int fd_open_in(int dir_fd, const char *path, int flags, mode_t mode, unsigned how,
               struct err *err) MUST_USE;
/* fd_open_in with nothing special: what leads outside is PATH_ESCAPES. */
int fd_open_beneath(int dir_fd, const char *path, int flags, mode_t mode, struct err *err) MUST_USE;
/* From here on this process walks, as on a kernel without openat2: tests run both ways. */
void fd_without_openat2(void);

int fd_write_all(int fd, struct str bytes, struct err *err) MUST_USE;

/* Writes beside `name`, syncs, and renames into place: readers see the old file or the new one,
 * after a crash too. */
int fd_replace_file(int dir_fd, const char *name, struct str bytes, mode_t mode,
                    struct err *err) MUST_USE;

/* A program in memory, which is started by its descriptor: no path names it. Once it is sealed, its
 * bytes and, since Linux 6.3, its execute permission cannot be changed. A `mode` without read
 * permission prevents inspection of the process that runs it. */
int fd_program(const char *name, struct str bytes, mode_t mode, struct err *err) MUST_USE;
int fd_seal_program(int fd, struct err *err) MUST_USE;
int fd_sealed_program(const char *name, struct str bytes, mode_t mode, struct err *err) MUST_USE;

/* The directory of a path is synced: a name in it outlives a power cut from here on. */
int fd_sync_parent(const char *path, struct err *err) MUST_USE;

/* mkdir -p; existing directories are fine. What is made is synced into its parent. */
int fd_make_dirs(const char *path, mode_t mode, struct err *err) MUST_USE;
