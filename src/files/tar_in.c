/* A tar stream as a tree: into a fresh directory, judged entry by entry, then moved into place. */

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sys.h"
#include "base/vec.h"
#include "files/internal.h"
#include "files/merge.h"
#include "files/pack.h"
#include "files/tar.h"

enum { RATIO_FREE = 1 << 20 }; /* so much may come out of anything */

static const struct files_tar_limits defaults = {
    .packed = 256 << 20, .unpacked = 1 << 30, .entries = 100000, .ratio = 200, .depth = 64};

struct unpacking {
    struct pack_reader *reader;
    struct files_tar_limits limits;
    struct files_tar_result result;
    uint64_t written;             /* bytes of data, holes not counted */
    int root_fd;                  /* the fresh directory */
    int dir_fd;                   /* the directory of the last entry, */
    char dir[FILES_PATH_MAX + 1]; /* and its name */
    bool is_layer;
    VEC(char *) removals; /* paths; of a layer */
};

/* ---- names ---- */

/* "./a//b/" becomes "a/b"; "" is the archive's root. */
static int clean_name(const char *raw, unsigned depth_max, char out[FILES_PATH_MAX + 1],
                      struct err *err)
{
    struct str rest = str_of(raw), name;
    size_t len = 0;
    unsigned depth = 0;
    if (rest.len == 0 || rest.len >= FILES_PATH_MAX)
        return err_set(err, ERR_INVALID, "a name of %zu bytes", rest.len);
    if (raw[0] == '/')
        return err_set(err, ERR_INVALID, "the absolute name '%s'", raw);
    while (str_split(&rest, '/', &name)) {
        if (name.len == 0 || str_eq(name, STR(".")))
            continue;
        if (str_eq(name, STR("..")))
            return err_set(err, ERR_INVALID, "'..' in the name '%s'", raw);
        if (name.len > FILES_NAME_MAX || ++depth > depth_max)
            return err_set(err, ERR_INVALID, "a name that is too long or too deep: '%s'", raw);
        if (len > 0)
            out[len++] = '/';
        memcpy(out + len, name.ptr, name.len);
        len += name.len;
    }
    out[len] = '\0';
    return 0;
}

/* A link's target, read from the link's directory, may climb as high as the archive's root. In a
 * layer it may be anything: it means something only inside the jail that stands on it. */
static int check_target(const char *path, const char *target, bool is_layer, struct err *err)
{
    int depth = -1; /* the link itself is no directory */
    struct str rest = str_of(path), name;
    while (str_split(&rest, '/', &name))
        depth++;
    rest = str_of(target);
    if (is_layer && rest.len > 0 && rest.len < FILES_PATH_MAX)
        return 0;
    if (rest.len == 0 || rest.len >= FILES_PATH_MAX || target[0] == '/')
        return err_set(err, ERR_INVALID, "the link '%s' leads outside", path);
    while (str_split(&rest, '/', &name)) {
        if (str_eq(name, STR("..")))
            depth--;
        else if (name.len > 0 && !str_eq(name, STR(".")))
            depth++;
        if (depth < 0)
            return err_set(err, ERR_INVALID, "the link '%s' leads outside", path);
    }
    return 0;
}

/* ---- directories ---- */

static int make_dirs(struct unpacking *unpacking, const char *dir, struct err *err)
{
    char partial[FILES_PATH_MAX + 1];
    size_t len = strlen(dir);
    for (size_t i = 1; i <= len; i++) {
        if (dir[i] != '/' && dir[i] != '\0')
            continue;
        memcpy(partial, dir, i);
        partial[i] = '\0';
        char *slash = strrchr(partial, '/');
        const char *name = slash == NULL ? partial : slash + 1;
        if (slash != NULL)
            *slash = '\0';
        AUTO_CLOSE int parent = fd_open_in(unpacking->root_fd, slash == NULL ? "." : partial,
                                           O_PATH | O_DIRECTORY, 0, FD_NO_LINKS, err);
        if (parent < 0)
            return -1;
        if (SYS(mkdirat(parent, name, 0755)) < 0 && errno != EEXIST)
            return err_sys(err, errno, "create the directory '%s'", dir);
    }
    return 0;
}

