#include "files/archive/tar_unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sys.h"
#include "files/archive/pack.h"
#include "files/internal.h"

enum { RATIO_FREE = 1 << 20 }; /* so much may come out of anything */

/* ---- names ---- */

/* "./a//b/" becomes "a/b"; "" is the archive's root. */
static int clean_name(const char *raw, unsigned depth_max, char out[FILES_PATH_MAX + 1],
                      struct err *err)
{
    struct str rest = str_of(raw), name;
    size_t len = 0;
    unsigned depth = 0;
    if (rest.len == 0 || rest.len >= FILES_PATH_MAX)
        return err_set(err, ERR_INVALID, "a name has %zu bytes", rest.len);
    if (raw[0] == '/')
        return err_set(err, ERR_INVALID, "absolute name '%s'", raw);
    while (str_split(&rest, '/', &name)) {
        if (name.len == 0 || str_eq(name, STR(".")))
            continue;
        if (str_eq(name, STR("..")))
            return err_set(err, ERR_INVALID, "the name '%s' contains '..'", raw);
        if (name.len > FILES_NAME_MAX || ++depth > depth_max)
            return err_set(err, ERR_INVALID, "a name is too long or nested too deeply: '%s'", raw);
        if (len > 0)
            out[len++] = '/';
        memcpy(out + len, name.ptr, name.len);
        len += name.len;
    }
    out[len] = '\0';
    return 0;
}

/* A link's target, relative to the link's directory, may go up as far as the archive's root. In a
 * layer it may be anything: it is resolved only inside the jail that uses the layer. */
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
        return err_set(err, ERR_INVALID, "the link '%s' points outside the directory", path);
    while (str_split(&rest, '/', &name)) {
        if (str_eq(name, STR("..")))
            depth--;
        else if (name.len > 0 && !str_eq(name, STR(".")))
            depth++;
        if (depth < 0)
            return err_set(err, ERR_INVALID, "the link '%s' points outside the directory", path);
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
        return err_set(err, ERR_INVALID, "a parent of '%s' is not a directory", dir);
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
            return err_set(err, ERR_INVALID, "more bytes than its header announces");
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
        return err_set(err, ERR_INVALID, "'%s' is a deletion marker with an invalid name", path);
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
    if (check_target(path, entry->target, unpacking->is_layer || unpacking->has_any_links, err) <
            0 ||
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
        return err_set(err, ERR_INVALID, "the link '%s' points to no file of the archive", path);
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
                   : err_set(err, ERR_INVALID, "the root of the archive is not a directory");
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
        return err_set(err, ERR_INVALID, "'%s' is not a file, a directory or a link", path);
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

int files_unpack(struct unpacking *unpacking, const struct files_source *source, struct err *err)
{
    AUTO(pack_reader_freep) struct pack_reader *reader = NULL;
    if (pack_reader_new(source, unpacking->limits.packed, &reader, err) < 0)
        return -1;
    unpacking->reader = reader;
    int done = unpack_all(unpacking, err);
    fd_close(&unpacking->dir_fd);
    return done;
}
