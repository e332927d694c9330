/* A tree as a tar stream. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sys.h"
#include "files/archive/pack.h"
#include "files/archive/tar.h"
#include "files/mark.h"
#include "files/walk.h"

enum { CHUNK = 1 << 16, ZEROS = 1 << 20, EXTENTS_MAX = 4096 };

struct packing {
    struct files *files;
    struct pack_writer *writer;
    uint64_t limit, data;
    bool is_layer, is_kept;
    struct files_tar_result result;
    struct pack_extent extents[EXTENTS_MAX];
    char chunk[CHUNK];
};

static const char zeros[ZEROS];

/* Where a file has data. Past EXTENTS_MAX the rest counts as data: a file cut into a million holes
 * shall not cost a million records. 0 extents: the file is not sparse. */
static size_t find_extents(struct packing *packing, int fd, const struct stat *st)
{
    size_t count = 0;
    off_t at = 0;
    if ((uint64_t)st->st_blocks * 512 >= (uint64_t)st->st_size)
        return 0;
    while (at < st->st_size) {
        off_t data = lseek(fd, at, SEEK_DATA);
        if (data < 0)
            break;
        off_t hole = count + 1 == EXTENTS_MAX ? st->st_size : lseek(fd, data, SEEK_HOLE);
        if (hole < data || hole > st->st_size)
            hole = st->st_size;
        packing->extents[count++] = (struct pack_extent){(uint64_t)data, (uint64_t)(hole - data)};
        at = hole;
    }
    if (count == 0)
        packing->extents[count++] = (struct pack_extent){0, 0}; /* nothing but a hole */
    return count;
}

static int pack_zeros(struct packing *packing, uint64_t count, struct err *err)
{
    while (count > 0) {
        size_t step = (size_t)MIN(count, (uint64_t)ZEROS);
        if (pack_writer_data(packing->writer, zeros, step, err) < 0)
            return -1;
        count -= step;
    }
    return 0;
}

/* The header has promised these bytes. Where the file has become shorter, zeros keep the promise.
 */
static int pack_data(struct packing *packing, int fd, uint64_t offset, uint64_t len,
                     struct err *err)
{
    packing->data += len;
    if (packing->limit > 0 && packing->data > packing->limit)
        return err_set(err, ERR_TOO_LARGE, "more than %llu bytes to pack",
                       (unsigned long long)packing->limit);
    while (len > 0) {
        size_t step = (size_t)MIN(len, (uint64_t)CHUNK);
        ssize_t got = SYS(pread(fd, packing->chunk, step, (off_t)offset));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(err, errno, "read");
        if (got == 0) {
            packing->result.changed++;
            return pack_zeros(packing, len, err);
        }
        if (pack_writer_data(packing->writer, packing->chunk, (size_t)got, err) < 0)
            return -1;
        offset += (size_t)got;
        len -= (size_t)got;
    }
    return 0;
}

static int pack_extents(struct packing *packing, int fd, uint64_t size, size_t count,
                        struct err *err)
{
    uint64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        struct pack_extent extent = packing->extents[i];
        if (pack_zeros(packing, extent.offset - at, err) < 0 ||
            pack_data(packing, fd, extent.offset, extent.len, err) < 0)
            return -1;
        at = extent.offset + extent.len;
    }
    return pack_zeros(packing, size - at, err);
}

static struct pack_entry entry_of(const struct stat *st, const char *path)
{
    return (struct pack_entry){
        .type = S_ISDIR(st->st_mode) ? PACK_DIR : PACK_FILE,
        .path = path,
        .size = (uint64_t)st->st_size,
        .mode = st->st_mode & 0777,
        .mtime_ns = files_mtime_ns(st),
    };
}

static int pack_fd(struct packing *packing, int fd, const struct stat *st, const char *path,
                   struct err *err)
{
    struct pack_entry entry = entry_of(st, path);
    size_t count = find_extents(packing, fd, st);
    if (pack_writer_entry(packing->writer, &entry, packing->extents, count, err) < 0)
        return -1;
    packing->result.entries++;
    packing->result.bytes += entry.size;
    if (count == 0)
        return pack_data(packing, fd, 0, entry.size, err);
    return pack_extents(packing, fd, entry.size, count, err);
}