/* Opens the directory, making it; the last one stays open, since entries come in runs. No link is
 * gone through, not even one that leads inside. */
static int enter_dir(struct unpacking *unpacking, const char *dir, struct err *err)
{
    if (unpacking->dir_fd >= 0 && strcmp(dir, unpacking->dir) == 0)
        return 0;
    fd_close(&unpacking->dir_fd);
    const char *path = dir[0] == '\0' ? "." : dir;
    int flags = O_RDONLY | O_DIRECTORY;
    int fd = fd_open_in(unpacking->root_fd, path, flags, 0, FD_NO_LINKS, err);
    if (fd < 0 && err->sys == ENOENT && dir[0] != '\0') {
        if (make_dirs(unpacking, dir, err) < 0)
            return -1;
        fd = fd_open_in(unpacking->root_fd, path, flags, 0, FD_NO_LINKS, err);
    }
    if (fd < 0 && (err->sys == ELOOP || err->sys == ENOTDIR))
        return err_set(err, ERR_INVALID, "'%s' goes through something that is no directory", dir);
    if (fd < 0)
        return -1;
    unpacking->dir_fd = fd;
    memcpy(unpacking->dir, dir, strlen(dir) + 1);
    return 0;
}

/* Enters the directory of `path` and gives the name in it. */
static int enter_parent(struct unpacking *unpacking, const char *path, const char **ret_name,
                        struct err *err)
{
    char dir[FILES_PATH_MAX + 1];
    const char *slash = strrchr(path, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - path);
    memcpy(dir, path, len);
    dir[len] = '\0';
    *ret_name = slash == NULL ? path : slash + 1;
    return enter_dir(unpacking, dir, err);
}

static int say_exists(int code, const char *path, struct err *err)
{
    if (code == EEXIST)
        return err_set(err, ERR_CONFLICT, "'%s' is in the archive twice", path);
    return err_sys(err, code, "create '%s'", path);
}

/* ---- entries ---- */

static int check_sizes(struct unpacking *unpacking, uint64_t more, struct err *err)
{
    uint64_t total = unpacking->result.bytes;
    if (more > unpacking->limits.unpacked || total > unpacking->limits.unpacked - more)
        return err_set(err, ERR_TOO_LARGE, "more than %llu bytes unpacked",
                       (unsigned long long)unpacking->limits.unpacked);
    return 0;
}

/* Bytes that really came, against the bytes that were read for them. */
static int check_ratio(struct unpacking *unpacking, uint64_t written, struct err *err)
{
    uint64_t packed = pack_reader_packed(unpacking->reader);
    if (written > RATIO_FREE && written / unpacking->limits.ratio > packed)
        return err_set(err, ERR_TOO_LARGE, "unpacks to more than %llu times its size",
                       (unsigned long long)unpacking->limits.ratio);
    return 0;
}

static int write_at(int fd, struct str bytes, uint64_t offset, struct err *err)
{
    while (bytes.len > 0) {
        ssize_t wrote = SYS(sys_pwrite(fd, bytes.ptr, bytes.len, (off_t)offset));
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return err_sys(err, errno, "write");
        offset += (size_t)wrote;
        bytes = str_slice(bytes, (size_t)wrote, bytes.len);
    }
    return 0;
}

static int unpack_data(struct unpacking *unpacking, int fd, uint64_t size, struct err *err)
{
    for (;;) {
        struct str bytes;
        uint64_t offset;
        int got = pack_reader_data(unpacking->reader, &bytes, &offset, err);
        if (got <= 0)
            return got;
        if (offset > size || bytes.len > size - offset)
            return err_set(err, ERR_INVALID, "more bytes than its header says");
        unpacking->written += bytes.len;
        if (check_ratio(unpacking, unpacking->written, err) < 0 ||
            write_at(fd, bytes, offset, err) < 0)
            return -1;
    }
}

