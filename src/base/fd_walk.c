/* openat2 by hand, for kernels without it.
 *
 * One component at a time, each opened with O_NOFOLLOW from the directory before it, so that a
 * directory swapped for a link is refused and never followed. Links are read and spliced into the
 * rest of the path; a magic link of /proc is thereby mere text. ".." never asks the kernel, whose
 * answer a concurrent rename could move out of the tree: the names walked so far are kept, and the
 * shorter path is walked again from the root. */

#include "base/fd_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"

enum { LINKS_MAX = 40, REST_MAX = 2 * PATH_MAX, NAME_STEP = NAME_MAX + 1 };

struct walk {
    int root_fd;
    unsigned how;
    int links;
    int at;              /* the directory reached, an O_PATH descriptor of ours */
    char done[PATH_MAX]; /* the names that led there, "a/b" */
    char rest[REST_MAX]; /* what is still to go */
};

static int fd_walk_fail(int code)
{
    errno = code;
    return -1;
}

/* struct statx as the kernel writes it, as far as we look: libc headers differ in what they know.
 */
struct mount_info {
    uint32_t mask;
    char other[140];
    uint64_t mount_id;
    char unused[104];
};
enum { HAS_MOUNT_ID = 0x1000 };

/* True when both lie in the same mount; false when in doubt. */
static bool is_same_mount(int a, int b)
{
    struct stat st_a, st_b;
    if (SYS(fstat(a, &st_a)) < 0 || fstat(b, &st_b) < 0 || st_a.st_dev != st_b.st_dev)
        return false;
    /* A bind mount has the same device; only the mount id tells. Old kernels have none to give. */
    struct mount_info info_a = {0}, info_b = {0};
    long got_a = syscall(SYS_statx, a, "", AT_EMPTY_PATH, HAS_MOUNT_ID, &info_a);
    long got_b = syscall(SYS_statx, b, "", AT_EMPTY_PATH, HAS_MOUNT_ID, &info_b);
    if (got_a < 0 || got_b < 0 || (info_a.mask & info_b.mask & HAS_MOUNT_ID) == 0)
        return true;
    return info_a.mount_id == info_b.mount_id;
}

static int fd_walk_enter(struct walk *walk, int fd)
{
    if ((walk->how & FD_NO_XDEV) != 0 && !is_same_mount(walk->root_fd, fd)) {
        fd_close(&fd);
        return fd_walk_fail(EXDEV);
    }
    fd_close(&walk->at);
    walk->at = fd;
    return 0;
}

