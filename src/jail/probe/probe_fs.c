/* Mounts that a jail's root is made of: overlay, idmapped, sized tmpfs. All of it happens in a
 * private mount namespace or on detached mounts, so nothing is left when the child ends. */

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "jail/probe/probe_internal.h"

/* <sys/mount.h> and <linux/mount.h> cannot be read together with glibc 2.36. */
extern int mount(const char *source, const char *target, const char *type, unsigned long flags,
                 const void *data);

enum { IDMAP_BASE = 100000, TMPFS_BYTES = 64 * 1024 };

/* A private mount namespace with an empty tmpfs; the working directory is in it. */
static int enter_tmpfs(bool in_user, const char *options, struct probe_result *result)
{
    int entered = -1;
    bool used_user;
    if (in_user)
        entered = probe_enter_user(CLONE_NEWNS, result);
    else
        entered = probe_enter(CLONE_NEWNS, &used_user, result);
    if (entered < 0)
        return -1;
    if (SYS(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) < 0)
        return probe_fail(result, errno, "make mounts private");
    if (SYS(mount("sandglass", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, options)) < 0)
        return probe_fail(result, errno, "mount a tmpfs on /tmp");
    if (SYS(chdir("/tmp")) < 0)
        return probe_fail(result, errno, "enter the tmpfs");
    return 0;
}

