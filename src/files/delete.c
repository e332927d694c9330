/* Removes a tree that an attacker built to be hard to remove.
 *
 * No recursion and no list of names: one directory is emptied at a time. Going down pushes a level;
 * the deepest levels keep their descriptors, older ones only remember which directory they were
 * (device and inode) and are found again through "..", whose answer is checked against that. A
 * directory that was moved away during the removal ends it; nothing outside is touched.
 *
 * An entry that cannot be removed is remembered by a hash of its location, so that it is not tried
 * again each time its directory is read. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sip.h"
#include "base/sys.h"
#include "base/vec.h"
#include "files/internal.h"

enum { OPEN_LEVELS = 24, KEPT_MAX = 1024, ROUNDS_MAX = 64, LEVELS_MAX = 1 << 20 };

struct open_level {
    struct files_dir dir;
    char name[FILES_NAME_MAX + 1]; /* in the level above; "" when that one must be read again */
};

struct level {
    dev_t dev;
    ino_t ino;
    struct open_level *open; /* NULL when its descriptor was given up */
};

struct removal {
    VEC(struct level) levels;
    size_t first_open; /* levels before this one have no descriptor */
    VEC(uint64_t) kept;
    struct files_delete_result *result;
    struct err first; /* why the first kept entry is kept */
};

static void level_close(struct level *level)
{
    if (level->open == NULL)
        return;
    fd_close(&level->open->dir.fd);
    free(level->open);
    level->open = NULL;
}

static void removal_done(struct removal *removal)
{
    VEC_EACH (level, &removal->levels)
        level_close(level);
    vec_done(&removal->levels);
    vec_done(&removal->kept);
}

static uint64_t place_hash(const struct level *level, const char *name)
{
    struct {
        uint64_t dev, ino, name;
    } place = {level->dev, level->ino, sip_hash(str_of(name))};
    return sip_hash(str_n((const char *)&place, sizeof place));
}

static bool is_kept(struct removal *removal, uint64_t place)
{
    VEC_EACH (kept, &removal->kept)
        if (*kept == place)
            return true;
    return false;
}

static int delete_keep(struct removal *removal, uint64_t place, const char *name, int code,
                       struct err *err)
{
    *vec_push(&removal->kept) = place;
    removal->result->kept++;
    if (removal->first.code == ERR_NONE)
        (void)err_sys(&removal->first, code, "remove '%s'", name);
    if (removal->kept.len < KEPT_MAX)
        return 0;
    return err_set(err, ERR_CONFLICT, "more than %d entries cannot be removed; the first: %s",
                   KEPT_MAX, removal->first.msg);
}

/* Takes `fd`. */
static int push_level(struct removal *removal, int fd, const char *name, struct err *err)
{
    AUTO_CLOSE int owned = fd;
    struct stat st;
    if (SYS(fstat(owned, &st)) < 0)
        return err_sys(err, errno, "stat a directory");
    if (removal->levels.len >= LEVELS_MAX)
        return err_set(err, ERR_TOO_LARGE, "more than %d levels of directories", LEVELS_MAX);
    struct open_level *open = mem_alloc(sizeof *open);
    open->dir.fd = fd_take(&owned);
    (void)snprintf(open->name, sizeof open->name, "%s", name);
    *vec_push(&removal->levels) = (struct level){st.st_dev, st.st_ino, open};
    if (removal->levels.len - removal->first_open > OPEN_LEVELS)
        level_close(&removal->levels.ptr[removal->first_open++]);
    return 0;
}

/* The directory `name` in `dir_fd`, whatever its mode; -1 with errno. Not through a link, and not
 * into another mount: that one is EXDEV. */
