/* A tar stream as a tree: unpacked into a fresh directory, then moved into place. */

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sys.h"
#include "files/archive/fresh.h"
#include "files/archive/merge.h"
#include "files/archive/tar.h"
#include "files/archive/tar_unpack.h"
#include "files/internal.h"

static const struct files_tar_limits defaults = {
    .packed = 256 << 20, .unpacked = 1 << 30, .entries = 100000, .ratio = 200, .depth = 64};

struct files_tar_limits files_tar_limits_of(const struct files_tar_limits *limits)
{
    struct files_tar_limits all = defaults;
    if (limits != NULL) {
        all.packed = limits->packed ? limits->packed : defaults.packed;
        all.unpacked = limits->unpacked ? limits->unpacked : defaults.unpacked;
        all.entries = limits->entries ? limits->entries : defaults.entries;
        all.ratio = limits->ratio ? limits->ratio : defaults.ratio;
        all.depth = limits->depth ? limits->depth : defaults.depth;
    }
    return all;
}

/* What is not there need not be removed. */
static int remove_marked(const struct unpacking *unpacking, int to_fd, unsigned how,
                         struct err *err)
{
    VEC_EACH (path, &unpacking->removals) {
        struct files_delete_result removed = {0};
        char *slash = strrchr(*path, '/');
        if (slash != NULL)
            *slash = '\0';
        AUTO_CLOSE int dir =
            fd_open_in(to_fd, slash == NULL ? "." : *path, O_PATH | O_DIRECTORY, 0, how, err);
        if (dir < 0 && (err->sys == ENOENT || err->sys == ENOTDIR || err->sys == ELOOP))
            continue;
        if (dir < 0 ||
            (files_delete_in(dir, slash == NULL ? *path : slash + 1, true, &removed, err) < 0 &&
             err->sys != ENOENT))
            return err_wrap(err, "remove '%s'", *path);
    }
    return 0;
}

static int lay_over(const struct unpacking *unpacking, int to_fd, unsigned how, struct err *err)
{
    return remove_marked(unpacking, to_fd, how, err) < 0 ||
                   files_merge(unpacking->root_fd, to_fd, how, unpacking->is_layer, err) < 0
               ? -1
               : 0;
}

/* The name says that something is replaced: a watch tells of it so (files/watch.c). */
static int rename_temp(int parent_fd, char temp[FILES_TEMP_SIZE], struct err *err)
{
    char other[FILES_TEMP_SIZE];
    files_temp_name(false, other);
    if (SYS(renameat(parent_fd, temp, parent_fd, other)) < 0)
        return err_sys(err, errno, "move into place");
    memcpy(temp, other, sizeof other);
    return 0;
}

static int move_into_place(int parent_fd, char temp[FILES_TEMP_SIZE], int fresh_fd,
                           const char *name, enum files_tar_place place, struct err *err)
{
    unsigned flags = RENAME_NOREPLACE;
    struct stat st;
    bool exists = SYS(fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW)) == 0;
    if (SYS(fchmod(fresh_fd, 0755)) < 0)
        return err_sys(err, errno, "chmod");
    if (exists && place == FILES_TAR_REPLACE) {
        flags = RENAME_EXCHANGE; /* the old tree is then under the temporary name and goes */
        if (rename_temp(parent_fd, temp, err) < 0)
            return -1;
    }
    if (SYS(syscall(SYS_renameat2, parent_fd, temp, parent_fd, name, flags)) < 0)
        return errno == EEXIST ? err_set(err, ERR_CONFLICT, "'%s' already exists", name)
                               : err_sys(err, errno, "move into place");
    return 0;
}

/* What is left under the temporary name: the fresh tree after a failure, its empty directories
 * after a merge, the old tree after a replacement; nothing otherwise. A passing failure gets a
 * second try. */
static int remove_rest(int parent_fd, const char *temp, struct err *err)
{
    struct files_delete_result removed = {0};
    for (int tries = 0; tries < 2; tries++)
        if (files_delete_in(parent_fd, temp, true, &removed, err) == 0 || err->sys == ENOENT)
            return 0;
    return err_wrap(err, "after unpacking");
}

/* The fresh directory is made in `parent_fd`; with an empty name its content goes there too. */
static int unpack_in(int parent_fd, const char *name, enum files_tar_place place, unsigned how,
                     const struct files_source *source, const struct files_tar_limits *limits,
                     struct files_tar_result *result, struct err *err)
{
    char temp[FILES_TEMP_SIZE];
    AUTO_CLOSE int fresh_fd = -1;
    if (files_fresh_make(parent_fd, temp, &fresh_fd, err) < 0)
        return -1;
    /* The tree that is replaced has the temporary name until it is removed. */
    AUTO_CLOSE UNUSED int old_fd =
        place == FILES_TAR_REPLACE && name[0] != '\0' ? files_fresh_lock(parent_fd, name) : -1;
    struct unpacking unpacking = {.root_fd = fresh_fd,
                                  .dir_fd = -1,
                                  .limits = files_tar_limits_of(limits),
                                  .is_layer = place == FILES_TAR_LAYER};
    int done = files_unpack(&unpacking, source, err);
    if (done == 0)
        done = name[0] == '\0' ? lay_over(&unpacking, parent_fd, how, err)
                               : move_into_place(parent_fd, temp, fresh_fd, name, place, err);
    *result = unpacking.result;
    VEC_EACH (path, &unpacking.removals)
        free(*path);
    vec_done(&unpacking.removals);
    struct err ignored;
    int removed = remove_rest(parent_fd, temp, done < 0 ? &ignored : err);
    return done < 0 ? done : removed;
}

static int open_there(const struct files_place *target, unsigned how, struct err *err)
{
    return fd_open_in(target->dir_fd, target->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, how,
                      err);
}

int files_tar_in(struct files *files, struct str path, enum files_tar_place place,
                 const struct files_source *source, const struct files_tar_limits *limits,
                 struct files_tar_result *ret_result, struct err *err)
{
    struct files_tar_result result = {0};
    unsigned how = (files->how & FD_NO_XDEV) | FD_NO_LINKS;
    if (files_check_writable(files, err) < 0)
        return -1;
    bool is_root = str_eq(path, STR(".")) || (files->options.in_root && str_eq(path, STR("/")));
    if (place >= FILES_TAR_LAYER && !is_root)
        return err_set(err, ERR_INVALID, "a layer can be unpacked only to the root");
    int done;
    if (is_root && place >= FILES_TAR_MERGE) {
        done = unpack_in(files->root_fd, "", place, how, source, limits, &result, err);
    } else {
        AUTO_PLACE struct files_place target = {.dir_fd = -1};
        if (files_place_open(files, path, false, &target, err) < 0)
            return -1;
        /* Inside the directory that is there: it may be a mount, and nothing moves between two. */
        AUTO_CLOSE int dir_fd = place == FILES_TAR_MERGE ? open_there(&target, how, err) : -1;
        if (dir_fd >= 0)
            done = unpack_in(dir_fd, "", place, how, source, limits, &result, err);
        else if (place == FILES_TAR_MERGE && err->sys != ENOENT)
            done = -1;
        else
            done = unpack_in(target.dir_fd, target.name, place, how, source, limits, &result, err);
    }
    if (done < 0)
        return err_wrap(err, "unpack to '%.*s'", STR_ARG(path));
    *ret_result = result;
    return 0;
}