static int make_file(const char *path, const char *text)
{
    AUTO_CLOSE int fd = SYS(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (fd < 0)
        return -1;
    return SYS(write(fd, text, strlen(text))) == (ssize_t)strlen(text) ? 0 : -1;
}

static bool file_is(const char *path, const char *text)
{
    char found[32];
    return probe_read(path, found, sizeof found) == 0 && strcmp(found, text) == 0;
}

/* Reads through to the lower layer, copies up, and deletes: the three things an overlay does. */
static int use_overlay(struct probe_result *result)
{
    if (!file_is("merged/kept", "below") || !file_is("merged/changed", "below"))
        return probe_fail(result, 0, "the lower layer does not show through");
    if (make_file("merged/changed", "above") < 0)
        return probe_fail(result, errno, "write through the overlay");
    if (!file_is("upper/changed", "above") || !file_is("lower/changed", "below"))
        return probe_fail(result, 0, "a write did not land in the upper layer");
    if (SYS(unlink("merged/kept")) < 0)
        return probe_fail(result, errno, "delete through the overlay");
    if (access("merged/kept", F_OK) == 0 || access("lower/kept", F_OK) < 0)
        return probe_fail(result, 0, "a deletion did not stay in the upper layer");
    return 0;
}

static void try_overlay(bool in_user, struct probe_result *result)
{
    if (enter_tmpfs(in_user, "size=1m", result) < 0)
        return;
    static const char *const dirs[] = {"lower", "upper", "work", "merged"};
    for (size_t i = 0; i < countof(dirs); i++)
        if (SYS(mkdir(dirs[i], 0700)) < 0) {
            (void)probe_fail(result, errno, "make directory '%s'", dirs[i]);
            return;
        }
    if (make_file("lower/kept", "below") < 0 || make_file("lower/changed", "below") < 0) {
        (void)probe_fail(result, errno, "fill the lower layer");
        return;
    }
    const char *options = in_user ? "lowerdir=lower,upperdir=upper,workdir=work,userxattr"
                                  : "lowerdir=lower,upperdir=upper,workdir=work";
    if (SYS(mount("overlay", "merged", "overlay", MS_NOSUID | MS_NODEV, options)) < 0) {
        (void)probe_fail(result, errno, "mount overlay");
        return;
    }
    if (use_overlay(result) == 0)
        probe_say(result, PROBE_OK, "read, written and deleted through%s",
                  in_user ? ", userxattr" : "");
}

PROBE_RUN(probe_overlay_root)
{
    (void)probe, (void)env;
    if (geteuid() != 0) {
        probe_say(result, PROBE_INFO, "not tried: you are not root");
    } else if (SYS(unshare(CLONE_NEWNS)) == 0) {
        try_overlay(false, result);
    } else { /* root only by name, as in a container */
        (void)probe_fail(result, errno, "enter a mount namespace");
        probe_fix(result, "give this root CAP_SYS_ADMIN (containers: --cap-add SYS_ADMIN)");
    }
}

PROBE_RUN(probe_overlay_user)
{
    (void)probe, (void)env;
    try_overlay(true, result);
}

PROBE_RUN(probe_disk_tmpfs)
{
    (void)probe, (void)env;
    if (enter_tmpfs(false, "size=64k", result) < 0)
        return;
    AUTO_CLOSE int fd = SYS(open("full", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    if (fd < 0) {
        (void)probe_fail(result, errno, "make a file on a tmpfs");
        return;
    }
    static const char block[4096];
    size_t written = 0;
    ssize_t put;
    while ((put = SYS(write(fd, block, sizeof block))) > 0 && written < TMPFS_BYTES + sizeof block)
        written += (size_t)put;
    if (put >= 0 || errno != ENOSPC)
        (void)probe_fail(result, 0, "64 KB tmpfs took %zu bytes", written);
    else
        probe_say(result, PROBE_OK, "64 KB tmpfs refused more than %zu bytes", written);
}

/* A process that sits in a user namespace with a shifted map, for its namespace's descriptor. */
static int open_shifted_user(struct probe_result *result)
{
    int ends[2];
    if (SYS(pipe2(ends, O_CLOEXEC)) < 0)
        return probe_fail(result, errno, "open a pipe");
    AUTO_CLOSE int ready = ends[0];
    AUTO_CLOSE int tell = ends[1];
    pid_t pid = SYS(fork());
    if (pid < 0)
        return probe_fail(result, errno, "fork");
    if (pid == 0) {
        int sys = unshare(CLONE_NEWUSER) < 0 ? errno : 0;
        (void)!write(tell, &sys, sizeof sys);
        (void)pause();
        _exit(0);
    }
    fd_close(&tell); /* a child that was killed shows as the end of the pipe */
    int sys = EIO;
    char path[64];
    char line[64];
    if (read(ready, &sys, sizeof sys) != (ssize_t)sizeof sys || sys != 0)
        return probe_fail(result, sys, "enter a user namespace");
    (void)snprintf(line, sizeof line, "0 %d 65536", IDMAP_BASE);
    (void)snprintf(path, sizeof path, "/proc/%d/gid_map", (int)pid);
    if (probe_write(path, line) < 0)
        return probe_fail(result, errno, "write a gid map of 65536 ids");
    (void)snprintf(path, sizeof path, "/proc/%d/uid_map", (int)pid);
    if (probe_write(path, line) < 0)
        return probe_fail(result, errno, "write a uid map of 65536 ids");
    (void)snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    int fd = SYS(open(path, O_RDONLY | O_CLOEXEC));
    return fd < 0 ? probe_fail(result, errno, "open the user namespace") : fd;
}

static const char *fs_name(const char *path)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } names[] = {
        {0xef53, "ext4"},        {0x58465342, "xfs"}, {0x9123683e, "btrfs"}, {0x01021994, "tmpfs"},
        {0x794c7630, "overlay"}, {0x2fc12fc1, "zfs"}, {0xf2f52010, "f2fs"},  {0x6969, "nfs"},
    };
    struct statfs fs;
    if (statfs(path, &fs) < 0)
        return "unknown file system";
    for (size_t i = 0; i < countof(names); i++)
        if ((unsigned long)fs.f_type == names[i].magic)
            return names[i].name;
    return "other file system";
}

/* A detached copy of the data directory's mount, seen with shifted owners; nothing is written. */
PROBE_RUN(probe_idmap)
{
    (void)probe;
    if (geteuid() != 0) {
        probe_say(result, PROBE_INFO, "not tried: you are not root");
        return;
    }
    AUTO_CLOSE int user = open_shifted_user(result);
    if (user < 0)
        return;
    AUTO_CLOSE int tree = (int)SYS(
        syscall(SYS_open_tree, AT_FDCWD, env->data_dir, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
    if (tree < 0) {
        (void)probe_fail(result, errno, "open_tree '%s'", env->data_dir);
        return;
    }
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)user};
    if (SYS(syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr)) < 0) {
        (void)probe_fail(result, errno, "mount_setattr on %s", fs_name(env->data_dir));
        return;
    }
    struct stat plain, shifted;
    if (stat(env->data_dir, &plain) < 0 || fstatat(tree, "", &shifted, AT_EMPTY_PATH) < 0) {
        (void)probe_fail(result, errno, "stat '%s'", env->data_dir);
        return;
    }
    if (plain.st_uid < 65536 && shifted.st_uid != plain.st_uid + IDMAP_BASE)
        (void)probe_fail(result, 0, "the owner did not shift");
    else
        probe_say(result, PROBE_OK, "owners shift on %s", fs_name(env->data_dir));
}