static int open_child(int dir_fd, const char *name)
{
    struct err err;
    AUTO_CLOSE int path_fd = fd_open_in(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0,
                                        FD_NO_LINKS | FD_NO_XDEV, &err);
    if (path_fd < 0) {
        errno = err.sys;
        return -1;
    }
    int fd = SYS(openat(path_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd >= 0 || errno != EACCES)
        return fd;
    if (files_chmod_fd(path_fd, 0700) < 0) {
        errno = EACCES;
        return -1;
    }
    return SYS(openat(path_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static int unlink_entry(int dir_fd, const char *name, bool is_dir)
{
    int flags = is_dir ? AT_REMOVEDIR : 0;
    if (SYS(unlinkat(dir_fd, name, flags)) == 0 || errno == ENOENT)
        return 0;
    if (errno != EACCES)
        return -1;
    /* The directory's owner may have taken away the right to change it; we are the owner too. */
    if (fchmod(dir_fd, 0700) < 0) {
        errno = EACCES;
        return -1;
    }
    return SYS(unlinkat(dir_fd, name, flags)) == 0 || errno == ENOENT ? 0 : -1;
}

/* Removes the entry, or goes down into it. 1 when it went down. */
static int remove_entry(struct removal *removal, const struct files_dirent *entry, struct err *err)
{
    struct level *level = vec_last(&removal->levels);
    bool is_dir = entry->type == DT_DIR;
    uint64_t place = place_hash(level, entry->name);
    if (removal->kept.len > 0 && is_kept(removal, place))
        return 0;
    int done = unlink_entry(level->open->dir.fd, entry->name, is_dir);
    if (done < 0 && (errno == EISDIR || errno == ENOTDIR || (errno == EPERM && !is_dir))) {
        is_dir = !is_dir;
        done = unlink_entry(level->open->dir.fd, entry->name, is_dir);
    }
    if (done == 0) {
        removal->result->removed++;
        return 0;
    }
    int code = errno;
    if (code == ENOTEMPTY || code == EEXIST) {
        int fd = open_child(level->open->dir.fd, entry->name);
        if (fd >= 0)
            return push_level(removal, fd, entry->name, err) < 0 ? -1 : 1;
        code = errno;
    }
    return delete_keep(removal, place, entry->name, code, err);
}

/* Finds the level above the last one again, through the last one's "..". */
static int reopen_parent(struct removal *removal, struct err *err)
{
    struct level *child = vec_last(&removal->levels), *parent = child - 1;
    AUTO_CLOSE int fd = SYS(openat(child->open->dir.fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat st;
    if (fd < 0 || SYS(fstat(fd, &st)) < 0)
        return err_sys(err, errno, "go up from a directory");
    if (st.st_dev != parent->dev || st.st_ino != parent->ino)
        return err_set(err, ERR_CONFLICT, "the tree was moved while it was removed; try again");
    parent->open = mem_alloc(sizeof *parent->open);
    parent->open->dir.fd = fd_take(&fd);
    removal->first_open = removal->levels.len - 2;
    return 0;
}

/* A level has been read to its end: up again, and the directory itself goes. */
static int pop_level(struct removal *removal, struct err *err)
{
    struct level *child = vec_last(&removal->levels);
    if (removal->levels.len == 1) {
        level_close(child);
        removal->levels.len--;
        return 0;
    }
    struct level *parent = child - 1;
    if (parent->open == NULL && reopen_parent(removal, err) < 0)
        return -1;
    char name[FILES_NAME_MAX + 1];
    memcpy(name, child->open->name, sizeof name);
    level_close(child);
    removal->levels.len--;
    if (name[0] == '\0')
        return 0;
    if (unlink_entry(parent->open->dir.fd, name, true) == 0) {
        removal->result->removed++;
        return 0;
    }
    /* Not empty: an entry in it is kept, or another process is writing; the next pass handles
     * it. */
    if (errno != ENOTEMPTY && errno != EEXIST)
        return delete_keep(removal, place_hash(parent, name), name, errno, err);
    if (removal->kept.len > 0)
        *vec_push(&removal->kept) = place_hash(parent, name);
    return 0;
}

static int empty_levels(struct removal *removal, struct err *err)
{
    while (removal->levels.len > 0) {
        struct files_dirent entry;
        int got = files_dir_next(&vec_last(&removal->levels)->open->dir, &entry);
        if (got < 0)
            return err_sys(err, errno, "read a directory");
        int done = got == 1 ? remove_entry(removal, &entry, err) : pop_level(removal, err);
        if (done < 0)
            return -1;
    }
    return 0;
}

/* Empties the directory. Further rounds catch what a writer added behind our back. */
static int empty_dir(int dir_fd, struct removal *removal, struct err *err)
{
    for (int round = 0; round < ROUNDS_MAX; round++) {
        uint64_t before = removal->result->removed;
        int fd = SYS(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (fd < 0)
            return err_sys(err, errno, "open a directory");
        removal->first_open = 0;
        if (push_level(removal, fd, "", err) < 0 || empty_levels(removal, err) < 0)
            return -1;
        if (removal->result->removed == before)
            break;
    }
    return 0;
}

static int delete_tree(int dir_fd, const char *name, struct removal *removal, struct err *err)
{
    AUTO_CLOSE int fd = open_child(dir_fd, name);
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", name);
    if (empty_dir(fd, removal, err) < 0)
        return -1;
    if (removal->first.code != ERR_NONE) {
        *err = removal->first;
        return -1;
    }
    if (unlink_entry(dir_fd, name, true) < 0)
        return err_sys(err, errno, "remove '%s'", name);
    removal->result->removed++;
    return 0;
}

int files_delete_in(int dir_fd, const char *name, bool recursive,
                    struct files_delete_result *result, struct err *err)
{
    if (SYS(unlinkat(dir_fd, name, 0)) == 0) {
        result->removed++;
        return 0;
    }
    if (errno != EISDIR && errno != EPERM)
        return err_sys(err, errno, "remove '%s'", name);
    if (SYS(unlinkat(dir_fd, name, AT_REMOVEDIR)) == 0) {
        result->removed++;
        return 0;
    }
    if (errno != ENOTEMPTY && errno != EEXIST)
        return err_sys(err, errno, "remove '%s'", name);
    if (!recursive)
        return err_set(err, ERR_CONFLICT,
                       "the directory '%s' is not empty; set recursive to delete it", name);
    struct removal removal = {.result = result};
    int done = delete_tree(dir_fd, name, &removal, err);
    removal_done(&removal);
    return done;
}

static int empty_root(struct files *files, struct files_delete_result *result, struct err *err)
{
    struct removal removal = {.result = result};
    int done = empty_dir(files->root_fd, &removal, err);
    if (done == 0 && removal.first.code != ERR_NONE) {
        *err = removal.first;
        done = -1;
    }
    removal_done(&removal);
    return done;
}

int files_delete(struct files *files, struct str path, bool recursive,
                 struct files_delete_result *ret_result, struct err *err)
{
    struct files_delete_result result = {0};
    if (files_check_writable(files, err) < 0)
        return -1;
    int done;
    bool is_root = str_eq(path, STR(".")) || (files->options.in_root && str_eq(path, STR("/")));
    if (is_root && recursive) {
        done = empty_root(files, &result, err);
    } else {
        AUTO_PLACE struct files_place place = {.dir_fd = -1};
        if (files_place_open(files, path, false, &place, err) < 0)
            return -1;
        done = files_delete_in(place.dir_fd, place.name, recursive, &result, err);
    }
    *ret_result = result;
    return done;
}
