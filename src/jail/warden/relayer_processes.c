/* Whether processes besides init can be moved to another root.
 *
 * pivot_root moves the root and the working directory of every process that stands at the old "/".
 * Whatever else ties a process to the old root would stay there: it would read old content, and
 * what it waits for would never come. Such a process is found here, while the jail is frozen, and
 * nothing of what its own code says is believed. That nobody writes to the sealed layer does not
 * depend on these checks: its mount is read-only before the roots are exchanged.
 *
 * Private mappings of files (libraries, programs) may stay: they keep the old root's filesystem
 * until the process ends, which is why there is a limit. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "jail/warden/relayer_internal.h"
#include "jail/wire/linux.h"

enum {
    ENTRIES_MAX = 8192, /* threads and descriptors; a tenant could have us look at millions */
    SOCKETS_BYTES_MAX = 1 << 20,
    MOVES_MAX = 256, /* in a row: each may leave an old root that a mapping keeps */
};

struct look {
    uint64_t mount; /* the old root's */
    size_t left;    /* entries */
    bool lives;     /* the process that is looked at does; a zombie does not */
    size_t count;   /* of those that do, without init */
};

typedef int visit(struct look *look, int dir_fd, const char *name, struct err *err);

static int busy(struct err *err, const char *what)
{
    return err_set(err, ERR_BUSY, "a process %s", what);
}

/* Calls `call` for every number in that directory. One that is gone has nothing. */
static int each_number(struct look *look, int dir_fd, const char *path, visit *call,
                       struct err *err)
{
    AUTO_CLOSE int fd = SYS(openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd < 0 && (errno == ENOENT || errno == ESRCH))
        return 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL)
        return err_sys(err, errno, "read '%s' of a jail's /proc", path);
    int at = fd_take(&fd), done = 0; /* the stream's now */
    for (struct dirent *entry; done == 0 && (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
            continue;
        done = look->left == 0 ? busy(err, "has too many threads or files")
                               : call(look, at, entry->d_name, err);
        look->left--;
    }
    (void)closedir(dir);
    return done;
}

/* What a link of /proc leads to; false when there is nothing. */
static bool relayer_processes_find(int dir_fd, const char *path, struct statx *ret_st)
{
    return k_statx(dir_fd, path, AT_STATX_DONT_SYNC, STATX_MNT_ID | STATX_TYPE, ret_st) == 0;
}

static int check_descriptor(struct look *look, int dir_fd, const char *name, struct err *err)
{
    static const struct str watch = {"anon_inode:inotify", sizeof "anon_inode:inotify" - 1};
    char target[64];
    struct statx st;
    ssize_t len = readlinkat(dir_fd, name, target, sizeof target);
    if (len < 0 || !relayer_processes_find(dir_fd, name, &st))
        return busy(err, "has a descriptor that cannot be inspected");
    if (str_eq(str_n(target, (size_t)len), watch))
        return busy(err, "watches files");
    return st.stx_mnt_id == look->mount ? busy(err, "has a file of the root open") : 0;
}

static int check_thread(struct look *look, int dir_fd, const char *name, struct err *err)
{
    struct statx root, cwd;
    AUTO_CLOSE int fd = SYS(openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd < 0)
        return busy(err, "has a thread that cannot be inspected");
    if (!relayer_processes_find(fd, "root", &root)) /* a zombie has none */
        return errno == ENOENT ? 0 : busy(err, "has a root that cannot be inspected");
    look->lives = true;
    if (root.stx_mnt_id != look->mount || (root.stx_attributes & STATX_ATTR_MOUNT_ROOT) == 0)
        return busy(err, "has another root");
    if (!relayer_processes_find(fd, "cwd", &cwd) ||
        (cwd.stx_mnt_id == look->mount && (cwd.stx_attributes & STATX_ATTR_MOUNT_ROOT) == 0))
        return busy(err, "works in a directory of the root");
    return each_number(look, fd, "fd", check_descriptor, err);
}

static int check_process(struct look *look, int dir_fd, const char *name, struct err *err)
{
    char path[32];
    if (strcmp(name, "1") == 0)
        return 0;
    look->lives = false;
    (void)snprintf(path, sizeof path, "%.16s/task", name);
    if (each_number(look, dir_fd, path, check_thread, err) < 0)
        return -1;
    look->count += look->lives;
    return 0;
}

/* The name in a line of /proc/net/unix, behind seven columns; empty: none. */
static struct str name_of_socket(struct str line)
{
    for (int column = 0; column < 7; column++) {
        while (line.len > 0 && line.ptr[0] == ' ')
            line = str_slice(line, 1, line.len);
        line = str_slice(line, str_find_char(line, ' '), line.len);
    }
    return line.len > 0 ? str_slice(line, 1, line.len) : line;
}

/* A socket that is bound to a file of the old root could not be reached by the same file of the new
 * one. On which filesystem the file is cannot be seen here, so every one counts. */
static int check_sockets(int proc_fd, struct err *err)
{
    AUTO_BUF struct buf text = buf_with_limit(SOCKETS_BYTES_MAX);
    AUTO_CLOSE int fd = SYS(openat(proc_fd, "1/net/unix", O_RDONLY | O_CLOEXEC));
    if (fd < 0 || buf_read_all(&text, fd, err) < 0)
        return busy(err, "has sockets that cannot be inspected");
    struct str rest = buf_str(&text), line;
    (void)str_split(&rest, '\n', &line); /* the titles */
    while (rest.len > 0 && str_split(&rest, '\n', &line)) {
        struct str name = name_of_socket(line);
        if (name.len > 0 && name.ptr[0] != '@')
            return busy(err, "has a socket bound to a file");
    }
    return 0;
}

int relayer_check_processes(struct relayer_job *job, int root_fd, struct err *err)
{
    struct look look = {.left = ENTRIES_MAX};
    struct statx st;
    if (job->seal->processes == 0)
        return 0;
    if (k_statx(root_fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) < 0)
        return err_sys(err, errno, "inspect the jail's root");
    look.mount = st.stx_mnt_id;
    AUTO_CLOSE int proc =
        SYS(openat(root_fd, "proc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (proc < 0)
        return err_sys(err, errno, "open the jail's /proc");
    if (each_number(&look, proc, ".", check_process, err) < 0)
        return -1;
    job->moved = look.count;
    if (look.count > job->seal->processes)
        return err_set(err, ERR_BUSY, "commands are running");
    if (look.count > 0 && job->made->memory.moves >= MOVES_MAX)
        return busy(err, "was moved too often");
    return look.count > 0 ? check_sockets(proc, err) : 0;
}
