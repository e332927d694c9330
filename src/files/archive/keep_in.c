/* A directory becomes what an archive holds. */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sys.h"
#include "files/archive/fresh.h"
#include "files/archive/keep.h"
#include "files/archive/merge.h"
#include "files/archive/tar_unpack.h"
#include "files/internal.h"
#include "files/mark.h"

enum { OPEN_DIR = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, PRUNE_DEPTH_MAX = 200 };

/* What an archive cannot have: it was there before, perhaps, and stays. */
static bool is_out_of_reach(int dir_fd, const char *name, const struct stat *st)
{
    if (S_ISLNK(st->st_mode))
        return false;
    if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode))
        return true;
    AUTO_CLOSE int fd = SYS(openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    return fd < 0;
}

static int prune(int live_fd, int kept_fd, int depth, struct err *err);

static int prune_below(int live_fd, int kept_fd, const char *name, int depth, struct err *err)
{
    AUTO_CLOSE int live = SYS(openat(live_fd, name, OPEN_DIR));
    AUTO_CLOSE int kept = SYS(openat(kept_fd, name, OPEN_DIR));
    if (live < 0 || kept < 0)
        return 0;
    return prune(live, kept, depth + 1, err);
}

static int prune_one(int live_fd, int kept_fd, const char *name, int depth, struct err *err)
{
    struct stat live, kept;
    struct files_delete_result removed = {0};
    if (SYS(fstatat(live_fd, name, &live, AT_SYMLINK_NOFOLLOW)) < 0)
        return 0; /* gone meanwhile */
    if (SYS(fstatat(kept_fd, name, &kept, AT_SYMLINK_NOFOLLOW)) == 0)
        return S_ISDIR(live.st_mode) && S_ISDIR(kept.st_mode)
                   ? prune_below(live_fd, kept_fd, name, depth, err)
                   : 0;
    if (is_out_of_reach(live_fd, name, &live))
        return 0;
    if (files_delete_in(live_fd, name, true, &removed, err) < 0 && err->sys != ENOENT)
        return err_wrap(err, "delete '%s'", name);
    return 0;
}

/* Deletes what the other directory has not. */
static int prune(int live_fd, int kept_fd, int depth, struct err *err)
{
    AUTO_CLOSE int fd = SYS(openat(live_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    AUTO_MEM struct files_dir *dir = mem_alloc(sizeof *dir);
    struct files_dirent entry;
    int got = -1;
    if (depth > PRUNE_DEPTH_MAX)
        return err_set(err, ERR_TOO_LARGE, "directories are nested too deeply");
    dir->fd = fd;
    while (fd >= 0 && (got = files_dir_next(dir, &entry)) > 0)
        if (!(depth == 0 && strcmp(entry.name, FILES_KEEP_OWN) == 0) &&
            prune_one(live_fd, kept_fd, entry.name, depth, err) < 0)
            return -1;
    return got < 0 ? err_sys(err, errno, "read a directory") : 0;
}

/* Beside what it replaces, on the same file system. */
static int open_fresh(int dir_fd, char name[FILES_TEMP_SIZE], int *ret_own, int *ret_fresh,
                      struct err *err)
{
    if (SYS(mkdirat(dir_fd, FILES_KEEP_OWN, 0755)) < 0 && errno != EEXIST)
        return err_sys(err, errno, "create '" FILES_KEEP_OWN "'");
    AUTO_CLOSE int own = SYS(openat(dir_fd, FILES_KEEP_OWN, OPEN_DIR));
    if (own < 0)
        return err_sys(err, errno, "open '" FILES_KEEP_OWN "'");
    if (files_fresh_make(own, name, ret_fresh, err) < 0)
        return -1;
    *ret_own = fd_take(&own);
    return 0;
}

int files_keep_in(struct files *files, struct str path, const struct files_source *source,
                  const struct files_tar_limits *limits, struct files_tar_result *ret_result,
                  struct err *err)
{
    AUTO_CLOSE int own_fd = -1, fresh_fd = -1;
    char name[FILES_TEMP_SIZE];
    if (files_check_writable(files, err) < 0)
        return -1;
    AUTO_CLOSE int dir_fd = files_open_dir(files, path, err);
    if (dir_fd < 0 || open_fresh(dir_fd, name, &own_fd, &fresh_fd, err) < 0)
        return err_wrap(err, "restore '%.*s'", STR_ARG(path));
    struct unpacking unpacking = {.root_fd = fresh_fd,
                                  .dir_fd = -1,
                                  .limits = files_tar_limits_of(limits),
                                  .has_any_links = true};
    int done = files_unpack(&unpacking, source, err);
    if (done == 0)
        done = prune(dir_fd, fresh_fd, 0, err);
    if (done == 0)
        done = files_merge(fresh_fd, dir_fd, (files->how & FD_NO_XDEV) | FD_NO_LINKS, true, err);
    struct files_delete_result removed = {0};
    struct err ignored = {0};
    (void)!files_delete_in(own_fd, name, true, &removed, &ignored);
    if (done < 0)
        return err_wrap(err, "restore '%.*s'", STR_ARG(path));
    *ret_result = unpacking.result;
    return 0;
}
