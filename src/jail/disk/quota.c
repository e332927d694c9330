#include "jail/disk/quota.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/disk/quota_internal.h"
#include "jail/wire/linux.h"

/* <sys/mount.h> and <linux/mount.h> cannot be read together with glibc 2.36. */
extern int umount2(const char *target, int flags);
enum { NO_LINKS = 8 };

static const char *const names[] = {[DISK_QUOTA_AUTO] = "auto",
                                    [DISK_QUOTA_PROJECT] = "project",
                                    [DISK_QUOTA_IMAGE] = "image",
                                    [DISK_QUOTA_MEMORY] = "memory"};

const char *disk_quota_method_name(enum disk_quota_method method)
{
    return names[method];
}

static int attach_memory(struct disk_quota_job *job, struct err *err)
{
    char size[32], inodes[32];
    AUTO_CLOSE int fs = k_fsopen("tmpfs");
    (void)snprintf(size, sizeof size, "%lld", (long long)job->limit.bytes);
    (void)snprintf(inodes, sizeof inodes, "%lld", (long long)job->limit.inodes);
    if (fs < 0 || k_fsconfig(fs, FSCONFIG_SET_STRING, "size", size) < 0 ||
        k_fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", inodes) < 0 ||
        k_fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0700") < 0 ||
        k_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
        return err_sys(err, errno, "make a tmpfs");
    AUTO_CLOSE int mount = k_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (mount < 0)
        return err_sys(err, errno, "mount a tmpfs");
    return disk_quota_mount_at(job, mount, err);
}

int disk_quota_mount_at(const struct disk_quota_job *job, int mount, struct err *err)
{
    AUTO_CLOSE int target =
        SYS(openat(job->box_fd, job->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (target < 0 || k_move_mount(mount, target) < 0)
        return err_sys(err, errno, "mount at '%s'", job->name);
    return 0;
}

static const struct {
    enum disk_quota_method method;
    int (*attach)(struct disk_quota_job *job, struct err *err);
    bool keeps; /* survives a reboot */
} ways[] = {
    {DISK_QUOTA_PROJECT, disk_quota_project_attach, true},
    {DISK_QUOTA_IMAGE, disk_quota_image_attach, true},
    {DISK_QUOTA_MEMORY, attach_memory, false},
};

static int try_ways(struct disk_quota_job *job, struct err *err)
{
    AUTO_BUF struct buf reasons = buf_with_limit(4096);
    for (size_t i = 0; i < countof(ways); i++) {
        struct err why = {0};
        if (job->limit.method != DISK_QUOTA_AUTO && job->limit.method != ways[i].method)
            continue;
        if (!ways[i].keeps && !job->limit.ephemeral)
            continue;
        job->method = ways[i].method;
        if (ways[i].attach(job, &why) == 0)
            return 0;
        buf_printf(&reasons, "%s%s: %.70s", reasons.len > 0 ? "; " : "",
                   disk_quota_method_name(ways[i].method), why.msg);
    }
    return err_set(
        err, ERR_UNSUPPORTED,
        "this host cannot limit a directory's size (%.150s); 'sandglass doctor' shows details",
        buf_cstr(&reasons));
}

static int write_record(const struct disk_quota_job *job, struct err *err)
{
    char text[128];
    (void)snprintf(text, sizeof text, "%s %lld %lld %u\n", disk_quota_method_name(job->method),
                   (long long)job->limit.bytes, (long long)job->limit.inodes, job->project);
    AUTO_CLOSE int fd = SYS(
        openat(job->box_fd, ".quota", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (fd < 0)
        return err_sys(err, errno, "write 'quota'");
    if (fd_write_all(fd, str_of(text), err) < 0)
        return -1;
    if (SYS(renameat(job->box_fd, ".quota", job->box_fd, "quota")) < 0)
        return err_sys(err, errno, "write 'quota'");
    return 0;
}

static bool next_number(struct str *rest, int64_t *ret_number)
{
    struct str word;
    return str_split(rest, ' ', &word) && str_to_i64(word, 0, INT64_MAX, ret_number);
}

/* Sets *ret_found to false, without an error, if no record exists. */
static int read_record(struct disk_quota_job *job, bool *ret_found, struct err *err)
{
    AUTO_BUF struct buf text = buf_with_limit(256);
    AUTO_CLOSE int fd = SYS(openat(job->box_fd, "quota", O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    *ret_found = fd >= 0;
    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(err, errno, "open 'quota'");
    if (buf_read_all(&text, fd, err) < 0)
        return -1;
    struct str rest = str_trim(buf_str(&text)), word;
    int64_t project = 0;
    job->method = DISK_QUOTA_AUTO;
    if (str_split(&rest, ' ', &word))
        for (size_t i = 0; i < countof(ways); i++)
            if (str_eq(word, str_of(disk_quota_method_name(ways[i].method))))
                job->method = ways[i].method;
    if (job->method == DISK_QUOTA_AUTO || !next_number(&rest, &job->limit.bytes) ||
        !next_number(&rest, &job->limit.inodes) || !next_number(&rest, &project))
        return err_set(err, ERR_INTERNAL, "the file 'quota' is malformed; the data is damaged");
    job->project = (uint32_t)project;
    return 0;
}

static int check_limit(const struct disk_quota_limit *limit, struct err *err)
{
    if (limit->bytes < DISK_QUOTA_BYTES_MIN || limit->inodes < DISK_QUOTA_INODES_MIN)
        return err_set(err, ERR_INVALID, "a disk limit is at least %d bytes and %d files",
                       DISK_QUOTA_BYTES_MIN, DISK_QUOTA_INODES_MIN);
    return 0;
}

/* A directory on which something is mounted. */
static bool is_mounted(const struct disk_quota_job *job)
{
    struct statx st;
    return statx(job->box_fd, job->name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, 0, &st) == 0 &&
           (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

/* The way leads through a descriptor: no path on the host is walked again. */
static int unmount(const struct disk_quota_job *job, struct err *err)
{
    char path[300];
    if (!is_mounted(job))
        return 0;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d/%.200s", job->box_fd, job->name);
    int done = SYS(umount2(path, NO_LINKS));
    if (done < 0 && errno == EBUSY)
        return err_set(err, ERR_BUSY, "'%s' is in use", job->name);
    if (done < 0)
        return err_sys(err, errno, "unmount '%s'", job->name);
    return 0;
}

static int disk_quota_undo(const struct disk_quota_job *job, struct err *err)
{
    if (job->method != DISK_QUOTA_PROJECT)
        return unmount(job, err);
    AUTO_CLOSE int fd =
        SYS(openat(job->box_fd, job->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", job->name);
    return disk_quota_project_limit(fd, job->project, 0, 0, err);
}

int disk_quota_attach(int box_fd, const char *name, int cache_fd,
                      const struct disk_quota_limit *limit, enum disk_quota_method *ret_method,
                      struct err *err)
{
    struct disk_quota_job job = {
        .box_fd = box_fd, .name = name, .cache_fd = cache_fd, .limit = *limit};
    if (check_limit(limit, err) < 0 || try_ways(&job, err) < 0)
        return -1;
    CRASH_POINT("quota.attached");
    if (write_record(&job, err) < 0) {
        (void)disk_quota_undo(&job, &(struct err){0});
        return -1;
    }
    *ret_method = job.method;
    return 0;
}

int disk_quota_resume(int box_fd, const char *name, bool *ret_limited, struct err *err)
{
    struct disk_quota_job job = {.box_fd = box_fd, .name = name, .cache_fd = -1};
    bool found;
    if (read_record(&job, &found, err) < 0)
        return -1;
    *ret_limited = found;
    if (!found || job.method == DISK_QUOTA_PROJECT || is_mounted(&job))
        return 0;
    if (job.method == DISK_QUOTA_MEMORY)
        return attach_memory(&job, err);
    return disk_quota_image_mount(&job, err);
}

static int open_limited(const struct disk_quota_job *job, struct err *err)
{
    int fd = SYS(openat(job->box_fd, job->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", job->name);
    if (job->method == DISK_QUOTA_PROJECT || is_mounted(job))
        return fd;
    fd_close(&fd);
    return err_set(err, ERR_UNAVAILABLE, "'%s' is not mounted", job->name);
}

/* The kernel refuses to make it smaller than what is in it. */
static int resize_memory(int fd, const struct disk_quota_limit *limit, struct err *err)
{
    char size[32], inodes[32];
    (void)snprintf(size, sizeof size, "%lld", (long long)limit->bytes);
    (void)snprintf(inodes, sizeof inodes, "%lld", (long long)limit->inodes);
    AUTO_CLOSE int fs = k_fspick(fd);
    if (fs < 0)
        return err_sys(err, errno, "pick the tmpfs");
    if (k_fsconfig(fs, FSCONFIG_SET_STRING, "size", size) < 0 ||
        k_fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", inodes) < 0)
        return err_sys(err, errno, "size the tmpfs");
    if (k_fsconfig(fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL) == 0)
        return 0;
    if (errno == EINVAL)
        return err_set(err, ERR_CONFLICT, "more than the new limit is already in use");
    return err_sys(err, errno, "size the tmpfs");
}

int disk_quota_resize(int box_fd, const char *name, const struct disk_quota_limit *limit,
                      struct err *err)
{
    struct disk_quota_job job = {.box_fd = box_fd, .name = name, .cache_fd = -1};
    bool found;
    if (check_limit(limit, err) < 0 || read_record(&job, &found, err) < 0)
        return -1;
    if (!found)
        return err_set(err, ERR_NOT_FOUND, "'%s' has no limit", name);
    AUTO_CLOSE int fd = open_limited(&job, err);
    if (fd < 0)
        return -1;
    int done = job.method == DISK_QUOTA_PROJECT
                   ? disk_quota_project_resize(fd, job.project, limit, err)
               : job.method == DISK_QUOTA_MEMORY ? resize_memory(fd, limit, err)
                                                 : disk_quota_image_grow(&job, limit, err);
    if (done < 0)
        return err_wrap(err, "size '%s'", name);
    CRASH_POINT("quota.resized");
    job.limit.bytes = limit->bytes;
    job.limit.inodes = limit->inodes;
    return write_record(&job, err);
}

int disk_quota_stat(int box_fd, const char *name, struct disk_quota_use *ret_use, struct err *err)
{
    struct disk_quota_job job = {.box_fd = box_fd, .name = name, .cache_fd = -1};
    struct disk_quota_use use = {.bytes = -1, .used_bytes = -1, .inodes = -1, .used_inodes = -1};
    struct statvfs st;
    bool found;
    if (read_record(&job, &found, err) < 0)
        return -1;
    if (found) {
        AUTO_CLOSE int fd = open_limited(&job, err);
        if (fd < 0)
            return -1;
        use = (struct disk_quota_use){
            .method = job.method, .bytes = job.limit.bytes, .inodes = job.limit.inodes};
        if (job.method == DISK_QUOTA_PROJECT &&
            disk_quota_project_use(fd, job.project, &use, err) < 0)
            return -1;
        if (job.method != DISK_QUOTA_PROJECT) {
            if (SYS(fstatvfs(fd, &st)) < 0)
                return err_sys(err, errno, "inspect '%s'", name);
            use.used_bytes = (int64_t)((st.f_blocks - st.f_bfree) * st.f_frsize);
            use.used_inodes = (int64_t)(st.f_files - st.f_ffree);
        }
    }
    *ret_use = use;
    return 0;
}

int disk_quota_rest(int box_fd, const char *name, struct err *err)
{
    struct disk_quota_job job = {.box_fd = box_fd, .name = name, .cache_fd = -1};
    bool found;
    if (read_record(&job, &found, err) < 0)
        return -1;
    /* Files in memory would be lost. */
    return found && job.method == DISK_QUOTA_IMAGE ? unmount(&job, err) : 0;
}

int disk_quota_detach(int box_fd, const char *name, struct err *err)
{
    struct disk_quota_job job = {.box_fd = box_fd, .name = name, .cache_fd = -1};
    bool found;
    /* A crash between mount and record leaves a mount without a record: it is unmounted, too. */
    if (read_record(&job, &found, err) < 0)
        return -1;
    if (!found)
        return unmount(&job, err);
    return disk_quota_undo(&job, err);
}
