#include "files/archive/merge.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sys.h"
#include "files/internal.h"

struct merging {
    unsigned how;
    bool moves, replaces;
};

static int merge_level(int from_fd, int to_fd, const struct merging *merging, struct err *err);

/* Both sides have a directory of this name. */
static int merge_dirs(int from_fd, int to_fd, const char *name, const struct merging *merging,
                      struct err *err)
{
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
    AUTO_CLOSE int from = fd_open_in(from_fd, name, flags, 0, merging->how, err);
    AUTO_CLOSE int to = from < 0 ? -1 : fd_open_in(to_fd, name, flags, 0, merging->how, err);
    struct stat st;
    if (to < 0)
        return -1;
    /* Not ours to change where it is the base's. */
    if (merging->moves && merging->replaces && SYS(fstat(from, &st)) == 0)
        (void)fchmod(to, st.st_mode & 0777);
    return merge_level(from, to, merging, err);
}

/* Over a file by way of a temporary name beside it, so that a watch, which cannot see where things
 * come from, tells of a file that was changed and not of a new one (files/watch.c). */
static int move_over(int from_fd, int to_fd, const char *name, struct err *err)
{
    char temp[FILES_TEMP_SIZE];
    files_temp_name(false, temp);
    if (SYS(renameat(from_fd, name, to_fd, temp)) < 0)
        return err_sys(err, errno, "move '%s'", name);
    if (SYS(renameat(to_fd, temp, to_fd, name)) == 0)
        return 0;
    (void)err_sys(err, errno, "move '%s'", name);
    (void)unlinkat(to_fd, temp, 0);
    return -1;
}

static int merge_entry(int from_fd, int to_fd, const char *name, const struct merging *merging,
                       struct err *err)
{
    struct stat from, to;
    if (SYS(fstatat(from_fd, name, &from, AT_SYMLINK_NOFOLLOW)) < 0)
        return err_sys(err, errno, "stat '%s'", name);
    if (SYS(fstatat(to_fd, name, &to, AT_SYMLINK_NOFOLLOW)) < 0) {
        if (errno != ENOENT)
            return err_sys(err, errno, "stat '%s'", name);
    } else if (S_ISDIR(from.st_mode) && S_ISDIR(to.st_mode)) {
        return merge_dirs(from_fd, to_fd, name, merging, err);
    } else if ((S_ISDIR(from.st_mode) || S_ISDIR(to.st_mode)) && !merging->replaces) {
        return err_set(err, ERR_CONFLICT, "'%s' is %s in the target and %s in the archive", name,
                       files_type_name(to.st_mode), files_type_name(from.st_mode));
    } else if (S_ISDIR(from.st_mode) || S_ISDIR(to.st_mode)) {
        struct files_delete_result removed = {0};
        if (merging->moves && files_delete_in(to_fd, name, true, &removed, err) < 0)
            return -1;
    } else if (merging->moves && !merging->replaces) {
        return move_over(from_fd, to_fd, name, err);
    }
    if (merging->moves && SYS(renameat(from_fd, name, to_fd, name)) < 0)
        return err_sys(err, errno, "move '%s'", name);
    return 0;
}

static int merge_level(int from_fd, int to_fd, const struct merging *merging, struct err *err)
{
    AUTO_CLOSE int fd = SYS(openat(from_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0)
        return err_sys(err, errno, "open a directory");
    AUTO_MEM struct files_dir *dir = mem_alloc(sizeof *dir);
    dir->fd = fd;
    struct files_dirent entry;
    int got;
    while ((got = files_dir_next(dir, &entry)) > 0)
        if (merge_entry(from_fd, to_fd, entry.name, merging, err) < 0)
            return -1;
    return got < 0 ? err_sys(err, errno, "read a directory") : 0;
}

int files_merge(int from_fd, int to_fd, unsigned how, bool replaces, struct err *err)
{
    struct merging looking = {.how = how, .replaces = replaces};
    struct merging moving = {.how = how, .moves = true, .replaces = replaces};
    if (merge_level(from_fd, to_fd, &looking, err) < 0)
        return -1;
    return merge_level(from_fd, to_fd, &moving, err);
}
