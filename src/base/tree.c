#include "base/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/sys.h"

static void dir_closep(DIR **dir)
{
    if (*dir != NULL)
        (void)closedir(*dir);
}
#define AUTO_DIR AUTO(dir_closep)

static int open_here(int dir_fd, const char *name, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)(flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
    };
    return (int)SYS(syscall(SYS_openat2, dir_fd, name, &how, sizeof how));
}

/* Gives ourselves all rights to a directory that is ours. The link in /proc leads to the very
 * directory that was opened, whatever its name is by now. */
static int unlock(int dir_fd, const char *name)
{
    char path[40];
    AUTO_CLOSE int fd = open_here(dir_fd, name, O_PATH);
    if (fd < 0)
        return -1;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return SYS(chmod(path, 0700));
}

static int tree_open_dir(int dir_fd, const char *name)
{
    int fd = open_here(dir_fd, name, O_RDONLY);
    if (fd < 0 && errno == EACCES && unlock(dir_fd, name) == 0)
        fd = open_here(dir_fd, name, O_RDONLY);
    return fd;
}

static int move_to_trash(int dir_fd, const char *name, int trash_fd)
{
    char fresh[ID_SIZE];
    id_new(fresh);
    int done = SYS(renameat(dir_fd, name, trash_fd, fresh));
    /* A directory that changes its parent is written to: its ".." changes. */
    if (done < 0 && errno == EACCES && unlock(dir_fd, name) == 0)
        done = SYS(renameat(dir_fd, name, trash_fd, fresh));
    return done;
}

int tree_discard(int dir_fd, const char *name, int trash_fd, struct err *err)
{
    if (move_to_trash(dir_fd, name, trash_fd) < 0)
        return err_sys(err, errno, "discard '%s'", name);
    return 0;
}

/* One run over a trash directory. */
struct tree_removal {
    int trash_fd;
    uint64_t steps;   /* removals and moves that worked */
    struct err first; /* the first reason why something stayed */
};

static void complain(struct tree_removal *run, int code, const char *what, const char *name)
{
    if (run->first.code == ERR_NONE)
        (void)err_sys(&run->first, code, "%s '%.60s'", what, name);
}

static bool is_dot(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

static bool remove_plain(struct tree_removal *run, int dir_fd, const char *name)
{
    bool gone = SYS(unlinkat(dir_fd, name, 0)) == 0;
    if (!gone && (errno == EISDIR || errno == EPERM))
        gone = SYS(unlinkat(dir_fd, name, AT_REMOVEDIR)) == 0;
    run->steps += gone;
    return gone || errno == ENOENT;
}

/* One entry of a directory in the trash: files go, directories go or move up. */
static void remove_entry(struct tree_removal *run, int dir_fd, const char *name)
{
    if (remove_plain(run, dir_fd, name))
        return;
    if (errno == EBUSY)
        return complain(run, EBUSY, "not crossed: a mount at", name);
    if (errno != ENOTEMPTY && errno != EEXIST)
        return complain(run, errno, "remove", name);
    if (move_to_trash(dir_fd, name, run->trash_fd) < 0)
        return complain(run, errno, "move up", name);
    run->steps++;
}

static DIR *open_stream(int dir_fd)
{
    AUTO_CLOSE int copy = SYS(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (dir != NULL)
        (void)fd_take(&copy); /* the stream's now */
    return dir;
}

static void empty_dir(struct tree_removal *run, int dir_fd)
{
    AUTO_DIR DIR *dir = open_stream(dir_fd);
    if (dir == NULL)
        return complain(run, errno, "read", ".");
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (!is_dot(entry->d_name))
            remove_entry(run, dir_fd, entry->d_name);
}

static void take_apart(struct tree_removal *run, const char *name)
{
    if (remove_plain(run, run->trash_fd, name))
        return;
    AUTO_CLOSE int fd = tree_open_dir(run->trash_fd, name);
    if (fd < 0)
        return complain(run, errno, errno == EXDEV ? "not crossed: a mount at" : "open", name);
    /* Entries can only be taken out of a directory that we may write to. */
    struct stat st;
    if (SYS(fstat(fd, &st)) == 0 && (st.st_mode & S_IRWXU) != S_IRWXU)
        (void)SYS(fchmod(fd, 0700));
    empty_dir(run, fd);
    if (!remove_plain(run, run->trash_fd, name))
        complain(run, errno, "remove", name);
}

int tree_reclaim(int trash_fd, struct err *err)
{
    struct tree_removal run = {.trash_fd = trash_fd};
    /* What moved up during a pass may lie behind its reader: go on while there is progress. */
    for (uint64_t before = UINT64_MAX; before != run.steps;) {
        AUTO_DIR DIR *dir = open_stream(trash_fd);
        if (dir == NULL)
            return err_sys(err, errno, "read the trash");
        before = run.steps;
        run.first = (struct err){0};
        for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
            if (!is_dot(entry->d_name))
                take_apart(&run, entry->d_name);
    }
    if (run.first.code == ERR_NONE)
        return 0;
    *err = run.first;
    return -1;
}
