/* Limits for what is kept on disk: project quotas, or a file system of its own in a loop image.
 *
 * Both work on nameless things only (an unlinked file, a memfd), so that a killed probe leaves
 * nothing. The quota attempt uses an unused project, and sets its limit back to none. */

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/quota.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "jail/probe/probe_internal.h"

#ifndef PRJQUOTA
#define PRJQUOTA 2
#endif

enum { PROBE_PROJECT = 0x5347, QUOTA_BYTES = 256 * 1024, LOOP_BYTES = 1 << 20, LOOPS_MAX = 64 };

/* QCMD of the C library shifts into the sign bit. */
static long quota_call(int fd, unsigned command, struct dqblk *quota)
{
    unsigned full = command << SUBCMDSHIFT | (PRJQUOTA & SUBCMDMASK);
    return SYS(syscall(SYS_quotactl_fd, fd, full, PROBE_PROJECT, quota));
}

static int set_project(int fd, struct probe_result *result)
{
    struct fsxattr attr;
    if (SYS(ioctl(fd, FS_IOC_FSGETXATTR, &attr)) < 0)
        return probe_fail(result, errno, "no project ids on this file system");
    attr.fsx_projid = PROBE_PROJECT;
    if (SYS(ioctl(fd, FS_IOC_FSSETXATTR, &attr)) < 0)
        return probe_fail(result, errno, "set a project id");
    return 0;
}

static bool is_refused_beyond_limit(int fd)
{
    static const char block[64 * 1024];
    for (size_t written = 0; written < (size_t)4 * QUOTA_BYTES; written += sizeof block)
        if (SYS(write(fd, block, sizeof block)) < 0)
            return errno == EDQUOT || errno == ENOSPC;
    return fsync(fd) < 0 && errno == EDQUOT;
}

PROBE_RUN(probe_disk_project)
{
    (void)probe;
    AUTO_CLOSE int fd = SYS(open(env->data_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (fd < 0) {
        (void)probe_fail(result, errno, "make a file in '%s'", env->data_dir);
        return;
    }
    struct dqblk quota = {0};
    if (quota_call(fd, Q_GETQUOTA, &quota) < 0) {
        int sys = errno;
        /* ESRCH: quotas are off; ENOSYS and ENOTTY: not in this kernel or file system. */
        (void)probe_fail(result, sys == ESRCH ? 0 : sys, "%s in '%s'",
                         sys == EPERM ? "ask for quotas" : "quotas are not on", env->data_dir);
        if (sys == EPERM)
            probe_fix(result, "run sandglass as root");
        return;
    }
    if (quota.dqb_curspace != 0 || quota.dqb_bhardlimit != 0 || quota.dqb_bsoftlimit != 0) {
        probe_say(result, PROBE_PARTIAL, "quotas are on; project %d is in use, so no limit was set",
                  PROBE_PROJECT);
        return;
    }
    if (set_project(fd, result) < 0)
        return;
    quota = (struct dqblk){.dqb_bhardlimit = QUOTA_BYTES / 1024, .dqb_valid = QIF_BLIMITS};
    if (quota_call(fd, Q_SETQUOTA, &quota) < 0) {
        (void)probe_fail(result, errno, "set a project's limit");
        return;
    }
    bool refused = is_refused_beyond_limit(fd);
    quota = (struct dqblk){.dqb_valid = QIF_BLIMITS};
    (void)syscall(SYS_quotactl_fd, fd, QCMD(Q_SETQUOTA, PRJQUOTA), PROBE_PROJECT, &quota);
    if (refused)
        probe_say(result, PROBE_OK, "a project's limit is enforced in '%s'", env->data_dir);
    else
        (void)probe_fail(result, 0, "a project's limit was set but not enforced");
}

/* Whether this user may mount from the device, in a mount namespace of its own. The image holds no
 * file system, so "not one" (EINVAL) is the answer of a kernel that was willing to look. */
static bool may_mount(const char *path)
{
    if (SYS(unshare(CLONE_NEWNS)) < 0 || SYS(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) < 0)
        return false;
    return SYS(mount(path, "/tmp", "ext4", MS_RDONLY | MS_SILENT, NULL)) == 0 || errno == EINVAL;
}

/* True when the image's bytes are seen through the device. Detaches by itself at the last close. */
static bool attach_and_read(const char *path, int device, int image)
{
    struct loop_config config = {.fd = (uint32_t)image,
                                 .info = {.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_READ_ONLY}};
    if (SYS(ioctl(device, LOOP_CONFIGURE, &config)) < 0)
        return false;
    char text[10] = "";
    ssize_t got = SYS(pread(device, text, 9, 0));
    bool good = got == 9 && strcmp(text, "sandglass") == 0 && may_mount(path);
    int sys = errno;
    (void)ioctl(device, LOOP_CLR_FD, 0);
    errno = sys;
    return good;
}

static int make_image(struct probe_result *result)
{
    AUTO_CLOSE int fd = SYS(memfd_create("sandglass-probe", MFD_CLOEXEC));
    if (fd < 0 || SYS(ftruncate(fd, LOOP_BYTES)) < 0 || SYS(pwrite(fd, "sandglass", 9, 0)) != 9)
        return probe_fail(result, errno, "make an image");
    return fd_take(&fd);
}

/* Who makes the file system in it; jail/disk/quota_image.c looks at the same places. */
static bool has_mkfs(void)
{
    return access("/usr/sbin/mkfs.ext4", X_OK) == 0 || access("/sbin/mkfs.ext4", X_OK) == 0;
}

/* Only devices that exist are tried: asking for a new one would load a module or leave a node. */
PROBE_RUN(probe_disk_loop)
{
    (void)probe, (void)env;
    AUTO_CLOSE int image = make_image(result);
    if (image < 0)
        return;
    int seen = 0, sys = 0;
    for (int i = 0; i < LOOPS_MAX; i++) {
        char path[32];
        (void)snprintf(path, sizeof path, "/dev/loop%d", i);
        if (access(path, F_OK) < 0)
            continue;
        seen++;
        AUTO_CLOSE int device = SYS(open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK));
        if (device >= 0 && attach_and_read(path, device, image)) {
            if (has_mkfs()) {
                probe_say(result, PROBE_OK, "an image was read through %s", path);
                return;
            }
            (void)probe_fail(result, 0, "no mkfs.ext4 to make a file system in an image");
            probe_fix(result, "install the package e2fsprogs");
            return;
        }
        sys = errno;
        if (sys == EACCES || sys == EPERM)
            break;
    }
    if (seen == 0)
        (void)probe_fail(result, 0, "no /dev/loop device");
    else
        (void)probe_fail(result, sys, "attach and mount an image");
    if (sys == EACCES || sys == EPERM)
        probe_fix(result, "run sandglass as root");
}
