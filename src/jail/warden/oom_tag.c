#include "jail/wire/oom_tag.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "jail/wire/linux.h"

static bool namespace_of(int proc_fd, pid_t pid, struct stat *ret)
{
    char path[32];
    (void)snprintf(path, sizeof path, "%d/ns/pid", (int)pid);
    return fstatat(proc_fd, path, ret, 0) == 0;
}

static bool has_mark(int proc_fd, pid_t pid, int mark)
{
    char path[32], text[16];
    (void)snprintf(path, sizeof path, "%d/oom_score_adj", (int)pid);
    AUTO_CLOSE int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text);
    int64_t score;
    return got > 0 && str_to_i64(str_trim(str_n(text, (size_t)got)), -1000, 1000, &score) &&
           score == mark;
}

/* The descriptor is opened first: what is looked at then is what is killed, whatever becomes of the
 * number. */
static bool kill_one(int proc_fd, pid_t pid, const struct stat *space, int mark)
{
    struct stat st;
    AUTO_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0 || !namespace_of(proc_fd, pid, &st) || st.st_ino != space->st_ino ||
        st.st_dev != space->st_dev || !has_mark(proc_fd, pid, mark))
        return false;
    return k_pidfd_send_signal(pidfd, SIGKILL) == 0;
}

int oom_tag_kill(int proc_fd, pid_t init, int mark)
{
    struct stat space;
    int count = 0;
    DIR *dir = fdopendir(openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct dirent *entry;
    if (!namespace_of(proc_fd, init, &space)) {
        if (dir != NULL)
            (void)closedir(dir);
        return 0;
    }
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        int64_t pid;
        if (str_to_i64(str_of(entry->d_name), 1, INT32_MAX, &pid) && pid != init)
            count += kill_one(proc_fd, (pid_t)pid, &space, mark);
    }
    if (dir != NULL)
        (void)closedir(dir);
    return count;
}