static int finish_file(int fd, const struct pack_entry *entry, struct err *err)
{
    /* A hole at the end writes nothing. */
    if (SYS(ftruncate(fd, (off_t)entry->size)) < 0)
        return err_sys(err, errno, "set the size");
    if (SYS(fchmod(fd, entry->mode & 0777)) < 0)
        return err_sys(err, errno, "chmod");
    struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        {entry->mtime_ns / 1000000000, (long)(entry->mtime_ns % 1000000000)}};
    if (entry->mtime_ns >= 0 && SYS(futimens(fd, times)) < 0)
        return err_sys(err, errno, "set the time");
    return 0;
}

/* ".wh.X" and ".wh..wh..opq": what lies there so far goes before the rest is laid over it. */
static int note_removal(struct unpacking *unpacking, const char *path, const char *name,
                        struct err *err)
{
    AUTO_BUF struct buf gone = {0};
    size_t dir_len = (size_t)(name - path);
    const char *what = name + 4;
    if (what[0] == '\0' || strcmp(what, ".") == 0 || strcmp(what, "..") == 0)
        return err_set(err, ERR_INVALID, "'%s' removes nothing that can be", path);
    bool is_opaque = strcmp(what, ".wh..opq") == 0;
    if (is_opaque && dir_len == 0)
        return err_set(err, ERR_INVALID, "'%s' would remove the root", path);
    if (is_opaque)
        buf_put(&gone, str_n(path, dir_len - 1));
    else
        buf_printf(&gone, "%.*s%s", (int)dir_len, path, what);
    *vec_push(&unpacking->removals) = mem_dup_cstr(buf_cstr(&gone));
    return 0;
}

