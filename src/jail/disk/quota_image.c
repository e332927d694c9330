/* A separate filesystem in a sparse file.
 *
 * mkfs runs once per size: its result is kept as a template, of which only the few blocks that are
 * not empty are copied. The loop device releases the file automatically at the last umount, so a
 * crash leaves no device behind that a later umount would not free. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "jail/disk/quota_internal.h"
#include "jail/wire/linux.h"

enum {
    INODE = 256,
    BLOCK = 4096,
    JOURNAL_MIB = 4,
    LOOP_TRIES = 64,
    NAME_SIZE = 96,
};

#define IMAGE "disk.img"

#ifndef EXT4_IOC_RESIZE_FS
#define EXT4_IOC_RESIZE_FS _IOW('f', 16, uint64_t)
#endif

/* What the tenant gets is the limit; what the filesystem needs for itself comes on top. */
static int64_t image_bytes(const struct disk_quota_limit *limit)
{
    int64_t own = limit->inodes * INODE + limit->bytes / 64 + (1 << 20);
    if (!limit->ephemeral)
        own += (int64_t)JOURNAL_MIB << 20;
    return (limit->bytes + own + BLOCK - 1) / BLOCK * BLOCK;
}

static int quota_image_wait_for(pid_t pid, struct err *err)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_sys(err, errno, "wait for mkfs.ext4");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return err_set(err, ERR_INTERNAL, "mkfs.ext4 failed (status %d)", status);
    return 0;
}

static int run_mkfs(const char *path, const struct disk_quota_limit *limit, struct err *err)
{
    static const char *const programs[] = {"/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"};
    char inodes[24], block[16], journal[16];
    (void)snprintf(inodes, sizeof inodes, "%lld", (long long)limit->inodes);
    (void)snprintf(block, sizeof block, "%d", BLOCK);
    (void)snprintf(journal, sizeof journal, "size=%d", JOURNAL_MIB);
    /* The file reads as zeros: there are no tables to clear. */
    const char *argv[] = {"mkfs.ext4",
                          "-q",
                          "-F",
                          "-m",
                          "0",
                          "-b",
                          block,
                          "-I",
                          "256",
                          "-N",
                          inodes,
                          "-E",
                          "lazy_itable_init=1,lazy_journal_init=1,nodiscard",
                          "-O",
                          limit->ephemeral ? "^has_journal,^resize_inode" : "^resize_inode",
                          limit->ephemeral ? "-q" : "-J",
                          limit->ephemeral ? "-q" : journal,
                          path,
                          NULL};
    char *env[] = {NULL};
    for (size_t i = 0; i < countof(programs); i++) {
        pid_t pid;
        if (posix_spawn(&pid, programs[i], NULL, NULL, (char *const *)argv, env) == 0)
            return quota_image_wait_for(pid, err);
    }
    return err_set(err, ERR_UNSUPPORTED, "mkfs.ext4 is not installed (package e2fsprogs)");
}

static void template_name(const struct disk_quota_limit *limit, char out[NAME_SIZE])
{
    (void)snprintf(out, NAME_SIZE, "ext4-%lld-%lld%s.img", (long long)limit->bytes,
                   (long long)limit->inodes, limit->ephemeral ? "-e" : "");
}