static int pack_file(struct packing *packing, int dir_fd, const char *name, const char *path,
                     struct err *err)
{
    AUTO_CLOSE int fd =
        SYS(openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat st;
    struct err ignored;
    if (fd < 0 || SYS(fstat(fd, &st)) < 0 ||
        files_check_regular(packing->files, &st, str_of(path), &ignored) < 0) {
        packing->result.skipped++;
        return 0;
    }
    return pack_fd(packing, fd, &st, path, err);
}

/* An overlay's removals, as container images spell them: "DIR/.wh.NAME". */
static int pack_mark(struct packing *packing, const char *path, const char *name, const char *slash,
                     const char *what, struct err *err)
{
    char mark[PATH_MAX];
    int dir_len = (int)(strlen(path) - strlen(name));
    struct pack_entry entry = {.type = PACK_FILE, .path = mark, .mode = 0644};
    if ((size_t)snprintf(mark, sizeof mark, "%.*s%s.wh.%s", dir_len, path, slash, what) >=
        sizeof mark)
        return err_set(err, ERR_INVALID, "a name is too long");
    packing->result.entries++;
    return pack_writer_entry(packing->writer, &entry, NULL, 0, err);
}

static bool is_opaque(int dir_fd, const char *name)
{
    char value[2];
    AUTO_CLOSE int fd = SYS(openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    return fd >= 0 && fgetxattr(fd, "user.overlay.opaque", value, sizeof value) == 1 &&
           value[0] == 'y';
}

static int pack_other(struct packing *packing, int dir_fd, const char *name, const char *path,
                      struct err *err)
{
    struct stat st;
    char target[PATH_MAX];
    if (SYS(fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW)) < 0)
        return 0; /* gone meanwhile */
    struct pack_entry entry = entry_of(&st, path);
    if (S_ISLNK(st.st_mode)) {
        ssize_t len = SYS(readlinkat(dir_fd, name, target, sizeof target - 1));
        if (len < 0)
            return 0;
        target[len] = '\0';
        entry.type = PACK_SYMLINK;
        entry.target = target;
    } else if (packing->is_layer && S_ISCHR(st.st_mode) && st.st_rdev == 0) {
        return pack_mark(packing, path, name, "", name, err);
    } else if (!S_ISDIR(st.st_mode)) {
        packing->result.skipped++;
        return 0;
    }
    packing->result.entries++;
    if (pack_writer_entry(packing->writer, &entry, NULL, 0, err) < 0)
        return -1;
    return packing->is_layer && entry.type == PACK_DIR && is_opaque(dir_fd, name)
               ? pack_mark(packing, path, "", "/", ".wh..opq", err)
               : 0;
}

static int tar_out_visit(void *ctx, int dir_fd, const char *name, struct str path,
                         unsigned char type, struct err *err)
{
    struct packing *packing = ctx;
    if (packing->is_kept && str_eq(path, STR(FILES_KEEP_OWN)))
        return 0;
    if (packing->is_layer && str_starts(str_of(name), STR(".wh.")))
        return err_set(err, ERR_UNSUPPORTED, "'%.*s': in an archive this name marks a removed file",
                       STR_ARG(path));
    int done = type == DT_REG ? pack_file(packing, dir_fd, name, path.ptr, err)
                              : pack_other(packing, dir_fd, name, path.ptr, err);
    return done < 0 ? err_wrap(err, "pack '%.*s'", STR_ARG(path)) : 0;
}

static bool tar_out_enter(void *ctx, UNUSED int dir_fd, struct str path)
{
    const struct packing *packing = ctx;
    return !packing->is_kept || !str_eq(path, STR(FILES_KEEP_OWN));
}

static int pack_tree(struct packing *packing, struct str path, struct err *err)
{
    AUTO_CLOSE int dir_fd = files_open_dir(packing->files, path, err);
    if (dir_fd < 0 && err->code == ERR_NOT_A_DIRECTORY) {
        AUTO_PLACE struct files_place place = {.dir_fd = -1};
        struct stat st;
        AUTO_CLOSE int fd = files_open_regular(packing->files, path, O_RDONLY, &st, err);
        if (fd < 0 || files_place_open(packing->files, path, false, &place, err) < 0)
            return -1;
        return pack_fd(packing, fd, &st, place.name, err);
    }
    if (dir_fd < 0)
        return -1;
    struct files_walk walk;
    struct files_visitor visitor = {tar_out_enter, tar_out_visit, packing};
    files_walk_init(&walk, dir_fd, packing->files->how & FD_NO_XDEV, (struct str){0});
    int done = files_walk_run(&walk, &visitor, err);
    packing->result.skipped += walk.unread;
    files_walk_done(&walk);
    return done;
}

int files_tar_out(struct files *files, struct str path, const struct files_sink *sink,
                  const struct files_tar_out_options *options, struct files_tar_result *ret_result,
                  struct err *err)
{
    AUTO_MEM struct packing *packing = mem_alloc(sizeof *packing);
    AUTO(pack_writer_freep) struct pack_writer *writer = NULL;
    if (pack_writer_new(sink, options != NULL && options->gzip ? PACK_GZIP : PACK_PLAIN, &writer,
                        err) < 0)
        return -1;
    packing->files = files;
    packing->writer = writer;
    packing->limit = options == NULL ? 0 : options->limit;
    packing->is_kept = options != NULL && options->is_kept;
    packing->is_layer = options != NULL && options->is_layer;
    if (pack_tree(packing, path, err) < 0 || pack_writer_finish(writer, err) < 0)
        return -1;
    *ret_result = packing->result;
    return 0;
}
