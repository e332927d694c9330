/* Loaded into the server (LD_PRELOAD): writes down, in the order in which they happen, all calls
 * that change files below $RECORD_ROOT and all that sync them, into $RECORD_LOG. From that a test
 * makes the directory as a power cut may leave it (power.mjs).
 *
 * A record is a line "OP INODE OFFSET LENGTH PATH-LENGTH OTHER-PATH-LENGTH", then the two paths and
 * the bytes. One lock makes the call and its record one step. */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;
static char root[PATH_MAX];
static size_t root_len;

/* The kernel's own calls: libc's are those that are replaced here. */
#define RAW(...) syscall_real(__VA_ARGS__)
static long (*syscall_real)(long, ...);

__attribute__((constructor)) static void start(void)
{
    const char *dir = getenv("RECORD_ROOT"), *log = getenv("RECORD_LOG");
    syscall_real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    if (dir == NULL || log == NULL || realpath(dir, root) == NULL)
        return;
    root_len = strlen(root);
    /* Far from the numbers that the server counts on. */
    int fd = (int)RAW(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    log_fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 700);
    (void)RAW(SYS_close, fd);
}

/* The path below the root, or NULL. */
static const char *below(const char *path)
{
    if (strncmp(path, root, root_len) != 0 || (path[root_len] != '/' && path[root_len] != '\0'))
        return NULL;
    return path + root_len;
}

static const char *path_of(int fd, char buf[PATH_MAX])
{
    char link[64];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long len = RAW(SYS_readlinkat, AT_FDCWD, link, buf, PATH_MAX - 1);
    if (len <= 0)
        return NULL;
    buf[len] = '\0';
    return below(buf);
}

static const char *path_at(int dir, const char *name, char buf[PATH_MAX])
{
    char base[PATH_MAX];
    if (log_fd < 0 || name == NULL)
        return NULL;
    if (name[0] == '/') {
        (void)snprintf(buf, PATH_MAX, "%s", name);
        return below(buf);
    }
    if (dir == AT_FDCWD) {
        if (getcwd(base, sizeof base) == NULL)
            return NULL;
        (void)snprintf(buf, PATH_MAX, "%.2000s/%.2000s", base, name);
        return below(buf);
    }
    const char *at = path_of(dir, base);
    if (at == NULL)
        return NULL;
    (void)snprintf(buf, PATH_MAX, "%.2000s%.500s/%.1500s", root, at, name);
    return below(buf);
}

static void put(const char *op, unsigned long long ino, long long offset, const char *path,
                const char *other, const void *bytes, size_t len)
{
    char head[128];
    int n = snprintf(head, sizeof head, "%s %llu %lld %zu %zu %zu\n", op, ino, offset, len,
                     strlen(path), strlen(other));
    struct iovec parts[] = {{head, (size_t)n},
                            {(void *)path, strlen(path)},
                            {(void *)other, strlen(other)},
                            {(void *)bytes, len}};
    if (RAW(SYS_writev, log_fd, parts, 4) < 0)
        abort();
}

static bool is_regular(int fd, struct stat *st)
{
    return log_fd >= 0 && fd != log_fd && fstat(fd, st) == 0 && S_ISREG(st->st_mode);
}

static long done(long result, int why)
{
    (void)pthread_mutex_unlock(&lock);
    errno = why;
    return result;
}

/* --- Names --- */

static int open_at(int dir, const char *name, int flags, mode_t mode)
{
    char buf[PATH_MAX];
    struct stat st;
    const char *path = (flags & (O_CREAT | O_TRUNC)) != 0 ? path_at(dir, name, buf) : NULL;
    if (path == NULL)
        return (int)RAW(SYS_openat, dir, name, flags, mode);
    (void)pthread_mutex_lock(&lock);
    long fd = RAW(SYS_openat, dir, name, flags, mode);
    int why = errno;
    if (fd >= 0 && fstat((int)fd, &st) == 0 && S_ISREG(st.st_mode)) {
        put("name", st.st_ino, 0, path, "", "", 0);
        if ((flags & O_TRUNC) != 0)
            put("size", st.st_ino, 0, path, "", "", 0);
    }
    return (int)done(fd, why);
}

