#include "tiers/jail/layers/layer_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/sys.h"
#include "base/tree.h"
#include "base/vec.h"
#include "jail/wire/ids.h"

#define OPAQUE "user.overlay.opaque"
#define ORIGIN "user.overlay.origin"

enum { NAMES_MAX = 64 << 10, VALUE_MAX = 64 << 10, CHUNK = 1 << 24, ABOVE_MAX = 16 };

/* A directory that is being laid. */
struct level {
    DIR *dir;   /* of the source */
    int target; /* its place */
    struct stat st;
    size_t path_len;      /* of `path` up to here */
    int above[ABOVE_MAX]; /* the same directory of layers that are laid later; -1: it has none */
};

struct walk {
    struct layer_laying *laying;
    VEC(struct level) levels;
    struct buf path;  /* below the target's root */
    struct map links; /* inode to the path of its first name */
    struct err *err;
};

uid_t layer_tree_owner(void)
{
    return geteuid() == 0 ? IDS_FIRST - 1 : geteuid();
}

/* In a container that owns few ids the owner does not exist: then nobody maps ids either. */
static int give_away(const struct walk *walk, int dir_fd, const char *name)
{
    uid_t owner = walk->laying->owner;
    if (owner == geteuid() ||
        SYS(fchownat(dir_fd, name, owner, owner, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) == 0)
        return 0;
    return errno == EINVAL || errno == EPERM ? 0 : -1;
}

static bool is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

static bool is_opaque(int fd)
{
    char value = '\0';
    return fgetxattr(fd, OPAQUE, &value, 1) == 1 && value == 'y';
}

/* --- Attributes --- */

/* Of overlayfs's own only the one that means something in another place. */
static bool is_kept(const char *name)
{
    return strncmp(name, "user.", 5) == 0 &&
           (strncmp(name, "user.overlay.", 13) != 0 || strcmp(name, OPAQUE) == 0);
}

static int copy_attributes(int from, int to, struct err *err)
{
    AUTO_MEM char *names = NULL, *value = NULL;
    ssize_t size = flistxattr(from, NULL, 0);
    if (size <= 0)
        return 0;
    names = mem_alloc(NAMES_MAX);
    value = mem_alloc(VALUE_MAX);
    size = flistxattr(from, names, NAMES_MAX);
    for (const char *name = names; size > 0 && name < names + size; name += strlen(name) + 1) {
        if (!is_kept(name))
            continue;
        ssize_t len = fgetxattr(from, name, value, VALUE_MAX);
        if (len < 0 || SYS(fsetxattr(to, name, value, (size_t)len, 0)) == 0)
            continue;
        /* One that is too large for the file system here is no reason to lose the file. */
        if (strcmp(name, OPAQUE) == 0 ||
            (errno != ENOSPC && errno != E2BIG && errno != ENOTSUP && errno != ERANGE))
            return err_sys(err, errno, "keep the attribute '%.60s'", name);
    }
    return 0;
}

static int set_times(int dir_fd, const char *name, const struct stat *st)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    return name == NULL ? SYS(futimens(dir_fd, times))
                        : SYS(utimensat(dir_fd, name, times, AT_SYMLINK_NOFOLLOW));
}

/* --- Files --- */

static int copy_piece(int from, int to, off_t start, off_t end, const struct walk *walk)
{
    while (start < end) {
        if (walk->laying->cancel != NULL && atomic_load(walk->laying->cancel))
            return err_set(walk->err, ERR_CANCELED, "the copy was canceled");
        ssize_t sent = SYS(sendfile(to, from, &start, (size_t)MIN(end - start, (off_t)CHUNK)));
        if (sent < 0)
            return err_sys(walk->err, errno, "copy a file");
        if (sent == 0) /* it has shrunk, which only an unfrozen source can */
            return 0;
    }
    return 0;
}

