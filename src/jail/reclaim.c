#include "jail/reclaim.h"

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
#include "jail/cgroup_internal.h"

#define CORNER_PREFIX "sandglass-"
#define LEAF_SUFFIX "-maker" /* where a maker sits that had to leave its own group */

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

/* Its jails died with their maker; killed processes need a moment to leave. */
static bool remove_corner(int parent_fd, const char *name, int fd)
{
    struct err unused;
    (void)!cgroup_write_text(fd, "cgroup.kill", "1", &unused); /* the unified tree has it */
    for (int i = 0; i < LEAVE_TRIES; i++) {
        remove_groups(fd, 0);
        if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return true;
        if (errno != EBUSY)
            return false;
        (void)usleep(LOCK_PAUSE_US);
    }
    return false;
}

static bool is_leaf(const char *name)
{
    return str_ends(str_of(name), STR(LEAF_SUFFIX));
}

/* A leaf is its corner's: it goes when the corner is gone, and is nobody's to kill. */
static void remove_leaf(int parent_fd, const char *name)
{
    char corner[CGROUP_NAME_SIZE + sizeof LEAF_SUFFIX];
    struct stat st;
    (void)snprintf(corner, sizeof corner, "%.*s", (int)(strlen(name) - strlen(LEAF_SUFFIX)), name);
    if (fstatat(parent_fd, corner, &st, 0) < 0 && errno == ENOENT)
        (void)unlinkat(parent_fd, name, AT_REMOVEDIR);
}

static void reclaim_one(int parent_fd, const char *name, bool is_locked,
                        struct reclaimed *reclaimed)
{
    struct stat st;
    AUTO_CLOSE int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0)
        return;
    /* Without the lock a young corner may be one that its maker has not come to locking yet. */
    if ((!is_locked && time(NULL) - st.st_ctime < YOUNG_S) || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return;
    if (remove_corner(parent_fd, name, fd))
        reclaimed->corners++;
    else
        reclaimed->busy++;
}

static void each_name(int parent_fd, bool leaves, bool is_locked, struct reclaimed *reclaimed)
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
            reclaim_one(parent_fd, entry->d_name, is_locked, reclaimed);
    }
    if (dir != NULL)
        (void)closedir(dir);
}

void reclaim_corners(int parent_fd, bool is_locked, struct reclaimed *reclaimed)
{
    each_name(parent_fd, false, is_locked, reclaimed);
    each_name(parent_fd, true, is_locked, reclaimed);
}

int jail_reclaim(struct reclaimed *ret_reclaimed, struct err *err)
{
    struct cgroup_layout layout;
    struct reclaimed reclaimed = {0};
    if (cgroup_read_layout(&layout, err) < 0)
        return -1;
    for (int slot = 0; slot < CG_COUNT; slot++) {
        AUTO_CLOSE int fd = layout.slots[slot].version == 0
                                ? -1
                                : open(layout.slots[slot].dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            continue; /* nobody of ours can have made one there */
        bool is_locked = reclaim_lock(fd);
        reclaim_corners(fd, is_locked, &reclaimed);
        if (is_locked)
            reclaim_unlock(fd);
    }
    *ret_reclaimed = reclaimed;
    return 0;
}