#define OPEN_MODE(last)                                                                            \
    mode_t mode = 0;                                                                               \
    if ((flags & (O_CREAT | O_TMPFILE)) != 0) {                                                    \
        va_list args;                                                                              \
        va_start(args, last);                                                                      \
        mode = va_arg(args, mode_t);                                                               \
        va_end(args);                                                                              \
    }

int open(const char *name, int flags, ...)
{
    OPEN_MODE(flags)
    return open_at(AT_FDCWD, name, flags, mode);
}
int open64(const char *name, int flags, ...)
{
    OPEN_MODE(flags)
    return open_at(AT_FDCWD, name, flags, mode);
}
int openat(int dir, const char *name, int flags, ...)
{
    OPEN_MODE(flags)
    return open_at(dir, name, flags, mode);
}
int openat64(int dir, const char *name, int flags, ...)
{
    OPEN_MODE(flags)
    return open_at(dir, name, flags, mode);
}

int mkdirat(int dir, const char *name, mode_t mode)
{
    char buf[PATH_MAX];
    struct stat st;
    (void)pthread_mutex_lock(&lock);
    long result = RAW(SYS_mkdirat, dir, name, mode);
    int why = errno;
    const char *path = result == 0 ? path_at(dir, name, buf) : NULL;
    if (path != NULL && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        put("mkdir", st.st_ino, 0, path, "", "", 0);
    return (int)done(result, why);
}
int mkdir(const char *name, mode_t mode)
{
    return mkdirat(AT_FDCWD, name, mode);
}

int unlinkat(int dir, const char *name, int flags)
{
    char buf[PATH_MAX];
    (void)pthread_mutex_lock(&lock);
    const char *path = path_at(dir, name, buf);
    long result = RAW(SYS_unlinkat, dir, name, flags);
    int why = errno;
    if (result == 0 && path != NULL)
        put("unlink", 0, 0, path, "", "", 0);
    return (int)done(result, why);
}
int unlink(const char *name)
{
    return unlinkat(AT_FDCWD, name, 0);
}
int rmdir(const char *name)
{
    return unlinkat(AT_FDCWD, name, AT_REMOVEDIR);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    char buf[PATH_MAX], other_buf[PATH_MAX];
    (void)pthread_mutex_lock(&lock);
    const char *path = path_at(from_dir, from, buf), *other = path_at(to_dir, to, other_buf);
    long result = RAW(SYS_renameat2, from_dir, from, to_dir, to, flags);
    int why = errno;
    if (result == 0 && path != NULL && other != NULL)
        put("rename", 0, 0, path, other, "", 0);
    return (int)done(result, why);
}
int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return renameat2(from_dir, from, to_dir, to, 0);
}
int rename(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* A second name of the same file. */
int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    char buf[PATH_MAX], other_buf[PATH_MAX];
    (void)pthread_mutex_lock(&lock);
    const char *path = path_at(from_dir, from, buf), *other = path_at(to_dir, to, other_buf);
    long result = RAW(SYS_linkat, from_dir, from, to_dir, to, flags);
    int why = errno;
    if (result == 0 && path != NULL && other != NULL)
        put("link", 0, 0, path, other, "", 0);
    return (int)done(result, why);
}

/* What libc has no name for. */
long syscall(long number, ...)
{
    long a[6];
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    if (syscall_real == NULL)
        syscall_real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    if (number == SYS_renameat2)
        return renameat2((int)a[0], (const char *)a[1], (int)a[2], (const char *)a[3],
                         (unsigned)a[4]);
    long result = syscall_real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (number == SYS_openat2 && result >= 0 && log_fd >= 0) {
        int why = errno;
        char buf[PATH_MAX];
        struct stat st;
        const char *path = path_of((int)result, buf);
        if (path != NULL && is_regular((int)result, &st)) {
            (void)pthread_mutex_lock(&lock);
            put("name", st.st_ino, 0, path, "", "", 0);
            (void)pthread_mutex_unlock(&lock);
        }
        errno = why;
    }
    return result;
}

