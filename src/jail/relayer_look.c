/* Who in a jail keeps its root from being exchanged. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/fd.h"
#include "jail/kernel.h"
#include "jail/relayer_internal.h"

/* Anywhere on the old root but at its top, which moves by itself. */
static bool stands_inside(const struct relayer_job *job, int proc_fd, const char *pid)
{
    char path[300];
    struct statx st, top;
    (void)snprintf(path, sizeof path, "%.200s/cwd", pid);
    if (k_statx(proc_fd, path, 0, STATX_MNT_ID | STATX_INO, &st) < 0 ||
        k_statx(job->old_fd, "", AT_EMPTY_PATH, STATX_INO, &top) < 0)
        return false; /* it has ended */
    return st.stx_mnt_id == job->old_mount && st.stx_ino != top.stx_ino;
}

/* What a tenant calls itself, fit for a message. */
static void read_name(int proc_fd, const char *pid, char out[32])
{
    char path[300];
    (void)snprintf(path, sizeof path, "%.200s/comm", pid);
    AUTO_CLOSE int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, out, 31);
    out[len > 0 ? len - 1 : 0] = '\0'; /* without the end of its line */
    for (char *c = out; *c != '\0'; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
}

static int check_process(struct relayer_job *job, int proc_fd, const char *pid, struct err *err)
{
    char name[32];
    job->others |= strcmp(pid, "1") != 0;
    if (job->others && job->seal != NULL)
        return err_set(err, ERR_BUSY, "commands are running");
    if (job->others && !job->frozen)
        return err_set(err, ERR_UNSUPPORTED,
                       "commands are running and this host cannot freeze them for the moment");
    if (!stands_inside(job, proc_fd, pid))
        return 0;
    read_name(proc_fd, pid, name);
    return err_set(err, ERR_BUSY,
                   "'%s' (process %.10s) works in a directory of the layer; end it, or start it "
                   "with a volume or '/' as its working directory",
                   name, pid);
}

typedef int process_check(struct relayer_job *job, int proc_fd, const char *pid, struct err *err);

static int each_process(struct relayer_job *job, process_check *check, struct err *err)
{
    AUTO_CLOSE int proc = SYS(openat(job->old_fd, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    AUTO_CLOSE int copy = proc < 0 ? -1 : fcntl(proc, F_DUPFD_CLOEXEC, 0);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (dir == NULL)
        return err_sys(err, errno, "read the jail's /proc");
    (void)fd_take(&copy); /* the stream's now */
    int done = 0;
    for (struct dirent *entry; done == 0 && (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
            done = check(job, proc, entry->d_name, err);
    (void)closedir(dir);
    return done;
}

/* Whether this entry of fdinfo is open for writing on the old root. */
static bool is_written(const struct relayer_job *job, int dir_fd, const char *name)
{
    char text[256];
    AUTO_CLOSE int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    text[len > 0 ? len : 0] = '\0';
    const char *flags = strstr(text, "flags:"), *mount = strstr(text, "mnt_id:");
    return flags != NULL && mount != NULL &&
           (strtoul(flags + 6, NULL, 8) & O_ACCMODE) != O_RDONLY &&
           strtoull(mount + 7, NULL, 10) == job->old_mount;
}

/* Fails with its name if it is a process that keeps the layer from being frozen. */
static int name_writer(struct relayer_job *job, int proc_fd, const char *pid, struct err *err)
{
    char path[300], name[32];
    (void)snprintf(path, sizeof path, "%.200s/fdinfo", pid);
    int fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    bool found = false;
    if (dir == NULL) {
        fd_close(&fd);
        return 0;
    }
    for (struct dirent *entry; !found && (entry = readdir(dir)) != NULL;)
        found = entry->d_name[0] != '.' && is_written(job, dirfd(dir), entry->d_name);
    (void)closedir(dir);
    if (!found)
        return 0;
    read_name(proc_fd, pid, name);
    return err_set(err, ERR_BUSY,
                   "'%s' (process %.10s) has a file of the layer open for writing; let it finish, "
                   "end it, or let it write to a volume or below /tmp",
                   name, pid);
}

/* On this mount, the only one there is: the kernel refuses while a file is open for writing. */
int relayer_stop_writes(struct relayer_job *job, struct err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    if (k_mount_setattr(job->old_fd, AT_EMPTY_PATH, &attr) == 0) {
        job->read_only = true;
        return 0;
    }
    if (errno != EBUSY)
        return err_sys(err, errno, "stop writes to the layer");
    if (each_process(job, name_writer, err) < 0)
        return -1;
    return err_set(err, ERR_BUSY,
                   "a command has a file of the layer open for writing; let it finish, end it, or "
                   "let it write to a volume or below /tmp");
}

int relayer_check_processes(struct relayer_job *job, struct err *err)
{
    return each_process(job, check_process, err);
}