static int to_root(struct walk *walk)
{
    walk->done[0] = '\0';
    int fd = SYS(openat(walk->root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    return fd < 0 ? -1 : fd_walk_enter(walk, fd);
}

/* The names in `done` were directories a moment ago; anything else now is a race. */
static int walk_again(struct walk *walk)
{
    char names[PATH_MAX];
    memcpy(names, walk->done, sizeof names);
    if (to_root(walk) < 0)
        return -1;
    memcpy(walk->done, names, sizeof names);
    struct str rest = str_of(names), name;
    while (names[0] != '\0' && str_split(&rest, '/', &name)) {
        char step[NAME_STEP];
        (void)snprintf(step, sizeof step, "%.*s", STR_ARG(name));
        int fd = SYS(openat(walk->at, step, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (fd < 0)
            return fd_walk_fail(EAGAIN);
        if (fd_walk_enter(walk, fd) < 0)
            return -1;
    }
    return 0;
}

static int go_up(struct walk *walk)
{
    if (walk->done[0] == '\0')
        return (walk->how & FD_IN_ROOT) != 0 ? 0 : fd_walk_fail(EXDEV);
    char *slash = strrchr(walk->done, '/');
    *(slash == NULL ? walk->done : slash) = '\0';
    return walk_again(walk);
}

/* Magic links show an absolute path or "pipe:[7]"; the plain ones of /proc are relative. */
static bool is_magic(int dir_fd, const char *target)
{
    struct statfs fs;
    if (SYS(fstatfs(dir_fd, &fs)) < 0)
        return true;
    return fs.f_type == PROC_SUPER_MAGIC && (target[0] == '/' || strstr(target, ":[") != NULL);
}

/* Puts the target of the link `name` before the rest of the path. With `is_last` no slash follows
 * it: "target/" would ask for a directory. */
static int splice_link(struct walk *walk, const char *name, bool is_last)
{
    char target[PATH_MAX], longer[REST_MAX];
    ssize_t len = SYS(readlinkat(walk->at, name, target, sizeof target - 1));
    if (len <= 0)
        return fd_walk_fail(EAGAIN);
    target[len] = '\0';
    if ((walk->how & FD_NO_LINKS) != 0 || ++walk->links > LINKS_MAX || is_magic(walk->at, target))
        return fd_walk_fail(ELOOP);
    int need = snprintf(longer, sizeof longer, "%s/%s", target, walk->rest);
    if (need < 0 || (size_t)need >= sizeof longer)
        return fd_walk_fail(ENAMETOOLONG);
    if (is_last)
        longer[need - 1] = '\0';
    memcpy(walk->rest, longer, sizeof longer);
    if (target[0] != '/')
        return 0;
    return (walk->how & FD_IN_ROOT) != 0 ? to_root(walk) : fd_walk_fail(EXDEV);
}

static int step_into(struct walk *walk, const char *name)
{
    AUTO_CLOSE int fd = SYS(openat(walk->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat st;
    if (fd < 0 || SYS(fstat(fd, &st)) < 0)
        return -1;
    if (S_ISLNK(st.st_mode))
        return splice_link(walk, name, false);
    if (!S_ISDIR(st.st_mode))
        return fd_walk_fail(ENOTDIR);
    size_t used = strlen(walk->done);
    int need =
        snprintf(walk->done + used, sizeof walk->done - used, "%s%s", used > 0 ? "/" : "", name);
    if (need < 0 || (size_t)need >= sizeof walk->done - used)
        return fd_walk_fail(ENAMETOOLONG);
    return fd_walk_enter(walk, fd_take(&fd));
}

/* Cuts the first component off the rest; says whether it was the last one. Slashes behind it stay
 * as a trace of "must be a directory". */
static int next_name(struct walk *walk, char name[NAME_STEP], bool *ret_last)
{
    size_t from = strspn(walk->rest, "/");
    size_t len = strcspn(walk->rest + from, "/");
    if (len > NAME_MAX)
        return fd_walk_fail(ENAMETOOLONG);
    memcpy(name, walk->rest + from, len);
    name[len] = '\0';
    const char *behind = walk->rest + from + len;
    *ret_last = *behind == '\0';
    size_t skip = strspn(behind, "/");
    memmove(walk->rest, behind + skip, strlen(behind + skip) + 1);
    return 0;
}

/* 1 when the last component turned out to be a link, now part of the rest. */
static int open_last(struct walk *walk, const char *name, int flags, mode_t mode, int *ret_fd)
{
    char first;
    bool follows = (flags & O_NOFOLLOW) == 0 && (flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL);
    if (follows && readlinkat(walk->at, name, &first, 1) == 1)
        return splice_link(walk, name, true) < 0 ? -1 : 1;
    int fd = SYS(openat(walk->at, name, flags | O_NOFOLLOW, mode));
    if (fd < 0)
        return errno == ELOOP && follows ? fd_walk_fail(EAGAIN) : -1;
    struct stat st;
    bool is_race = follows && (flags & O_PATH) != 0 && fstat(fd, &st) == 0 && S_ISLNK(st.st_mode);
    bool is_away = (walk->how & FD_NO_XDEV) != 0 && !is_same_mount(walk->root_fd, fd);
    if (is_race || is_away) {
        fd_close(&fd);
        return fd_walk_fail(is_race ? EAGAIN : EXDEV);
    }
    *ret_fd = fd;
    return 0;
}

static int walk_to_end(struct walk *walk, int flags, mode_t mode, int *ret_fd)
{
    for (;;) {
        char name[NAME_STEP];
        bool is_last;
        if (next_name(walk, name, &is_last) < 0)
            return -1;
        bool is_up = strcmp(name, "..") == 0;
        bool stays = name[0] == '\0' || strcmp(name, ".") == 0;
        if (is_up && go_up(walk) < 0)
            return -1;
        if (!is_up && !stays && !is_last && step_into(walk, name) < 0)
            return -1;
        if (walk->rest[0] != '\0')
            continue;
        if (is_up || stays || !is_last)
            return open_last(walk, ".", flags, mode, ret_fd);
        int done = open_last(walk, name, flags, mode, ret_fd);
        if (done <= 0)
            return done;
    }
}

int fd_walk_open(int dir_fd, const char *path, int flags, mode_t mode, unsigned how)
{
    struct walk walk = {.root_fd = dir_fd, .how = how, .at = -1};
    size_t len = strlen(path);
    if (len == 0)
        return fd_walk_fail(ENOENT);
    if (len >= PATH_MAX)
        return fd_walk_fail(ENAMETOOLONG);
    memcpy(walk.rest, path, len + 1);
    if (path[0] == '/' && (how & FD_IN_ROOT) == 0)
        return fd_walk_fail(EXDEV);
    int fd = -1;
    int done = to_root(&walk);
    if (done == 0)
        done = walk_to_end(&walk, flags, mode, &fd);
    fd_close(&walk.at);
    return done < 0 ? -1 : fd;
}
