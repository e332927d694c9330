/* From a caller's bytes to an open descriptor: every verb comes through here. */

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/id.h"
#include "base/sys.h"
#include "files/internal.h"

static int check_names(struct str path, struct err *err)
{
    struct str rest = path, name;
    while (str_split(&rest, '/', &name))
        if (name.len > FILES_NAME_MAX)
            return err_set(err, ERR_INVALID, "a name in the path has %zu bytes; the limit is %d",
                           name.len, FILES_NAME_MAX);
    return 0;
}

int files_path_check(struct str path, struct files_path *ret_path, struct err *err)
{
    if (path.len == 0)
        return err_set(err, ERR_INVALID, "the path is empty; the tree itself is '.'");
    if (path.len >= FILES_PATH_MAX)
        return err_set(err, ERR_INVALID, "the path has %zu bytes; the limit is %d", path.len,
                       FILES_PATH_MAX - 1);
    if (check_names(path, err) < 0)
        return -1;
    return str_to_cstr(path, ret_path->text, sizeof ret_path->text, err);
}

int files_check_writable(const struct files *files, struct err *err)
{
    if (files->options.read_only)
        return err_set(err, ERR_READ_ONLY, "this tree is read-only");
    return 0;
}

int files_open_path(struct files *files, struct str path, int flags, mode_t mode, struct err *err)
{
    struct files_path checked;
    if (files_path_check(path, &checked, err) < 0)
        return -1;
    return fd_open_in(files->root_fd, checked.text, flags, mode, files->how, err);
}

const char *files_type_name(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return "a directory";
    case S_IFLNK:
        return "a symbolic link";
    case S_IFIFO:
        return "a FIFO";
    case S_IFSOCK:
        return "a socket";
    case S_IFREG:
        return "a regular file";
    default:
        return "a device";
    }
}

int files_check_regular(const struct files *files, const struct stat *st, struct str path,
                        struct err *err)
{
    if (!S_ISREG(st->st_mode))
        return err_set(err, ERR_NOT_A_FILE, "'%.*s' is %s, not a regular file", STR_ARG(path),
                       files_type_name(st->st_mode));
    if (files->options.has_owner && st->st_uid != files->options.owner)
        return err_set(err, ERR_FORBIDDEN, "'%.*s' belongs to another user", STR_ARG(path));
    return 0;
}

/* A socket cannot be opened at all (ENXIO), a FIFO not for writing without a reader. */
static int say_not_a_file(struct files *files, struct str path, int flags, struct err *err)
{
    struct err ignored;
    struct stat st;
    AUTO_CLOSE int fd = files_open_path(files, path, O_PATH | (flags & O_NOFOLLOW), 0, &ignored);
    if (fd < 0 || fstat(fd, &st) < 0 || S_ISREG(st.st_mode))
        return -1;
    return files_check_regular(files, &st, path, err);
}

/* What /proc tells of processes: asked for by name it may be the reader itself, who has what the
 * tree's owner shall not see. A command can look at its own. */
static bool is_of_a_process(int fd, const struct stat *st)
{
    struct statfs fs;
    char link[40], path[64];
    if (st->st_size != 0 || fstatfs(fd, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC)
        return false;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path);
    struct str where = str_n(path, len < 0 ? 0 : (size_t)len);
    return !str_starts(where, STR("/proc/")) || where.len < 7 || char_is_digit(where.ptr[6]);
}

int files_open_regular(struct files *files, struct str path, int flags, struct stat *ret_st,
                       struct err *err)
{
    /* The tree's owner chooses what lives here: O_NONBLOCK keeps a FIFO from holding us. */
    AUTO_CLOSE int fd = files_open_path(files, path, flags | O_NONBLOCK, 0666, err);
    if (fd < 0 && (err->sys == ENXIO || err->sys == ELOOP || err->sys == EISDIR))
        return say_not_a_file(files, path, flags, err);
    if (fd < 0)
        return -1;
    struct stat st;
    if (SYS(fstat(fd, &st)) < 0)
        return err_sys(err, errno, "stat '%.*s'", STR_ARG(path));
    if (files_check_regular(files, &st, path, err) < 0)
        return -1;
    if (is_of_a_process(fd, &st))
        return err_set(err, ERR_FORBIDDEN,
                       "'%.*s' is a file of a process; only a command can read it", STR_ARG(path));
    *ret_st = st;
    return fd_take(&fd);
}

int files_open_dir(struct files *files, struct str path, struct err *err)
{
    int fd = files_open_path(files, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0, err);
    if (fd < 0 && err->sys == ENOTDIR)
        return err_set(err, ERR_NOT_A_DIRECTORY, "'%.*s' is not a directory", STR_ARG(path));
    return fd;
}

void files_place_done(struct files_place *place)
{
    fd_close(&place->dir_fd);
}

/* "a/b/c//" is the name "c" in "a/b". */
static void split_path(struct str path, struct str *ret_dir, struct str *ret_name)
{
    while (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    size_t slash = path.len;
    while (slash > 0 && path.ptr[slash - 1] != '/')
        slash--;
    *ret_name = str_slice(path, slash, path.len);
    while (slash > 1 && path.ptr[slash - 1] == '/')
        slash--;
    *ret_dir = slash == 0 ? STR(".") : str_slice(path, 0, slash);
}

int files_place_open(struct files *files, struct str path, bool make_parents,
                     struct files_place *ret_place, struct err *err)
{
    struct files_path checked;
    if (files_path_check(path, &checked, err) < 0)
        return -1;
    struct str dir, name;
    split_path(path, &dir, &name);
    if (name.len == 0 || str_eq(name, STR(".")) || str_eq(name, STR("..")))
        return err_set(err, ERR_INVALID, "'%.*s' is not the path of a file or directory",
                       STR_ARG(path));
    if (make_parents && files_mkdir(files, dir, 0777, true, err) < 0)
        return -1;
    struct files_place place = {.dir_fd = files_open_dir(files, dir, err)};
    if (place.dir_fd < 0)
        return -1;
    memcpy(place.name, name.ptr, name.len);
    *ret_place = place;
    return 0;
}

#define TEMP_PREFIX ".sandglass-"
#define TEMP_NEW "+"
static_assert(sizeof TEMP_PREFIX + sizeof TEMP_NEW + ID_LEN <= FILES_TEMP_SIZE, "room for all");

void files_temp_name(bool is_new, char out[FILES_TEMP_SIZE])
{
    char id[ID_SIZE];
    id_new(id);
    (void)snprintf(out, FILES_TEMP_SIZE, TEMP_PREFIX "%s%s", id, is_new ? TEMP_NEW : "");
}

bool files_is_temp_name(struct str name, bool *ret_is_new)
{
    if (!str_starts(name, STR(TEMP_PREFIX)))
        return false;
    struct str id = str_slice(name, strlen(TEMP_PREFIX), name.len);
    *ret_is_new = str_ends(id, STR(TEMP_NEW));
    if (*ret_is_new)
        id.len -= strlen(TEMP_NEW);
    return id.len == ID_LEN && id_is_valid(id);
}
