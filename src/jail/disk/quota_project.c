/* Project quotas: the filesystem counts what belongs to a number. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/quota.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fd.h"
#include "jail/disk/quota_internal.h"
#include "jail/wire/linux.h"

#ifndef PRJQUOTA
#define PRJQUOTA 2
#endif

enum { PROJECT_FIRST = 0x53470000, PROJECT_SPAN = 0xffff, PROJECT_TRIES = 64, BLOCK = 1024 };

static long disk_quota_call(int fd, int command, uint32_t project, struct dqblk *quota)
{
    unsigned word = (unsigned)command << SUBCMDSHIFT | PRJQUOTA; /* QCMD shifts into the sign */
    return SYS(syscall(SYS_quotactl_fd, fd, word, project, quota));
}

/* A project without files and limits. */
static int find_project(int fd, uint32_t *ret_project, struct err *err)
{
    struct stat st;
    if (SYS(fstat(fd, &st)) < 0)
        return err_sys(err, errno, "stat");
    uint32_t first = PROJECT_FIRST + (uint32_t)(st.st_ino % PROJECT_SPAN);
    for (uint32_t i = 0; i < PROJECT_TRIES; i++) {
        struct dqblk quota = {0};
        if (disk_quota_call(fd, Q_GETQUOTA, first + i, &quota) < 0 && errno != ENOENT)
            return err_set(err, ERR_UNSUPPORTED, "%s",
                           errno == EPERM ? "project quotas need root"
                                          : "the filesystem has no project quotas");
        if (quota.dqb_curspace == 0 && quota.dqb_bhardlimit == 0 && quota.dqb_ihardlimit == 0) {
            *ret_project = first + i;
            return 0;
        }
    }
    return err_set(err, ERR_LIMIT, "no free project id");
}

int disk_quota_project_limit(int fd, uint32_t project, int64_t bytes, int64_t inodes,
                             struct err *err)
{
    struct dqblk quota = {.dqb_bhardlimit = ((uint64_t)bytes + BLOCK - 1) / BLOCK,
                          .dqb_ihardlimit = (uint64_t)inodes,
                          .dqb_valid = QIF_BLIMITS | QIF_ILIMITS};
    if (disk_quota_call(fd, Q_SETQUOTA, project, &quota) < 0)
        return err_sys(err, errno, "limit project %u", project);
    return 0;
}

/* The limit first: nothing can be written in between without being counted. */
static int mark(int fd, uint32_t project, const struct disk_quota_limit *limit, struct err *err)
{
    struct fsxattr attr;
    if (SYS(ioctl(fd, FS_IOC_FSGETXATTR, &attr)) < 0)
        return err_sys(err, errno, "read the project");
    attr.fsx_projid = project;
    attr.fsx_xflags |= FS_XFLAG_PROJINHERIT;
    if (disk_quota_project_limit(fd, project, limit->bytes, limit->inodes, err) < 0)
        return -1;
    if (SYS(ioctl(fd, FS_IOC_FSSETXATTR, &attr)) == 0)
        return 0;
    int code = errno;
    (void)disk_quota_project_limit(fd, project, 0, 0, &(struct err){0});
    return err_sys(err, code, "set the project");
}

int disk_quota_project_attach(struct disk_quota_job *job, struct err *err)
{
    AUTO_CLOSE int fd =
        SYS(openat(job->box_fd, job->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", job->name);
    if (find_project(fd, &job->project, err) < 0)
        return -1;
    return mark(fd, job->project, &job->limit, err);
}

int disk_quota_project_use(int fd, uint32_t project, struct disk_quota_use *use, struct err *err)
{
    struct dqblk quota = {0};
    if (disk_quota_call(fd, Q_GETQUOTA, project, &quota) < 0)
        return err_sys(err, errno, "read project %u", project);
    use->used_bytes = (int64_t)quota.dqb_curspace;
    use->used_inodes = (int64_t)quota.dqb_curinodes;
    return 0;
}

int disk_quota_project_resize(int fd, uint32_t project, const struct disk_quota_limit *limit,
                              struct err *err)
{
    struct disk_quota_use use = {0};
    if (disk_quota_project_use(fd, project, &use, err) < 0)
        return -1;
    if (use.used_bytes > limit->bytes || use.used_inodes > limit->inodes)
        return err_set(err, ERR_CONFLICT, "more than the new limit is already in use");
    return disk_quota_project_limit(fd, project, limit->bytes, limit->inodes, err);
}

static bool is_empty(int dir_fd)
{
    AUTO_CLOSE int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    int count = 0;
    if (dir == NULL)
        return false;
    (void)fd_take(&copy); /* the stream's now */
    while (count <= 2 && readdir(dir) != NULL)
        count++;
    (void)closedir(dir);
    return count <= 2; /* itself and its parent */
}

/* One that we marked before counts everything in it. */
static bool disk_quota_project_is_ours(const struct fsxattr *attr)
{
    return (attr->fsx_xflags & FS_XFLAG_PROJINHERIT) != 0 && attr->fsx_projid >= PROJECT_FIRST &&
           attr->fsx_projid < PROJECT_FIRST + PROJECT_SPAN + PROJECT_TRIES;
}

static int hold_open(int fd, const struct disk_quota_limit *limit, uint32_t *ret_project,
                     struct err *err)
{
    struct fsxattr attr;
    if (SYS(flock(fd, LOCK_EX | LOCK_NB)) < 0)
        return err_set(err, ERR_BUSY, "another process is setting its limit");
    if (find_project(fd, ret_project, err) < 0)
        return -1;
    if (SYS(ioctl(fd, FS_IOC_FSGETXATTR, &attr)) < 0)
        return err_sys(err, errno, "read the project");
    if (disk_quota_project_is_ours(&attr)) {
        *ret_project = attr.fsx_projid;
        return disk_quota_project_limit(fd, attr.fsx_projid, limit->bytes, limit->inodes, err);
    }
    if (!is_empty(fd))
        return err_set(
            err, ERR_CONFLICT,
            "the directory contains files that the quota does not count; use an empty directory");
    return mark(fd, *ret_project, limit, err);
}

int disk_quota_hold(const char *path, const struct disk_quota_limit *limit,
                    struct disk_quota_hold *ret_hold, struct err *err)
{
    struct disk_quota_hold hold = {0};
    AUTO_CLOSE int fd = SYS(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd < 0)
        return err_sys(err, errno, "open it as a directory");
    if (hold_open(fd, limit, &hold.project, err) < 0)
        return -1;
    hold.fd = fd_take(&fd);
    *ret_hold = hold;
    return 0;
}

void disk_quota_let_go(struct disk_quota_hold *hold)
{
    if (hold->fd > 0)
        (void)disk_quota_project_limit(hold->fd, hold->project, 0, 0, &(struct err){0});
    fd_close(&hold->fd);
}
