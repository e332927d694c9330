/* Opening a tree, looking at it, reading from it. */

#include "files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/sys.h"
#include "files/internal.h"

enum { BINARY_PROBE = 8192, READ_STEP = 1 << 16 };

int files_from_fd(int root_fd, const struct files_options *options, struct files **ret_files,
                  struct err *err)
{
    AUTO_CLOSE int fd = root_fd;
    struct stat st;
    if (SYS(fstat(fd, &st)) < 0)
        return err_sys(err, errno, "stat the root directory");
    if (!S_ISDIR(st.st_mode))
        return err_set(err, ERR_NOT_A_DIRECTORY, "the root directory is %s",
                       files_type_name(st.st_mode));
    struct files *files = mem_alloc(sizeof *files);
    if (options != NULL)
        files->options = *options;
    files->how = files->options.in_root ? FD_IN_ROOT : 0;
    if (files->options.one_mount)
        files->how |= FD_NO_XDEV;
    files->root_fd = fd_take(&fd);
    *ret_files = files;
    return 0;
}

int files_open(const char *root, const struct files_options *options, struct files **ret_files,
               struct err *err)
{
    int fd = SYS(open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", root);
    return files_from_fd(fd, options, ret_files, err);
}

struct files *files_free(struct files *files)
{
    if (files == NULL)
        return NULL;
    fd_close(&files->root_fd);
    free(files);
    return NULL;
}

static enum files_type type_of(mode_t mode)
{
    if (S_ISREG(mode))
        return FILES_REGULAR;
    if (S_ISDIR(mode))
        return FILES_DIRECTORY;
    return S_ISLNK(mode) ? FILES_SYMLINK : FILES_OTHER;
}

/* The owner of a file can set any time, also one that does not fit into nanoseconds since 1970. */
int64_t files_mtime_ns(const struct stat *st)
{
    int64_t ns;
    if (!mul_i64(st->st_mtim.tv_sec, 1000000000, &ns) || !add_i64(ns, st->st_mtim.tv_nsec, &ns))
        return st->st_mtim.tv_sec < 0 ? INT64_MIN : INT64_MAX;
    return ns;
}

void files_stat_from(const struct stat *st, struct files_stat *ret_stat)
{
    *ret_stat = (struct files_stat){
        .type = type_of(st->st_mode),
        .mode = st->st_mode & 07777,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .size = (uint64_t)st->st_size,
        .disk_bytes = (uint64_t)st->st_blocks * 512,
        .mtime_ns = files_mtime_ns(st),
    };
}

int files_stat(struct files *files, struct str path, bool follow, struct files_stat *ret_stat,
               struct err *err)
{
    AUTO_CLOSE int fd = files_open_path(files, path, O_PATH | (follow ? 0 : O_NOFOLLOW), 0, err);
    if (fd < 0)
        return -1;
    struct stat st;
    if (SYS(fstat(fd, &st)) < 0)
        return err_sys(err, errno, "stat '%.*s'", STR_ARG(path));
    files_stat_from(&st, ret_stat);
    return 0;
}

int files_exists(struct files *files, struct str path, bool *ret_exists, struct err *err)
{
    struct files_stat ignored;
    if (files_stat(files, path, true, &ignored, err) == 0) {
        *ret_exists = true;
        return 0;
    }
    if (err->sys != ENOENT && err->sys != ENOTDIR)
        return -1;
    *ret_exists = false;
    return 0;
}

/* Reads [offset, offset + limit) as far as the file goes; says whether it goes on. The file may
 * change meanwhile, so what counts is the bytes that come, not st_size. */
static int read_range(int fd, uint64_t offset, size_t limit, struct buf *out, bool *ret_more,
                      struct err *err)
{
    size_t left = limit;
    for (;;) {
        char spare, *space = &spare;
        size_t step = MIN(left, (size_t)READ_STEP);
        if (step > 0 && buf_reserve(out, step, &space, err) < 0)
            return -1;
        ssize_t got = SYS(pread(fd, space, MAX(step, (size_t)1), (off_t)offset));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(err, errno, "read");
        *ret_more = step == 0 && got > 0;
        if (got == 0 || step == 0)
            return 0;
        buf_commit(out, (size_t)got);
        offset += (size_t)got;
        left -= (size_t)got;
    }
}

int files_read(struct files *files, struct str path, const struct files_range *range,
               struct buf *out, struct files_content *ret_content, struct err *err)
{
    struct files_range whole = {0};
    if (range != NULL)
        whole = *range;
    if (whole.limit == 0)
        whole.limit = FILES_READ_MAX;
    if (whole.offset > INT64_MAX - whole.limit)
        return err_set(err, ERR_INVALID, "the offset is larger than any file");
    struct stat st;
    AUTO_CLOSE int fd = files_open_regular(files, path, O_RDONLY, &st, err);
    if (fd < 0)
        return -1;
    size_t before = out->len;
    bool more = false;
    if (read_range(fd, whole.offset, whole.limit, out, &more, err) < 0) {
        out->len = before;
        return err_wrap(err, "read '%.*s'", STR_ARG(path));
    }
    size_t probe = MIN(out->len - before, (size_t)BINARY_PROBE);
    *ret_content = (struct files_content){
        .size = (uint64_t)st.st_size,
        .truncated = more,
        .is_binary = probe > 0 && memchr(out->ptr + before, '\0', probe) != NULL,
    };
    files_stat_from(&st, &ret_content->stat);
    return 0;
}

static int copy_range(int fd, uint64_t offset, uint64_t limit, const struct files_sink *sink,
                      struct files_content *content, struct err *err)
{
    char chunk[READ_STEP];
    uint64_t done = 0;
    for (;;) {
        size_t step = (size_t)MIN(limit - done, (uint64_t)sizeof chunk);
        ssize_t got = SYS(pread(fd, chunk, MAX(step, (size_t)1), (off_t)(offset + done)));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(err, errno, "read");
        content->truncated = step == 0 && got > 0;
        if (got == 0 || step == 0)
            return 0;
        if (done == 0)
            content->is_binary =
                memchr(chunk, '\0', MIN((size_t)got, (size_t)BINARY_PROBE)) != NULL;
        done += (size_t)got;
        if (sink->write(sink->ctx, str_n(chunk, (size_t)got), err) < 0)
            return -1;
    }
}

int files_read_to(struct files *files, struct str path, uint64_t offset, uint64_t limit,
                  const struct files_sink *sink, struct files_content *ret_content, struct err *err)
{
    if (offset > INT64_MAX - 1)
        return err_set(err, ERR_INVALID, "the offset is larger than any file");
    uint64_t most = (uint64_t)INT64_MAX - offset;
    struct stat st;
    AUTO_CLOSE int fd = files_open_regular(files, path, O_RDONLY, &st, err);
    if (fd < 0)
        return -1;
    struct files_content content = {.size = (uint64_t)st.st_size};
    files_stat_from(&st, &content.stat);
    if (copy_range(fd, offset, limit == 0 ? most : MIN(limit, most), sink, &content, err) < 0)
        return err_wrap(err, "read '%.*s'", STR_ARG(path));
    *ret_content = content;
    return 0;
}

int files_readlink(struct files *files, struct str path, struct arena *arena,
                   struct str *ret_target, struct err *err)
{
    AUTO_CLOSE int fd = files_open_path(files, path, O_PATH | O_NOFOLLOW, 0, err);
    if (fd < 0)
        return -1;
    char target[PATH_MAX];
    ssize_t len = SYS(readlinkat(fd, "", target, sizeof target));
    /* ENOENT is what an empty path gives for anything but a link. */
    if (len < 0 && (errno == EINVAL || errno == ENOENT))
        return err_set(err, ERR_INVALID, "'%.*s' is not a symbolic link", STR_ARG(path));
    if (len < 0)
        return err_sys(err, errno, "read the link '%.*s'", STR_ARG(path));
    *ret_target = arena_dup(arena, str_n(target, (size_t)len));
    return 0;
}

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452 /* Linux 6.6; newer than the headers we may be built with */
#endif

int files_chmod_fd(int fd, mode_t mode)
{
    if (SYS(syscall(SYS_fchmodat2, fd, "", mode, AT_EMPTY_PATH)) == 0)
        return 0;
    if (errno != ENOSYS && errno != EPERM)
        return -1;
    /* A descriptor's entry in /proc leads to the very file, whatever its name leads to by now. */
    char name[32];
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    return SYS(chmod(name, mode));
}

int files_chmod(struct files *files, struct str path, mode_t mode, struct err *err)
{
    if (files_check_writable(files, err) < 0)
        return -1;
    AUTO_CLOSE int fd = files_open_path(files, path, O_PATH, 0, err);
    if (fd < 0)
        return -1;
    struct stat st;
    if (SYS(fstat(fd, &st)) < 0)
        return err_sys(err, errno, "stat '%.*s'", STR_ARG(path));
    if (!S_ISDIR(st.st_mode) && files_check_regular(files, &st, path, err) < 0)
        return -1;
    if (files_chmod_fd(fd, mode & 0777) < 0)
        return err_sys(err, errno, "chmod '%.*s'", STR_ARG(path));
    return 0;
}
