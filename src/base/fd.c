#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd_internal.h"
#include "base/id.h"
#include "base/sys.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010u /* since Linux 6.3 */
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020 /* since Linux 6.3 */
#endif

void fd_close(int *fd)
{
    int saved = errno;
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
    errno = saved;
}

static atomic_bool has_no_openat2;

void fd_without_openat2(void)
{
    atomic_store_explicit(&has_no_openat2, true, memory_order_relaxed);
}

static int open_with_openat2(int dir_fd, const char *path, int flags, mode_t mode, unsigned how)
{
    struct open_how open_how = {
        .flags = (uint64_t)flags,
        .mode = (flags & O_CREAT) != 0 ? mode : 0,
        .resolve =
            RESOLVE_NO_MAGICLINKS | ((how & FD_IN_ROOT) != 0 ? RESOLVE_IN_ROOT : RESOLVE_BENEATH),
    };
    if ((how & FD_NO_LINKS) != 0)
        open_how.resolve |= RESOLVE_NO_SYMLINKS;
    if ((how & FD_NO_XDEV) != 0)
        open_how.resolve |= RESOLVE_NO_XDEV;
    return (int)SYS(syscall(SYS_openat2, dir_fd, path, &open_how, sizeof open_how));
}

static int open_once(int dir_fd, const char *path, int flags, mode_t mode, unsigned how)
{
    if (!atomic_load_explicit(&has_no_openat2, memory_order_relaxed)) {
        int fd = open_with_openat2(dir_fd, path, flags, mode, how);
        if (fd >= 0 || errno != ENOSYS)
            return fd;
        fd_without_openat2();
    }
    return fd_walk_open(dir_fd, path, flags, mode, how);
}

int fd_open_in(int dir_fd, const char *path, int flags, mode_t mode, unsigned how, struct err *err)
{
    /* openat2 is strict: O_PATH goes with few others. */
    flags |= (flags & O_PATH) != 0 ? O_CLOEXEC : O_CLOEXEC | O_NOCTTY;
    /* EAGAIN: a rename raced with the walk. A tenant can repeat that without end, so we give up. */
    for (int tries = 0; tries < 32; tries++) {
        int fd = open_once(dir_fd, path, flags, mode, how);
        if (fd >= 0)
            return fd;
        if (errno != EAGAIN && errno != EINTR)
            break;
    }
    if (errno != EXDEV)
        return err_sys(err, errno, "open '%s'", path);
    (void)err_set(err, ERR_PATH_ESCAPES, "'%s' points outside the directory", path);
    err->sys = EXDEV;
    return -1;
}

int fd_open_beneath(int dir_fd, const char *path, int flags, mode_t mode, struct err *err)
{
    return fd_open_in(dir_fd, path, flags, mode, 0, err);
}

int fd_write_all(int fd, struct str bytes, struct err *err)
{
    while (bytes.len > 0) {
        ssize_t wrote = SYS(sys_write(fd, bytes.ptr, bytes.len));
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return err_sys(err, errno, "write");
        bytes = str_slice(bytes, (size_t)wrote, bytes.len);
    }
    return 0;
}

int fd_seal_program(int fd, struct err *err)
{
    enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL };
    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_EXEC); /* older kernels refuse it */
    if (SYS(fcntl(fd, F_ADD_SEALS, SEALS)) < 0)
        return err_sys(err, errno, "seal a program");
    return 0;
}

int fd_program(const char *name, struct str bytes, mode_t mode, struct err *err)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    AUTO_CLOSE int fd = (int)SYS(syscall(SYS_memfd_create, name, flags | MFD_EXEC));
    if (fd < 0 && errno == EINVAL)
        fd = (int)SYS(syscall(SYS_memfd_create, name, flags));
    if (fd < 0)
        return err_sys(err, errno, "memfd_create '%s'", name);
    if (fd_write_all(fd, bytes, err) < 0)
        return err_wrap(err, "program '%s'", name);
    if (SYS(fchmod(fd, mode)) < 0)
        return err_sys(err, errno, "chmod '%s'", name);
    return fd_take(&fd);
}

int fd_sealed_program(const char *name, struct str bytes, mode_t mode, struct err *err)
{
    AUTO_CLOSE int fd = fd_program(name, bytes, mode, err);
    if (fd < 0 || fd_seal_program(fd, err) < 0)
        return -1;
    return fd_take(&fd);
}

static int write_and_sync(int fd, struct str bytes, struct err *err)
{
    if (fd_write_all(fd, bytes, err) < 0)
        return -1;
    if (SYS(fsync(fd)) < 0)
        return err_sys(err, errno, "fsync");
    return 0;
}

int fd_replace_file(int dir_fd, const char *name, struct str bytes, mode_t mode, struct err *err)
{
    char id[ID_SIZE], temp[64];
    id_new(id);
    (void)snprintf(temp, sizeof temp, ".new-%s", id);
    AUTO_CLOSE int fd =
        SYS(openat(dir_fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
    if (fd < 0)
        return err_sys(err, errno, "create '%s'", name);
    int done = write_and_sync(fd, bytes, err);
    if (done == 0 && SYS(renameat(dir_fd, temp, dir_fd, name)) < 0)
        done = err_sys(err, errno, "rename");
    if (done < 0) {
        (void)unlinkat(dir_fd, temp, 0);
        return err_wrap(err, "write '%s'", name);
    }
    /* The name is part of the directory: without this a power cut could forget the rename. */
    if (SYS(fsync(dir_fd)) < 0)
        return err_sys(err, errno, "fsync the directory of '%s'", name);
    return 0;
}

int fd_sync_parent(const char *path, struct err *err)
{
    char parent[PATH_MAX];
    if (str_to_cstr(str_of(path), parent, sizeof parent, err) < 0)
        return -1;
    char *slash = strrchr(parent, '/');
    if (slash != NULL)
        slash[slash == parent ? 1 : 0] = '\0';
    AUTO_CLOSE int fd = SYS(open(slash == NULL ? "." : parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0)
        return err_sys(err, errno, "open the directory of '%s'", path);
    if (SYS(fsync(fd)) < 0 &&
        errno != EINVAL) /* there are file systems that have nothing to sync */
        return err_sys(err, errno, "fsync the directory of '%s'", path);
    return 0;
}

int fd_make_dirs(const char *path, mode_t mode, struct err *err)
{
    char partial[PATH_MAX];
    if (str_to_cstr(str_of(path), partial, sizeof partial, err) < 0)
        return -1;
    size_t len = strlen(partial);
    for (size_t i = 1; i <= len; i++) {
        if (partial[i] != '/' && partial[i] != '\0')
            continue;
        char kept = partial[i];
        partial[i] = '\0';
        int made = SYS(mkdir(partial, mode));
        if (made < 0 && errno != EEXIST)
            return err_sys(err, errno, "create directory '%s'", partial);
        if (made == 0 && fd_sync_parent(partial, err) < 0)
            return -1;
        partial[i] = kept;
    }
    struct stat st;
    if (SYS(stat(path, &st)) < 0)
        return err_sys(err, errno, "open '%s'", path);
    if (!S_ISDIR(st.st_mode))
        return err_set(err, ERR_NOT_A_DIRECTORY, "'%s' is not a directory", path);
    return 0;
}
