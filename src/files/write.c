/* Changing a tree: write, append, mkdir, rename, symlink. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sys.h"
#include "files/internal.h"

enum { COPY_STEP = 1 << 16 };

struct bytes_source {
    struct str rest;
};

static ssize_t read_bytes(void *ctx, void *space, size_t size, UNUSED struct err *err)
{
    struct bytes_source *source = ctx;
    size_t step = MIN(size, source->rest.len);
    if (step > 0)
        memcpy(space, source->rest.ptr, step);
    source->rest = str_slice(source->rest, step, source->rest.len);
    return (ssize_t)step;
}

int files_write(struct files *files, struct str path, struct str bytes,
                const struct files_write_options *options, bool *ret_created, struct err *err)
{
    struct bytes_source from = {bytes};
    struct files_source source = {read_bytes, &from};
    return files_write_from(files, path, &source, options, ret_created, err);
}

static int check_same(const struct files_write_options *options, const struct stat *st,
                      struct str path, struct err *err)
{
    struct files_stat now = {0};
    if (options->if_same == NULL)
        return 0;
    if (st != NULL)
        files_stat_from(st, &now);
    if (st != NULL && now.size == options->if_same->size &&
        now.mtime_ns == options->if_same->mtime_ns)
        return 0;
    return err_set(err, ERR_NO_MATCH, "'%.*s' is %s; read it again", STR_ARG(path),
                   st == NULL ? "missing" : "a different file now");
}

/* What is at the target decides the mode, and whether there may be a write at all. */
static int look_at_target(struct files *files, const struct files_place *place, struct str path,
                          const struct files_write_options *options, mode_t *ret_mode,
                          bool *ret_is_new, struct err *err)
{
    struct stat st;
    if (SYS(fstatat(place->dir_fd, place->name, &st, AT_SYMLINK_NOFOLLOW)) < 0) {
        if (errno != ENOENT)
            return err_sys(err, errno, "stat '%.*s'", STR_ARG(path));
        if (check_same(options, NULL, path, err) < 0)
            return -1;
        *ret_mode = options->mode == 0 ? 0644 : options->mode & 0777;
        *ret_is_new = true;
        return 0;
    }
    *ret_is_new = false;
    if (options->must_be_new)
        return err_set(err, ERR_CONFLICT, "'%.*s' already exists", STR_ARG(path));
    if (check_same(options, &st, path, err) < 0)
        return -1;
    *ret_mode = S_ISLNK(st.st_mode) ? 0644 : st.st_mode & 0777;
    return S_ISLNK(st.st_mode) ? 0 : files_check_regular(files, &st, path, err);
}

static int copy_from(const struct files_source *source, int fd, uint64_t limit, struct err *err)
{
    char chunk[COPY_STEP];
    uint64_t total = 0;
    for (;;) {
        ssize_t got = source->read(source->ctx, chunk, sizeof chunk, err);
        if (got <= 0)
            return (int)got;
        total += (size_t)got;
        if (total > limit)
            return err_set(err, ERR_TOO_LARGE, "more than %llu bytes; write in parts with append",
                           (unsigned long long)limit);
        if (fd_write_all(fd, str_n(chunk, (size_t)got), err) < 0)
            return -1;
    }
}

static int fill_temp(const struct files_source *source, int fd,
                     const struct files_write_options *options, mode_t mode, struct err *err)
{
    uint64_t limit = options->limit == 0 ? (uint64_t)FILES_WRITE_MAX : options->limit;
    if (copy_from(source, fd, limit, err) < 0)
        return -1;
    /* Not left to the umask: the file that is replaced had this very mode. */
    if (SYS(fchmod(fd, mode)) < 0)
        return err_sys(err, errno, "chmod");
    if (!options->no_sync && SYS(fsync(fd)) < 0)
        return err_sys(err, errno, "fsync");
    return 0;
}

/* The new contents, before they have their name. */
struct fresh {
    int fd;
    char temp[FILES_TEMP_SIZE];
    bool is_named; /* there is a file with the name `temp` */
};

/* Without a name, so that a process which is killed leaves nothing behind. -1 where that cannot be
 * given a name later. */