/* --- Bytes --- */

static ssize_t write_at(int fd, const void *bytes, size_t len, off_t offset, bool has_offset)
{
    char buf[PATH_MAX];
    struct stat st;
    const char *path = is_regular(fd, &st) ? path_of(fd, buf) : NULL;
    if (path == NULL)
        return has_offset ? RAW(SYS_pwrite64, fd, bytes, len, offset)
                          : RAW(SYS_write, fd, bytes, len);
    (void)pthread_mutex_lock(&lock);
    long wrote =
        has_offset ? RAW(SYS_pwrite64, fd, bytes, len, offset) : RAW(SYS_write, fd, bytes, len);
    int why = errno;
    if (wrote > 0)
        put("write", st.st_ino, has_offset ? offset : lseek(fd, 0, SEEK_CUR) - wrote, path, "",
            bytes, (size_t)wrote);
    return done(wrote, why);
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    return write_at(fd, bytes, len, 0, false);
}
ssize_t pwrite(int fd, const void *bytes, size_t len, off_t offset)
{
    return write_at(fd, bytes, len, offset, true);
}
ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t offset)
{
    return write_at(fd, bytes, len, offset, true);
}

/* The bytes are written down from where they came. */
static ssize_t send_file(int to, int from, off_t *offset, size_t len)
{
    enum { PIECE = 64 << 10 };
    static char piece[PIECE]; /* under the lock */
    char buf[PATH_MAX];
    struct stat st;
    const char *path = is_regular(to, &st) && offset != NULL ? path_of(to, buf) : NULL;
    if (path == NULL)
        return RAW(SYS_sendfile, to, from, offset, len);
    (void)pthread_mutex_lock(&lock);
    off_t start = *offset;
    long sent = RAW(SYS_sendfile, to, from, offset, len < PIECE ? len : (size_t)PIECE);
    int why = errno;
    if (sent > 0 && RAW(SYS_pread64, from, piece, sent, start) == sent)
        put("write", st.st_ino, lseek(to, 0, SEEK_CUR) - sent, path, "", piece, (size_t)sent);
    return done(sent, why);
}
ssize_t sendfile(int to, int from, off_t *offset, size_t len)
{
    return send_file(to, from, offset, len);
}
ssize_t sendfile64(int to, int from, off64_t *offset, size_t len)
{
    return send_file(to, from, offset, len);
}

static int truncate_at(int fd, off_t size)
{
    char buf[PATH_MAX];
    struct stat st;
    const char *path = is_regular(fd, &st) ? path_of(fd, buf) : NULL;
    (void)pthread_mutex_lock(&lock);
    long result = RAW(SYS_ftruncate, fd, size);
    int why = errno;
    if (result == 0 && path != NULL)
        put("size", st.st_ino, size, path, "", "", 0);
    return (int)done(result, why);
}
int ftruncate(int fd, off_t size)
{
    return truncate_at(fd, size);
}
int ftruncate64(int fd, off64_t size)
{
    return truncate_at(fd, size);
}

/* --- Syncs --- */

static int sync_by(int fd, long call)
{
    char buf[PATH_MAX];
    struct stat st;
    const char *path = log_fd >= 0 ? path_of(fd, buf) : NULL;
    (void)pthread_mutex_lock(&lock);
    long result = RAW(call, fd);
    int why = errno;
    if (result == 0 && path != NULL && fstat(fd, &st) == 0)
        put(call == SYS_syncfs ? "syncfs" : "sync", st.st_ino, 0, path, "", "", 0);
    return (int)done(result, why);
}
int fsync(int fd)
{
    return sync_by(fd, SYS_fsync);
}
int fdatasync(int fd)
{
    return sync_by(fd, SYS_fdatasync);
}
int syncfs(int fd)
{
    return sync_by(fd, SYS_syncfs);
}