static int make_template(const struct disk_quota_job *job, const char *name, struct err *err)
{
    char id[ID_SIZE], temp[64], path[128];
    id_new(id);
    (void)snprintf(temp, sizeof temp, ".new-%s", id);
    AUTO_CLOSE int fd =
        SYS(openat(job->cache_fd, temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (fd < 0)
        return err_sys(err, errno, "make an image");
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d/%s", (int)getpid(), job->cache_fd, temp);
    int done = SYS(ftruncate(fd, image_bytes(&job->limit))) < 0
                   ? err_sys(err, errno, "size an image")
                   : run_mkfs(path, &job->limit, err);
    /* Every image of this size begins as a copy of it. */
    if (done == 0 && SYS(fsync(fd)) < 0)
        done = err_sys(err, errno, "sync an image");
    if (done == 0 && SYS(renameat(job->cache_fd, temp, job->cache_fd, name)) < 0)
        done = err_sys(err, errno, "keep an image");
    if (done < 0)
        (void)unlinkat(job->cache_fd, temp, 0);
    return done;
}

static int open_template(const struct disk_quota_job *job, struct err *err)
{
    char name[NAME_SIZE];
    template_name(&job->limit, name);
    int fd = SYS(openat(job->cache_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (fd < 0 && errno == ENOENT) {
        if (make_template(job, name, err) < 0)
            return -1;
        fd = SYS(openat(job->cache_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    }
    if (fd < 0)
        return err_sys(err, errno, "open an image");
    return fd;
}

static int copy_range(int from, int to, off_t at, off_t end, struct err *err)
{
    off_t out = at;
    while (at < end) {
        ssize_t did = SYS(copy_file_range(from, &at, to, &out, (size_t)(end - at), 0));
        if (did <= 0)
            return err_sys(err, did == 0 ? EIO : errno, "copy an image");
    }
    return 0;
}

/* Shares blocks where the filesystem can, else copies those that hold something. */
static int copy_sparse(int from, int to, struct err *err)
{
    struct stat st;
    if (ioctl(to, FICLONE, from) == 0)
        return 0;
    if (SYS(fstat(from, &st)) < 0 || SYS(ftruncate(to, st.st_size)) < 0)
        return err_sys(err, errno, "size an image");
    for (off_t data = 0, hole = 0;; data = hole) {
        data = lseek(from, data, SEEK_DATA);
        if (data < 0)
            return errno == ENXIO ? 0 : err_sys(err, errno, "read an image");
        hole = lseek(from, data, SEEK_HOLE);
        if (hole < 0)
            return err_sys(err, errno, "read an image");
        if (copy_range(from, to, data, hole, err) < 0)
            return -1;
    }
}

/* True when the device has this file below it. The caller's descriptor keeps it from being let go
 * of from here on. */
static bool has_image(int device, const struct stat *image)
{
    struct loop_info64 info;
    return ioctl(device, LOOP_GET_STATUS64, &info) == 0 && info.lo_device == image->st_dev &&
           info.lo_inode == image->st_ino;
}

/* The device that still has the image, or -1. A mount that was taken away here may live on for a
 * moment in another mount namespace, such as a jail's that is just being made. A second device over
 * the same file would be a second filesystem over it: neither would see what the other wrote. */
static int find_loop(int image, char path[32])
{
    struct stat st;
    DIR *dir = fstat(image, &st) < 0 ? NULL : opendir("/sys/block");
    int found = -1;
    if (dir == NULL)
        return -1;
    for (const struct dirent *entry;
         found < 0 && (entry = readdir(dir)) != NULL;) { /* NOLINT(concurrency-mt-unsafe) */
        char used[64];
        if (strncmp(entry->d_name, "loop", 4) != 0)
            continue;
        (void)snprintf(used, sizeof used, "/sys/block/%.16s/loop", entry->d_name);
        if (access(used, F_OK) < 0)
            continue;
        (void)snprintf(path, 32, "/dev/%.16s", entry->d_name);
        AUTO_CLOSE int device = open(path, O_RDWR | O_CLOEXEC);
        if (device >= 0 && has_image(device, &st))
            found = fd_take(&device);
    }
    (void)closedir(dir);
    return found;
}

/* Gives the device's descriptor. A file that was just made has no device yet. Others may take a
 * free device before us, so we try again. */
static int attach_loop(int image, bool is_new, char path[32], struct err *err)
{
    int found = is_new ? -1 : find_loop(image, path);
    if (found >= 0)
        return found;
    AUTO_CLOSE int control = SYS(open("/dev/loop-control", O_RDWR | O_CLOEXEC));
    if (control < 0)
        return err_sys(err, errno, "open /dev/loop-control");
    struct loop_config config = {
        .fd = (uint32_t)image, .block_size = BLOCK, .info = {.lo_flags = LO_FLAGS_AUTOCLEAR}};
    for (int i = 0; i < LOOP_TRIES; i++) {
        int number = SYS(ioctl(control, LOOP_CTL_GET_FREE));
        if (number < 0)
            return err_sys(err, errno, "find a free loop device");
        (void)snprintf(path, 32, "/dev/loop%d", number);
        AUTO_CLOSE int device = SYS(open(path, O_RDWR | O_CLOEXEC));
        if (device < 0 && errno != ENOENT && errno != ENXIO)
            return err_sys(err, errno, "open '%s'", path);
        if (device >= 0 && SYS(ioctl(device, LOOP_CONFIGURE, &config)) == 0)
            return fd_take(&device);
        if (device >= 0 && errno != EBUSY)
            return err_sys(err, errno, "attach '%s'", path);
    }
    return err_set(err, ERR_BUSY, "no free loop device");
}

static int mount_device(const char *path, struct err *err)
{
    static const char *const flags[] = {"noinit_itable", "discard"};
    AUTO_CLOSE int fs = k_fsopen("ext4");
    if (fs < 0 || k_fsconfig(fs, FSCONFIG_SET_STRING, "source", path) < 0 ||
        k_fsconfig(fs, FSCONFIG_SET_STRING, "errors", "remount-ro") < 0)
        return err_sys(err, errno, "mount '%s'", path);
    for (size_t i = 0; i < countof(flags); i++)
        if (k_fsconfig(fs, FSCONFIG_SET_FLAG, flags[i], NULL) < 0)
            return err_sys(err, errno, "mount '%s' with %s", path, flags[i]);
    if (k_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
        return err_sys(err, errno, "mount '%s'", path);
    int mount = k_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (mount < 0)
        return err_sys(err, errno, "mount '%s'", path);
    return mount;
}

static int mount_image(const struct disk_quota_job *job, bool is_new, struct err *err)
{
    char path[32];
    AUTO_CLOSE int image = SYS(openat(job->box_fd, IMAGE, O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (image < 0)
        return err_sys(err, errno, "open '%s'", IMAGE);
    AUTO_CLOSE int device = attach_loop(image, is_new, path, err);
    if (device < 0)
        return -1;
    AUTO_CLOSE int mount = mount_device(path, err);
    if (mount < 0)
        return -1;
    /* mkfs gives it to root, with a directory lost+found that is not needed. */
    (void)unlinkat(mount, "lost+found", AT_REMOVEDIR);
    return disk_quota_mount_at(job, mount, err);
}

int disk_quota_image_mount(const struct disk_quota_job *job, struct err *err)
{
    return mount_image(job, false, err);
}

int disk_quota_image_attach(struct disk_quota_job *job, struct err *err)
{
    AUTO_CLOSE int from = open_template(job, err);
    if (from < 0)
        return -1;
    AUTO_CLOSE int to =
        SYS(openat(job->box_fd, IMAGE, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (to < 0)
        return err_sys(err, errno, "make '%s'", IMAGE);
    if (copy_sparse(from, to, err) == 0 && mount_image(job, true, err) == 0)
        return 0;
    (void)unlinkat(job->box_fd, IMAGE, 0);
    return -1;
}

/* The device below a mounted image. */
static int open_device(const struct disk_quota_job *job, int *ret_dir, struct err *err)
{
    struct stat st;
    char path[32];
    AUTO_CLOSE int dir =
        SYS(openat(job->box_fd, job->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (dir < 0 || SYS(fstat(dir, &st)) < 0)
        return err_sys(err, errno, "open '%s'", job->name);
    (void)snprintf(path, sizeof path, "/dev/loop%u", minor(st.st_dev));
    AUTO_CLOSE int device = SYS(open(path, O_RDWR | O_CLOEXEC));
    struct stat own;
    if (device < 0 || SYS(fstat(device, &own)) < 0)
        return err_sys(err, errno, "open '%s'", path);
    if (own.st_rdev != st.st_dev)
        return err_set(err, ERR_INTERNAL, "'%s' is not on the device '%s'", job->name, path);
    *ret_dir = fd_take(&dir);
    return fd_take(&device);
}

static int resize_filesystem(int dir, int64_t bytes, struct err *err)
{
    uint64_t blocks = (uint64_t)bytes / BLOCK;
    if (SYS(ioctl(dir, EXT4_IOC_RESIZE_FS, &blocks)) == 0)
        return 0;
    if (errno == EPERM)
        return err_set(err, ERR_UNSUPPORTED,
                       "growing an image needs CAP_SYS_RESOURCE (Docker: --cap-add SYS_RESOURCE)");
    return err_sys(err, errno, "size the filesystem");
}

/* File, device, filesystem, in this order: after a crash in between the next call continues. */
int disk_quota_image_grow(const struct disk_quota_job *job, const struct disk_quota_limit *limit,
                          struct err *err)
{
    struct stat st;
    AUTO_CLOSE int dir = -1;
    AUTO_CLOSE int image = SYS(openat(job->box_fd, IMAGE, O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (image < 0 || SYS(fstat(image, &st)) < 0)
        return err_sys(err, errno, "open '%s'", IMAGE);
    AUTO_CLOSE int device = open_device(job, &dir, err);
    if (device < 0)
        return -1;
    if (limit->bytes < job->limit.bytes)
        return err_set(err, ERR_UNSUPPORTED, "a filesystem image cannot become smaller");
    /* To the size it has: whether we may, before anything changes. */
    if (resize_filesystem(dir, st.st_size, err) < 0)
        return -1;
    int64_t wanted = MAX(image_bytes(limit), (int64_t)st.st_size);
    if (SYS(ftruncate(image, wanted)) < 0)
        return err_sys(err, errno, "size '%s'", IMAGE);
    CRASH_POINT("quota.grown");
    if (SYS(ioctl(device, LOOP_SET_CAPACITY, 0)) < 0)
        return err_sys(err, errno, "size the loop device");
    return resize_filesystem(dir, wanted, err);
}
