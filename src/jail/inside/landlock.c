/* Landlock: a second layer of protection for files, scoped signals and abstract sockets. */

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/defended.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/inside/lockdown.h"
#include "jail/wire/linux.h"

/* The oldest supported headers end at ABI 2; the layout only ever grows at the end. */
struct ruleset_attr {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;
    uint64_t scoped;
};

enum { ABI_REFER = 2, ABI_TRUNCATE = 3, ABI_NET = 4, ABI_IOCTL = 5, ABI_SCOPE = 6 };

#define FS_READ                                                                                    \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_V1 ((1ull << 13) - 1)
#define FS_REFER (1ull << 13)
#define FS_TRUNCATE (1ull << 14)
#define FS_IOCTL_DEV (1ull << 15)
#define SCOPE_ALL 3ull /* abstract sockets, signals */

int landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return abi < 0 ? 0 : (int)abi;
}

static uint64_t handled_for(int abi)
{
    uint64_t handled = FS_V1;
    if (abi >= ABI_REFER)
        handled |= FS_REFER;
    if (abi >= ABI_TRUNCATE)
        handled |= FS_TRUNCATE;
    if (abi >= ABI_IOCTL)
        handled |= FS_IOCTL_DEV;
    return handled;
}

static int allow_fd(int ruleset, int fd, const char *path, uint64_t access, struct err *err)
{
    struct stat st;
    if (SYS(fstat(fd, &st)) < 0)
        return err_sys(err, errno, "open '%s'", path);
    /* Rights that only mean something for directories are refused on a file. */
    if (!S_ISDIR(st.st_mode))
        access &= LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |
                  LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV;
    struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = fd};
    if (SYS(syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0)) < 0)
        return err_sys(err, errno, "Landlock rule for '%s'", path);
    return 0;
}

static int allow(int ruleset, const char *path, uint64_t access, struct err *err)
{
    AUTO_CLOSE int fd = SYS(openat(AT_FDCWD, path, O_PATH | O_CLOEXEC));
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", path);
    return allow_fd(ruleset, fd, path, access, err);
}

static int allow_all(int ruleset, const char *const *paths, uint64_t access, struct err *err)
{
    for (size_t i = 0; paths != NULL && paths[i] != NULL; i++)
        if (allow(ruleset, paths[i], access, err) < 0)
            return -1;
    return 0;
}

int landlock_restrict(const char *const *writable, const char *const *extra_writable, int anchor_fd,
                      struct err *err)
{
    int abi = landlock_abi();
    if (abi == 0 || !DEFENDED(LANDLOCK))
        return 0;
    uint64_t all = handled_for(abi);
    struct ruleset_attr attr = {.handled_access_fs = all};
    size_t size = sizeof attr.handled_access_fs;
    if (abi >= ABI_SCOPE) {
        attr.scoped = SCOPE_ALL;
        size = sizeof attr;
    }
    AUTO_CLOSE int ruleset = (int)SYS(syscall(SYS_landlock_create_ruleset, &attr, size, 0));
    if (ruleset < 0)
        return err_sys(err, errno, "make a Landlock ruleset");
    /* Device nodes and block devices may be made nowhere. */
    uint64_t write =
        all & ~(uint64_t)(LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK);
    if (allow(ruleset, "/", FS_READ, err) < 0 || allow_all(ruleset, writable, write, err) < 0 ||
        allow_all(ruleset, extra_writable, write, err) < 0)
        return -1;
    if (anchor_fd >= 0 && allow_fd(ruleset, anchor_fd, "the anchor", write | FS_READ, err) < 0)
        return -1;
    if (SYS(syscall(SYS_landlock_restrict_self, ruleset, 0)) < 0)
        return err_sys(err, errno, "enter Landlock");
    return 0;
}