static int open_unnamed(int dir_fd)
{
    char path[32];
    AUTO_CLOSE int fd = SYS(openat(dir_fd, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600));
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return fd < 0 || access(path, F_OK) < 0 ? -1 : fd_take(&fd);
}

/* What is in memory already is written so quickly that a name at once is cheaper. */
static int open_fresh(int dir_fd, bool is_new, bool is_slow, struct fresh *fresh, struct err *err)
{
    files_temp_name(is_new, fresh->temp);
    fresh->fd = is_slow ? open_unnamed(dir_fd) : -1;
    fresh->is_named = fresh->fd < 0;
    if (fresh->is_named)
        fresh->fd = SYS(openat(dir_fd, fresh->temp,
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    return fresh->fd < 0 ? err_sys(err, errno, "create a file") : 0;
}

static int put_in_place(int dir_fd, struct fresh *fresh, const char *name, bool must_be_new,
                        struct err *err)
{
    char path[32];
    unsigned flags = must_be_new ? RENAME_NOREPLACE : 0;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fresh->fd);
    if (!fresh->is_named && SYS(linkat(AT_FDCWD, path, dir_fd, fresh->temp, AT_SYMLINK_FOLLOW)) < 0)
        return err_sys(err, errno, "name the file");
    fresh->is_named = true;
    if (SYS(syscall(SYS_renameat2, dir_fd, fresh->temp, dir_fd, name, flags)) < 0)
        return err_sys(err, errno, "rename into place");
    return 0;
}

int files_write_from(struct files *files, struct str path, const struct files_source *source,
                     const struct files_write_options *options, bool *ret_created, struct err *err)
{
    static const struct files_write_options none;
    if (options == NULL)
        options = &none;
    if (files_check_writable(files, err) < 0)
        return -1;
    AUTO_PLACE struct files_place place = {.dir_fd = -1};
    if (files_place_open(files, path, options->make_parents, &place, err) < 0)
        return -1;
    mode_t mode = 0;
    bool is_new = false;
    if (look_at_target(files, &place, path, options, &mode, &is_new, err) < 0)
        return -1;
    struct fresh fresh;
    if (open_fresh(place.dir_fd, is_new, source->read != read_bytes, &fresh, err) < 0)
        return err_wrap(err, "write '%.*s'", STR_ARG(path));
    AUTO_CLOSE UNUSED int fd = fresh.fd;
    bool is_still_new = is_new;
    if (fill_temp(source, fresh.fd, options, mode, err) < 0 ||
        (options->if_same != NULL &&
         look_at_target(files, &place, path, options, &mode, &is_still_new, err) < 0) ||
        put_in_place(place.dir_fd, &fresh, place.name, options->must_be_new, err) < 0) {
        if (fresh.is_named)
            (void)unlinkat(place.dir_fd, fresh.temp, 0);
        return err_wrap(err, "write '%.*s'", STR_ARG(path));
    }
    /* The name is part of the directory: without this a power cut could forget the rename. */
    if (!options->no_sync && SYS(fsync(place.dir_fd)) < 0)
        return err_sys(err, errno, "fsync the directory of '%.*s'", STR_ARG(path));
    *ret_created = is_new;
    return 0;
}

int files_append(struct files *files, struct str path, struct str bytes, uint64_t *ret_size,
                 struct err *err)
{
    if (files_check_writable(files, err) < 0)
        return -1;
    struct stat st;
    AUTO_CLOSE int fd = files_open_regular(files, path, O_WRONLY | O_APPEND | O_CREAT, &st, err);
    if (fd < 0)
        return -1;
    /* Root keeps set-id bits on a write; new bytes must not run with an old privilege. */
    if ((st.st_mode & 06000) != 0 && SYS(fchmod(fd, st.st_mode & 0777)) < 0)
        return err_sys(err, errno, "chmod '%.*s'", STR_ARG(path));
    if (fd_write_all(fd, bytes, err) < 0)
        return err_wrap(err, "append to '%.*s'", STR_ARG(path));
    if (SYS(fstat(fd, &st)) < 0)
        return err_sys(err, errno, "stat '%.*s'", STR_ARG(path));
    *ret_size = (uint64_t)st.st_size;
    return 0;
}

/* Creates the directory `prefix` unless it exists. Its parent is opened again from the root, so
 * that the kernel checks every link in the path. */
static int make_one(struct files *files, struct str prefix, mode_t mode, bool may_exist,
                    struct err *err)
{
    AUTO_PLACE struct files_place place = {.dir_fd = -1};
    if (files_place_open(files, prefix, false, &place, err) < 0)
        return -1;
    if (SYS(mkdirat(place.dir_fd, place.name, mode & 0777)) == 0)
        return 0;
    if (errno != EEXIST || !may_exist)
        return err_sys(err, errno, "create the directory '%.*s'", STR_ARG(prefix));
    /* Something is there: good when it is, or leads to, a directory. */
    AUTO_CLOSE int fd = files_open_path(files, prefix, O_PATH | O_DIRECTORY, 0, err);
    if (fd < 0 && err->sys == ENOTDIR)
        return err_set(err, ERR_NOT_A_DIRECTORY, "'%.*s' is not a directory", STR_ARG(prefix));
    return fd < 0 ? -1 : 0;
}

static bool is_plain_name(struct str name)
{
    return name.len > 0 && !str_eq(name, STR(".")) && !str_eq(name, STR(".."));
}

int files_mkdir(struct files *files, struct str path, mode_t mode, bool parents, struct err *err)
{
    struct files_path checked;
    if (files_check_writable(files, err) < 0 || files_path_check(path, &checked, err) < 0)
        return -1;
    if (!parents)
        return make_one(files, path, mode, false, err);
    /* The usual case first: all of it is there. */
    AUTO_CLOSE int there =
        fd_open_in(files->root_fd, checked.text, O_PATH | O_DIRECTORY, 0, files->how, err);
    if (there >= 0)
        return 0;
    if (err->sys != ENOENT)
        return err->sys == ENOTDIR ? err_set(err, ERR_NOT_A_DIRECTORY,
                                             "a parent in '%.*s' is not a directory", STR_ARG(path))
                                   : -1;
    for (size_t i = 1; i <= path.len; i++) {
        if (i < path.len && path.ptr[i] != '/')
            continue;
        struct str prefix = str_slice(path, 0, i);
        size_t from = i;
        while (from > 0 && path.ptr[from - 1] != '/')
            from--;
        if (is_plain_name(str_slice(path, from, i)) && make_one(files, prefix, mode, true, err) < 0)
            return -1;
    }
    return 0;
}

int files_rename(struct files *files, struct str from, struct str to, bool replace, struct err *err)
{
    if (files_check_writable(files, err) < 0)
        return -1;
    AUTO_PLACE struct files_place source = {.dir_fd = -1}, target = {.dir_fd = -1};
    if (files_place_open(files, from, false, &source, err) < 0 ||
        files_place_open(files, to, false, &target, err) < 0)
        return -1;
    unsigned flags = replace ? 0 : RENAME_NOREPLACE;
    if (SYS(syscall(SYS_renameat2, source.dir_fd, source.name, target.dir_fd, target.name,
                    flags)) == 0)
        return 0;
    if (errno == EEXIST)
        return err_set(err, ERR_CONFLICT, "'%.*s' already exists", STR_ARG(to));
    return err_sys(err, errno, "move '%.*s' to '%.*s'", STR_ARG(from), STR_ARG(to));
}

int files_symlink(struct files *files, struct str path, struct str target, struct err *err)
{
    char text[PATH_MAX];
    if (files_check_writable(files, err) < 0)
        return -1;
    if (target.len == 0)
        return err_set(err, ERR_INVALID, "a link needs a target");
    if (str_to_cstr(target, text, sizeof text, err) < 0)
        return -1;
    AUTO_PLACE struct files_place place = {.dir_fd = -1};
    if (files_place_open(files, path, false, &place, err) < 0)
        return -1;
    if (SYS(symlinkat(text, place.dir_fd, place.name)) < 0)
        return err_sys(err, errno, "link '%.*s'", STR_ARG(path));
    return 0;
}
