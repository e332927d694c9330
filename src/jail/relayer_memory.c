#include "jail/relayer_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/err.h"
#include "base/fd.h"
#include "jail/kernel.h"
#include "jail/mounts.h"

int relayer_memory_enter(struct err *err)
{
    int fd = SYS(open(JAIL_ANCHOR_MEMORY, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    return fd < 0 ? err_sys(err, errno, "open the layers in memory") : fd;
}

int relayer_memory_check(int memory_fd, int64_t most_bytes, struct err *err)
{
    struct statfs fs;
    if (SYS(fstatfs(memory_fd, &fs)) < 0)
        return err_sys(err, errno, "look at the layers in memory");
    int64_t used = (int64_t)(fs.f_blocks - fs.f_bfree) * (int64_t)fs.f_bsize;
    if (fs.f_blocks == 0 || used > most_bytes)
        return err_set(err, ERR_LIMIT, "more is written than shall be held in memory");
    return 0;
}

static int set_read_only(int memory_fd, bool read_only)
{
    struct mount_attr attr = {.attr_set = read_only ? MOUNT_ATTR_RDONLY : 0,
                              .attr_clr = read_only ? 0 : MOUNT_ATTR_RDONLY};
    return k_mount_setattr(memory_fd, AT_EMPTY_PATH, &attr);
}

void relayer_memory_close(int memory_fd)
{
    (void)!set_read_only(memory_fd, true);
}

static int make(int dir_fd, uint32_t number, const char *part, mode_t mode)
{
    char path[32];
    (void)snprintf(path, sizeof path, "%u/%s", number, part);
    return SYS(mkdirat(dir_fd, path, 0700)) < 0 ? -1 : SYS(fchmodat(dir_fd, path, mode, 0));
}

int relayer_memory_add(int memory_fd, uint32_t from, uint32_t to, struct err *err)
{
    char path[32];
    struct stat st;
    if (set_read_only(memory_fd, false) < 0)
        return err_sys(err, errno, "open the layers in memory");
    (void)snprintf(path, sizeof path, "%u/upper", from);
    if (SYS(fstatat(memory_fd, path, &st, AT_SYMLINK_NOFOLLOW)) < 0)
        return err_sys(err, errno, "look at the writable layer");
    (void)snprintf(path, sizeof path, "%u", to);
    /* Its mode is what the jail sees at "/". */
    if (SYS(mkdirat(memory_fd, path, 0755)) < 0 ||
        make(memory_fd, to, "upper", st.st_mode & 01777) < 0 ||
        make(memory_fd, to, "work", 0755) < 0)
        return err_sys(err, errno, "make the next layer");
    return 0;
}

int relayer_memory_open(int memory_fd, uint32_t from, uint32_t to, int ret_fds[2], struct err *err)
{
    const uint32_t numbers[2] = {from, to};
    AUTO_CLOSE int tree =
        k_open_tree(memory_fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    int fds[2] = {-1, -1};
    if (tree < 0)
        return err_sys(err, errno, "open the layers in memory");
    for (int i = 0; i < 2; i++) {
        char path[32];
        (void)snprintf(path, sizeof path, "%u/upper", numbers[i]);
        fds[i] = SYS(openat(tree, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (fds[i] < 0) {
            int code = errno;
            fd_close(&fds[0]);
            return err_sys(err, code, "open a layer in memory");
        }
    }
    memcpy(ret_fds, fds, sizeof fds);
    return 0;
}