static int unpack_file(struct unpacking *unpacking, const struct pack_entry *entry,
                       const char *path, struct err *err)
{
    const char *name = strrchr(path, '/') == NULL ? path : strrchr(path, '/') + 1;
    if (unpacking->is_layer && strncmp(name, ".wh.", 4) == 0)
        return note_removal(unpacking, path, name, err);
    if (check_sizes(unpacking, entry->size, err) < 0 ||
        enter_parent(unpacking, path, &name, err) < 0)
        return -1;
    AUTO_CLOSE int fd = SYS(openat(unpacking->dir_fd, name,
                                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (fd < 0)
        return say_exists(errno, path, err);
    if (unpack_data(unpacking, fd, entry->size, err) < 0)
        return -1;
    unpacking->result.bytes += entry->size;
    return finish_file(fd, entry, err);
}

static int unpack_dir(struct unpacking *unpacking, const struct pack_entry *entry, const char *path,
                      struct err *err)
{
    if (enter_dir(unpacking, path, err) < 0)
        return -1;
    if (SYS(fchmod(unpacking->dir_fd, (entry->mode & 0777) | 0700)) < 0)
        return err_sys(err, errno, "chmod '%s'", path);
    return 0;
}

static int unpack_symlink(struct unpacking *unpacking, const struct pack_entry *entry,
                          const char *path, struct err *err)
{
    const char *name;
    if (check_target(path, entry->target, unpacking->is_layer, err) < 0 ||
        enter_parent(unpacking, path, &name, err) < 0)
        return -1;
    if (SYS(symlinkat(entry->target, unpacking->dir_fd, name)) < 0)
        return say_exists(errno, path, err);
    return 0;
}

/* The target is a file that this archive has brought before. */
static int unpack_hardlink(struct unpacking *unpacking, const struct pack_entry *entry,
                           const char *path, struct err *err)
{
    char target[FILES_PATH_MAX + 1];
    const char *name;
    if (clean_name(entry->target, unpacking->limits.depth, target, err) < 0)
        return -1;
    AUTO_CLOSE int from = fd_open_in(unpacking->root_fd, target[0] == '\0' ? "." : target,
                                     O_PATH | O_NOFOLLOW, 0, FD_NO_LINKS, err);
    struct stat st;
    if (from < 0 || SYS(fstat(from, &st)) < 0 || !S_ISREG(st.st_mode))
        return err_set(err, ERR_INVALID, "the link '%s' to no file of the archive", path);
    if (enter_parent(unpacking, path, &name, err) < 0)
        return -1;
    /* By name below the fresh directory, not by descriptor: that would need a capability. */
    char *slash = strrchr(target, '/');
    if (slash != NULL)
        *slash = '\0';
    AUTO_CLOSE int dir = fd_open_in(unpacking->root_fd, slash == NULL ? "." : target,
                                    O_PATH | O_DIRECTORY, 0, FD_NO_LINKS, err);
    if (dir < 0)
        return -1;
    if (SYS(linkat(dir, slash == NULL ? target : slash + 1, unpacking->dir_fd, name, 0)) < 0)
        return say_exists(errno, path, err);
    return 0;
}

static int unpack_entry(struct unpacking *unpacking, const struct pack_entry *entry,
                        struct err *err)
{
    char path[FILES_PATH_MAX + 1];
    if (clean_name(entry->path, unpacking->limits.depth, path, err) < 0)
        return -1;
    if (path[0] == '\0')
        return entry->type == PACK_DIR
                   ? 0
                   : err_set(err, ERR_INVALID, "the root of the archive is no directory");
    switch (entry->type) {
    case PACK_FILE:
        return unpack_file(unpacking, entry, path, err);
    case PACK_DIR:
        return unpack_dir(unpacking, entry, path, err);
    case PACK_SYMLINK:
        return unpack_symlink(unpacking, entry, path, err);
    case PACK_HARDLINK:
        return unpack_hardlink(unpacking, entry, path, err);
    default:
        return err_set(err, ERR_INVALID, "'%s' is neither file nor directory nor link", path);
    }
}

static int unpack_all(struct unpacking *unpacking, struct err *err)
{
    for (;;) {
        struct pack_entry entry;
        int got = pack_reader_next(unpacking->reader, &entry, err);
        if (got <= 0)
            return got;
        if (++unpacking->result.entries > unpacking->limits.entries)
            return err_set(err, ERR_TOO_LARGE, "more than %llu entries",
                           (unsigned long long)unpacking->limits.entries);
        /* A million empty entries in a small file are a bomb as well. */
        if (check_ratio(unpacking, unpacking->result.entries * 512, err) < 0 ||
            unpack_entry(unpacking, &entry, err) < 0)
            return -1;
    }
}

/* ---- the place ---- */

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

static int unpack_to(struct unpacking *unpacking, const struct files_source *source,
                     struct err *err)
{
    AUTO(pack_reader_freep) struct pack_reader *reader = NULL;
    if (pack_reader_new(source, unpacking->limits.packed, &reader, err) < 0)
        return -1;
    unpacking->reader = reader;
    int done = unpack_all(unpacking, err);
    fd_close(&unpacking->dir_fd);
    return done;
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
        return errno == EEXIST ? err_set(err, ERR_CONFLICT, "'%s' is there already", name)
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
    files_temp_name(true, temp);
    if (SYS(mkdirat(parent_fd, temp, 0700)) < 0)
        return err_sys(err, errno, "create a directory to unpack in");
    AUTO_CLOSE int fresh_fd =
        SYS(openat(parent_fd, temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct unpacking unpacking = {.root_fd = fresh_fd,
                                  .dir_fd = -1,
                                  .limits = files_tar_limits_of(limits),
                                  .is_layer = place == FILES_TAR_LAYER};
    int done = fresh_fd < 0 ? err_sys(err, errno, "open the directory to unpack in")
                            : unpack_to(&unpacking, source, err);
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
        return err_set(err, ERR_INVALID, "a layer is laid onto the root alone");
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
