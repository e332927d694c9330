#include "files/archive/fresh.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"

enum { MAKE_TRIES = 8 };

int files_fresh_lock(int parent_fd, const char *name)
{
    AUTO_CLOSE int fd =
        openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 ? -1 : fd_take(&fd);
}

/* What could not be removed is left for the next time: it is no reason to refuse an archive. */
static void remove_unused(int parent_fd, const char *name)
{
    struct files_delete_result removed = {0};
    struct err ignored = {0};
    AUTO_CLOSE int fd = files_fresh_lock(parent_fd, name);
    if (fd >= 0)
        (void)!files_delete_in(parent_fd, name, true, &removed, &ignored);
}

static void remove_leftovers(int parent_fd)
{
    AUTO_CLOSE int fd = openat(parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_MEM struct files_dir *dir = mem_alloc(sizeof *dir);
    struct files_dirent entry;
    bool is_new;
    dir->fd = fd;
    while (fd >= 0 && files_dir_next(dir, &entry) > 0)
        if (files_is_temp_name(str_of(entry.name), &is_new))
            remove_unused(parent_fd, entry.name);
}

/* Whether the directory is ours now. Another process may have taken it for a leftover before the
 * lock: then it holds the lock, or the name is gone. A file system without locks has no leftovers
 * that could be told. */
static bool is_ours(int parent_fd, const char *name, int fd)
{
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return false;
    return fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int files_fresh_make(int parent_fd, char ret_name[FILES_TEMP_SIZE], int *ret_fd, struct err *err)
{
    remove_leftovers(parent_fd);
    for (int tries = 0; tries < MAKE_TRIES; tries++) {
        files_temp_name(true, ret_name);
        if (SYS(mkdirat(parent_fd, ret_name, 0700)) < 0)
            return err_sys(err, errno, "create a directory to unpack in");
        AUTO_CLOSE int fd =
            SYS(openat(parent_fd, ret_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        int code = errno;
        if (fd >= 0 && is_ours(parent_fd, ret_name, fd)) {
            *ret_fd = fd_take(&fd);
            return 0;
        }
        (void)unlinkat(parent_fd, ret_name, AT_REMOVEDIR);
        if (fd < 0 && code != ENOENT)
            return err_sys(err, code, "open the directory to unpack in");
    }
    return err_set(err, ERR_CONFLICT, "other archives are being unpacked there; try again");
}
