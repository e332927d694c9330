#include "jail/cgroup/reclaim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "jail/cgroup/cgroup_internal.h"

#define CORNER_PREFIX "sandglass-"
#define LEAF_SUFFIX "-server" /* the group of the processes that cgroup_choose_parent moved */

enum { YOUNG_S = 10, LOCK_TRIES = 100, LOCK_PAUSE_US = 10000, LEAVE_TRIES = 200, DEPTH_MAX = 4 };

bool reclaim_lock(int parent_fd)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(parent_fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return false;
        (void)usleep(LOCK_PAUSE_US);
    }
    return false;
}

void reclaim_unlock(int parent_fd)
{
    (void)flock(parent_fd, LOCK_UN);
}

/* Removes the groups in `fd`, deepest first. */
static void remove_groups(int fd, int depth)
{
    DIR *dir = fdopendir(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        AUTO_CLOSE int inner = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (inner >= 0 && depth < DEPTH_MAX)
            remove_groups(inner, depth + 1);
        (void)unlinkat(fd, entry->d_name, AT_REMOVEDIR);
    }
    if (dir != NULL)
        (void)closedir(dir);
}

/* Its jails died with their warden; killed processes need a moment to leave. */
static void remove_corner(int parent_fd, const char *name, int fd)
{
    struct err unused;
    (void)!cgroup_write_text(fd, "cgroup.kill", "1", &unused); /* the unified tree has it */
    for (int i = 0; i < LEAVE_TRIES; i++) {
        remove_groups(fd, 0);
        if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno != EBUSY)
            return;
        (void)usleep(LOCK_PAUSE_US);
    }
}

static bool is_leaf(const char *name)
{
    return str_ends(str_of(name), STR(LEAF_SUFFIX));
}

/* A leaf belongs to its corner: it is removed when the corner is gone, and never killed. */
static void remove_leaf(int parent_fd, const char *name)
{
    char corner[CGROUP_NAME_SIZE + sizeof LEAF_SUFFIX];
    struct stat st;
    (void)snprintf(corner, sizeof corner, "%.*s", (int)(strlen(name) - strlen(LEAF_SUFFIX)), name);
    if (fstatat(parent_fd, corner, &st, 0) < 0 && errno == ENOENT)
        (void)unlinkat(parent_fd, name, AT_REMOVEDIR);
}

static void reclaim_one(int parent_fd, const char *name, bool is_locked)
{
    struct stat st;
    AUTO_CLOSE int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0)
        return;
    /* Without the lock a young corner may be one that its warden has not come to locking yet. */
    if ((!is_locked && time(NULL) - st.st_ctime < YOUNG_S) || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return;
    remove_corner(parent_fd, name, fd);
}

static void each_name(int parent_fd, bool leaves, bool is_locked)
{
    DIR *dir = fdopendir(openat(parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (!str_starts(str_of(entry->d_name), STR(CORNER_PREFIX)) ||
            is_leaf(entry->d_name) != leaves)
            continue;
        if (leaves)
            remove_leaf(parent_fd, entry->d_name);
        else
            reclaim_one(parent_fd, entry->d_name, is_locked);
    }
    if (dir != NULL)
        (void)closedir(dir);
}

void reclaim_corners(int parent_fd, bool is_locked)
{
    each_name(parent_fd, false, is_locked);
    each_name(parent_fd, true, is_locked);
}