/* Holes stay holes. */
static int copy_bytes(int from, int to, off_t size, const struct walk *walk)
{
    off_t at = 0;
    while (at < size) {
        off_t data = lseek(from, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            break;
        off_t hole = data < 0 ? size : lseek(from, data, SEEK_HOLE);
        data = data < 0 ? at : data;
        hole = hole < 0 ? size : hole;
        if (lseek(to, data, SEEK_SET) < 0)
            return err_sys(walk->err, errno, "copy a file");
        if (copy_piece(from, to, data, hole, walk) < 0)
            return -1;
        at = hole;
    }
    return SYS(ftruncate(to, size)) < 0 ? err_sys(walk->err, errno, "copy a file") : 0;
}

static int copy_file(struct walk *walk, int from_dir, int to_dir, const char *name)
{
    struct stat st;
    AUTO_CLOSE int from =
        SYS(openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (from < 0 || SYS(fstat(from, &st)) < 0)
        return err_sys(walk->err, errno, "open '%.100s'", name);
    if (!S_ISREG(st.st_mode))
        return err_set(walk->err, ERR_CONFLICT, "'%.100s' changed while it was copied", name);
    AUTO_CLOSE int to = SYS(
        openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, (mode_t)0600));
    if (to < 0)
        return err_sys(walk->err, errno, "make '%.100s'", name);
    if (copy_bytes(from, to, st.st_size, walk) < 0 || copy_attributes(from, to, walk->err) < 0)
        return -1;
    if (give_away(walk, to, "") < 0 || SYS(fchmod(to, st.st_mode & 0777)) < 0 ||
        set_times(to, NULL, &st) < 0)
        return err_sys(walk->err, errno, "finish '%.100s'", name);
    walk->laying->bytes += (uint64_t)st.st_blocks * 512;
    return 0;
}

/* The second name of a file that is there already; false when it has to be copied. */
static bool link_again(struct walk *walk, const struct stat *st, int to_dir, const char *name)
{
    char key[32];
    if (st->st_nlink < 2)
        return false;
    (void)snprintf(key, sizeof key, "%llu", (unsigned long long)st->st_ino);
    const char *first = map_get(&walk->links, str_of(key));
    if (first != NULL)
        return linkat(walk->laying->target_fd, first, to_dir, name, 0) == 0;
    AUTO_BUF struct buf path = {0};
    buf_put(&path, buf_str(&walk->path));
    buf_put_cstr(&path, name);
    (void)map_put(&walk->links, str_of(key), buf_take(&path));
    return false;
}

static int lay_file(struct walk *walk, const struct stat *st, int from_dir, int to_dir,
                    const char *name)
{
    if (walk->laying->links && SYS(linkat(from_dir, name, to_dir, name, 0)) == 0) {
        walk->laying->bytes += (uint64_t)st->st_blocks * 512;
        return 0;
    }
    return link_again(walk, st, to_dir, name) ? 0 : copy_file(walk, from_dir, to_dir, name);
}

static int lay_link(const struct walk *walk, const struct stat *st, int from_dir, int to_dir,
                    const char *name)
{
    char target[4096];
    ssize_t len = SYS(readlinkat(from_dir, name, target, sizeof target - 1));
    if (len < 0)
        return err_sys(walk->err, errno, "read the link '%.100s'", name);
    target[len] = '\0';
    if (SYS(symlinkat(target, to_dir, name)) < 0 || give_away(walk, to_dir, name) < 0)
        return err_sys(walk->err, errno, "make the link '%.100s'", name);
    (void)set_times(to_dir, name, st);
    return 0;
}

static int lay_node(const struct walk *walk, mode_t mode, int to_dir, const char *name)
{
    if (SYS(mknodat(to_dir, name, mode, makedev(0, 0))) < 0 || give_away(walk, to_dir, name) < 0)
        return err_sys(walk->err, errno, "make '%.100s'", name);
    return 0;
}

/* A directory that no layer below has is listed as it is, with its whiteouts, unless this
 * attribute says that it once stood above another; without a value, above one that is not known. */
static int lay_whiteout(const struct walk *walk, int to_dir, const char *name)
{
    if (SYS(fsetxattr(to_dir, ORIGIN, "", 0, 0)) < 0)
        return err_sys(walk->err, errno, "mark a directory that has whiteouts");
    if (lay_node(walk, S_IFCHR | (mode_t)0600, to_dir, name) == 0)
        return 0;
    walk->err->sys = 0; /* without it a file that was deleted would come back: never left out */
    return -1;
}

/* --- Directories --- */

/* Those past the last are not looked at: what they hide is laid, and cleared away by them. */
static void open_above(const struct walk *walk, const char *name, int above[ABOVE_MAX])
{
    const struct level *parent = walk->levels.len > 0 ? vec_last(&walk->levels) : NULL;
    for (size_t i = 0; i < ABOVE_MAX; i++) {
        bool is_root = parent == NULL && walk->laying != NULL && i < walk->laying->above_count;
        int from = parent != NULL ? parent->above[i] : is_root ? walk->laying->above_fds[i] : -1;
        above[i] = from < 0 ? -1
                            : openat(from, name == NULL ? "." : name,
                                     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
}

static void close_above(struct level *level)
{
    for (size_t i = 0; i < ABOVE_MAX; i++)
        fd_close(&level->above[i]);
}

static bool is_hidden(const struct level *level, const char *name)
{
    struct stat st;
    for (size_t i = 0; i < ABOVE_MAX; i++) {
        if (level->above[i] < 0 || fstatat(level->above[i], name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (!S_ISDIR(st.st_mode))
            return true;
        AUTO_CLOSE int fd =
            openat(level->above[i], name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && is_opaque(fd))
            return true;
    }
    return false;
}

static int layer_tree_push(struct walk *walk, int source, int target, const struct stat *st,
                           const char *name)
{
    AUTO_CLOSE int from = source, to = target;
    if (walk->levels.len == LAYER_DEPTH_MAX)
        return err_set(walk->err, ERR_TOO_LARGE, "directories are nested more than %d deep",
                       LAYER_DEPTH_MAX);
    DIR *dir = fdopendir(from);
    if (dir == NULL)
        return err_sys(walk->err, errno, "read a directory");
    (void)fd_take(&from); /* the stream's now */
    struct level level = {.dir = dir, .target = fd_take(&to), .st = *st};
    open_above(walk, name, level.above);
    if (name != NULL) {
        buf_put_cstr(&walk->path, name);
        buf_put_char(&walk->path, '/');
    }
    level.path_len = walk->path.len;
    *vec_push(&walk->levels) = level;
    return 0;
}

static int set_opaque(int fd, struct err *err)
{
    if (SYS(fsetxattr(fd, OPAQUE, "y", 1, 0)) < 0)
        return err_sys(err, errno, "mark a directory as opaque");
    return 0;
}

/* What is at the name goes; `ret_hid` when it was something that hid what lies below. */
static int clear(const struct walk *walk, int to_dir, const char *name, bool *ret_hid)
{
    struct stat st;
    *ret_hid = false;
    if (fstatat(to_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    *ret_hid = !S_ISDIR(st.st_mode);
    return tree_discard(to_dir, name, walk->laying->trash_fd, walk->err);
}

static int lay_dir(struct walk *walk, const struct stat *st, int from_dir, int to_dir,
                   const char *name)
{
    struct stat there;
    bool hid = false;
    AUTO_CLOSE int from =
        SYS(openat(from_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (from < 0)
        return err_sys(walk->err, errno, "open '%.100s'", name);
    bool merges = fstatat(to_dir, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
                  S_ISDIR(there.st_mode) && !is_opaque(from);
    if (!merges && (clear(walk, to_dir, name, &hid) < 0 ||
                    (SYS(mkdirat(to_dir, name, (mode_t)0700)) < 0 &&
                     err_sys(walk->err, errno, "make '%.100s'", name) < 0)))
        return -1;
    AUTO_CLOSE int to = SYS(openat(to_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (to < 0)
        return err_sys(walk->err, errno, "open '%.100s'", name);
    if (hid && set_opaque(to, walk->err) < 0)
        return -1;
    return layer_tree_push(walk, fd_take(&from), fd_take(&to), st, name);
}

/* Its own attributes come last: making entries changes its time, and may not be allowed after. */
static int pop(struct walk *walk)
{
    struct level level = vec_pop(&walk->levels);
    int from = dirfd(level.dir), done = 0;
    if (copy_attributes(from, level.target, walk->err) < 0)
        done = -1;
    else if (give_away(walk, level.target, "") < 0 ||
             SYS(fchmod(level.target, level.st.st_mode & 01777)) < 0 ||
             set_times(level.target, NULL, &level.st) < 0)
        done = err_sys(walk->err, errno, "finish a directory");
    (void)closedir(level.dir);
    close_above(&level);
    fd_close(&level.target);
    walk->path.len = walk->levels.len > 0 ? vec_last(&walk->levels)->path_len : 0;
    return done;
}

/* --- The walk --- */

static int lay_entry(struct walk *walk, int from_dir, int to_dir, const char *name)
{
    struct stat st;
    bool hid = false;
    if (SYS(fstatat(from_dir, name, &st, AT_SYMLINK_NOFOLLOW)) < 0)
        return errno == ENOENT ? 0 : err_sys(walk->err, errno, "inspect '%.100s'", name);
    if (is_hidden(vec_last(&walk->levels), name))
        return 0;
    walk->laying->entries++;
    if (S_ISDIR(st.st_mode))
        return lay_dir(walk, &st, from_dir, to_dir, name);
    if (clear(walk, to_dir, name, &hid) < 0)
        return -1;
    if (S_ISREG(st.st_mode))
        return lay_file(walk, &st, from_dir, to_dir, name);
    if (S_ISLNK(st.st_mode))
        return lay_link(walk, &st, from_dir, to_dir, name);
    if (is_whiteout(&st))
        return lay_whiteout(walk, to_dir, name);
    if (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode))
        return lay_node(walk, st.st_mode & (S_IFMT | 0777), to_dir, name);
    return 0;
}

/* Of the file itself and not of the host: another attempt would fail the same way. */
static bool can_be_skipped(const struct err *err)
{
    static const int of_the_file[] = {EACCES, EPERM, EFBIG, EOVERFLOW, ENAMETOOLONG, ELOOP};
    if (err->code == ERR_TOO_LARGE)
        return true;
    for (size_t i = 0; i < countof(of_the_file); i++)
        if (err->sys == of_the_file[i])
            return true;
    return false;
}

/* What was begun of it goes. */
static int layer_tree_skip(struct walk *walk, int to_dir, const char *name)
{
    struct layer_laying *laying = walk->laying;
    bool hid;
    if (laying->skipped++ < LAYER_SKIPPED_MAX)
        buf_printf(&laying->skipped_names, "%.*s%s\n", STR_ARG(buf_str(&walk->path)), name);
    *walk->err = (struct err){0};
    return clear(walk, to_dir, name, &hid);
}

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int lay_one(struct walk *walk, int from_dir, int to_dir, const char *name)
{
    if (lay_entry(walk, from_dir, to_dir, name) == 0)
        return 0;
    return can_be_skipped(walk->err) ? layer_tree_skip(walk, to_dir, name) : -1;
}

static int layer_tree_run(struct walk *walk)
{
    while (walk->levels.len > 0) {
        const struct level *level = vec_last(&walk->levels);
        if (walk->laying->cancel != NULL && atomic_load(walk->laying->cancel))
            return err_set(walk->err, ERR_CANCELED, "the copy was canceled");
        const struct dirent *entry = readdir(level->dir); /* NOLINT(concurrency-mt-unsafe) */
        int done = 0;
        if (entry == NULL)
            done = pop(walk);
        else if (!is_dot(entry->d_name))
            done = lay_one(walk, dirfd(level->dir), level->target, entry->d_name);
        if (done < 0)
            return -1;
    }
    return 0;
}

static void walk_done(struct walk *walk)
{
    VEC_EACH (level, &walk->levels) {
        (void)closedir(level->dir);
        close_above(level);
        fd_close(&level->target);
    }
    vec_done(&walk->levels);
    MAP_EACH (entry, &walk->links)
        free(entry->value);
    map_done(&walk->links);
    buf_done(&walk->path);
}

/* --- Syncing --- */

static int sync_entry(struct walk *walk, int dir_fd, const struct dirent *entry)
{
    struct stat st;
    if (fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(walk->err, errno, "inspect a layer");
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return 0;
    AUTO_CLOSE int fd =
        SYS(openat(dir_fd, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (fd < 0 || SYS(fsync(fd)) < 0)
        return err_sys(walk->err, errno, "sync a layer");
    return S_ISDIR(st.st_mode) ? layer_tree_push(walk, fd_take(&fd), -1, &st, NULL) : 0;
}

static int sync_each(struct walk *walk)
{
    int done = 0;
    while (done == 0 && walk->levels.len > 0) {
        struct level *level = vec_last(&walk->levels);
        const struct dirent *entry = readdir(level->dir); /* NOLINT(concurrency-mt-unsafe) */
        if (entry == NULL) {
            (void)closedir(level->dir);
            close_above(level);
            walk->levels.len--;
        } else if (!is_dot(entry->d_name)) {
            done = sync_entry(walk, dirfd(level->dir), entry);
        }
    }
    return done;
}

int layer_sync(int layer_fd, uint64_t entries, struct err *err)
{
    struct walk walk = {.err = err};
    struct stat st = {0};
    if (entries > LAYER_SYNC_EACH)
        return SYS(syncfs(layer_fd)) < 0 ? err_sys(err, errno, "sync a layer") : 0;
    AUTO_CLOSE int fd = SYS(openat(layer_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0 || SYS(fsync(fd)) < 0)
        return err_sys(err, errno, "sync a layer");
    int done = layer_tree_push(&walk, fd_take(&fd), -1, &st, NULL);
    if (done == 0)
        done = sync_each(&walk);
    walk_done(&walk);
    return done;
}

int layer_lay(struct layer_laying *laying, int source_fd, struct err *err)
{
    struct walk walk = {.laying = laying, .err = err};
    struct stat st;
    AUTO_CLOSE int from = SYS(openat(source_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    AUTO_CLOSE int to = fcntl(laying->target_fd, F_DUPFD_CLOEXEC, 0);
    if (from < 0 || to < 0 || SYS(fstat(from, &st)) < 0)
        return err_sys(err, errno, "open a layer");
    int done = layer_tree_push(&walk, fd_take(&from), fd_take(&to), &st, NULL);
    if (done == 0)
        done = layer_tree_run(&walk);
    walk_done(&walk);
    return done;
}
