#include "runtime/obtain.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "base/tree.h"
#include "runtime/obtain_internal.h"

/* Says which version a tree is; written before the tree gets its place. */
#define STAMP ".sandglass-runtime"

void obtain_dir(const struct obtain_item *item, const char *data_dir, char out[RUNTIME_PATH_MAX])
{
    (void)snprintf(out, RUNTIME_PATH_MAX, "%s/%s/%s/%s", data_dir, item->area, item->kind,
                   item->name);
}

void obtain_say(const struct obtaining *obtaining, const char *step, uint64_t have, uint64_t total)
{
    if (obtaining->how->progress != NULL)
        obtaining->how->progress(obtaining->how->ctx, step, have, total);
}

bool obtain_added(const struct obtain_item *item, const char *data_dir,
                  char version[RUNTIME_VERSION_SIZE])
{
    char dir[RUNTIME_PATH_MAX];
    struct err ignored;
    AUTO_BUF struct buf text = buf_with_limit(RUNTIME_VERSION_SIZE);
    version[0] = '\0';
    obtain_dir(item, data_dir, dir);
    AUTO_CLOSE int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return false;
    AUTO_CLOSE int fd = openat(dir_fd, STAMP, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || buf_read_all(&text, fd, &ignored) < 0)
        return false;
    struct str line = str_trim(buf_str(&text));
    (void)snprintf(version, RUNTIME_VERSION_SIZE, "%.*s", STR_ARG(line));
    return true;
}

/* One at a time for each name; the lock goes with its descriptor. */
static int take_lock(const char *incoming, const struct obtain_item *item, struct err *err)
{
    char path[RUNTIME_PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/%s.lock", incoming, item->name) >= sizeof path)
        return err_set(err, ERR_TOO_LARGE, "the data directory's path is too long");
    AUTO_CLOSE int fd = SYS(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", path);
    if (SYS(flock(fd, LOCK_EX | LOCK_NB)) < 0)
        return errno == EWOULDBLOCK
                   ? err_set(err, ERR_BUSY, "%s '%s' is already being added or removed", item->noun,
                             item->name)
                   : err_sys(err, errno, "lock '%s'", path);
    return fd_take(&fd);
}

/* Away in one step, then taken apart; what a crash leaves goes with the next one. */
static int discard(const char *incoming, const char *dir, const char *name, struct err *err)
{
    char trash[RUNTIME_PATH_MAX];
    (void)snprintf(trash, sizeof trash, "%s/trash", incoming);
    if (fd_make_dirs(trash, 0700, err) < 0)
        return -1;
    AUTO_CLOSE int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int trash_fd = open(trash, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (trash_fd < 0)
        return err_sys(err, errno, "open '%s'", trash);
    if (dir_fd < 0)
        return err_sys(err, errno, "open '%s'", dir);
    int moved = tree_discard(dir_fd, name, trash_fd, err);
    struct err ignored;
    int cleared = tree_reclaim(trash_fd, moved < 0 ? &ignored : err);
    return moved < 0 ? moved : cleared;
}

int obtain_discard(const struct obtaining *obtaining, const char *name, struct err *err)
{
    return discard(obtaining->incoming, obtaining->incoming, name, err);
}

static int write_stamp(const struct obtaining *obtaining, const char *dir, struct err *err)
{
    /* What was unpacked may be a link; nothing that it leads to is sealed. */
    AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    AUTO_BUF struct buf text = {0};
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", dir);
    buf_printf(&text, "%s\n", obtaining->item->version);
    if (fd_replace_file(fd, STAMP, buf_str(&text), 0444, err) < 0)
        return -1;
    return obtain_seal(fd, err);
}

/* The old one, if any, changes places with the new one and goes. */
static int publish(const struct obtaining *obtaining, const char *ready, struct err *err)
{
    char place[RUNTIME_PATH_MAX], parent[RUNTIME_PATH_MAX];
    const char *data_dir = obtaining->how->data_dir;
    (void)snprintf(parent, sizeof parent, "%s/%s/%s", data_dir, obtaining->item->area,
                   obtaining->item->kind);
    obtain_dir(obtaining->item, data_dir, place);
    if (fd_make_dirs(parent, 0755, err) < 0 || write_stamp(obtaining, ready, err) < 0)
        return -1;
    CRASH_POINT("runtime.sealed");
    if (SYS(syscall(SYS_renameat2, AT_FDCWD, ready, AT_FDCWD, place, RENAME_NOREPLACE)) < 0) {
        if (errno != EEXIST)
            return err_sys(err, errno, "move to '%s'", place);
        if (chmod(place, 0755) < 0 ||
            SYS(syscall(SYS_renameat2, AT_FDCWD, ready, AT_FDCWD, place, RENAME_EXCHANGE)) < 0)
            return err_sys(err, errno, "move to '%s'", place);
    }
    /* The last step, since a directory without write permission cannot be moved. */
    if (SYS(chmod(place, 0555)) < 0)
        return err_sys(err, errno, "chmod '%s'", place);
    return 0;
}

static int prepare(struct obtaining *obtaining, struct err *err)
{
    char tree[64];
    (void)snprintf(tree, sizeof tree, "%s.tree", obtaining->item->name);
    if (obtain_discard(obtaining, tree, err) < 0 && err->code != ERR_NOT_FOUND)
        return -1;
    return fd_make_dirs(obtaining->tree, 0755, err);
}

static int obtain(struct obtaining *obtaining, struct err *err)
{
    char ready[RUNTIME_PATH_MAX], tree[64];
    bool is_system = obtaining->item->system != NULL;
    if (prepare(obtaining, err) < 0 ||
        (is_system ? obtain_debian(obtaining, ready, err) : obtain_npm(obtaining, ready, err)) < 0)
        return -1;
    if (publish(obtaining, ready, err) < 0)
        return -1;
    (void)snprintf(tree, sizeof tree, "%s.tree", obtaining->item->name);
    return obtain_discard(obtaining, tree, err);
}

static int make_incoming(const struct obtain_item *item, const char *data_dir,
                         char out[RUNTIME_PATH_MAX], struct err *err)
{
    if ((size_t)snprintf(out, RUNTIME_PATH_MAX - 256, "%s/%s/incoming", data_dir, item->area) >=
        RUNTIME_PATH_MAX - 256)
        return err_set(err, ERR_TOO_LARGE, "the data directory's path is too long");
    return fd_make_dirs(out, 0755, err);
}

int obtain_add(const struct obtain_item *item, const struct obtain *how, bool *ret_added,
               struct err *err)
{
    struct obtaining obtaining = {.item = item, .how = how};
    char version[RUNTIME_VERSION_SIZE];
    if (make_incoming(item, how->data_dir, obtaining.incoming, err) < 0)
        return -1;
    AUTO_CLOSE int lock = take_lock(obtaining.incoming, item, err);
    if (lock < 0)
        return -1;
    bool there = obtain_added(item, how->data_dir, version) && strcmp(version, item->version) == 0;
    (void)snprintf(obtaining.tree, sizeof obtaining.tree, "%.3800s/%s.tree", obtaining.incoming,
                   item->name);
    if (!there && obtain(&obtaining, err) < 0)
        return err_wrap(err, "add %s '%s'", item->noun, item->name);
    *ret_added = !there;
    return 0;
}

/* What additions that broke off have left of it: NAME.tree, NAME-VERSION.part and so on. */
static int discard_leftovers(const char *incoming, const char *name, bool *ret_any, struct err *err)
{
    static const char *const endings[] = {".*", "-*"};
    int done = 0;
    for (size_t i = 0; i < countof(endings); i++) {
        char pattern[RUNTIME_PATH_MAX];
        glob_t found = {0};
        (void)snprintf(pattern, sizeof pattern, "%.3900s/%s%s", incoming, name, endings[i]);
        (void)glob(pattern, GLOB_NOSORT, NULL, &found);
        for (size_t k = 0; k < found.gl_pathc && done == 0; k++) {
            const char *left = strrchr(found.gl_pathv[k], '/') + 1;
            if (str_ends(str_of(left), STR(".lock")))
                continue;
            *ret_any = true;
            done = discard(incoming, incoming, left, err);
        }
        globfree(&found);
    }
    return done;
}

int obtain_remove(const struct obtain_item *item, const char *data_dir, struct err *err)
{
    char incoming[RUNTIME_PATH_MAX], parent[RUNTIME_PATH_MAX], dir[RUNTIME_PATH_MAX];
    bool is_begun = false;
    if (make_incoming(item, data_dir, incoming, err) < 0)
        return -1;
    AUTO_CLOSE int lock = take_lock(incoming, item, err);
    if (lock < 0 || discard_leftovers(incoming, item->name, &is_begun, err) < 0)
        return -1;
    (void)snprintf(parent, sizeof parent, "%s/%s/%s", data_dir, item->area, item->kind);
    obtain_dir(item, data_dir, dir);
    if (chmod(dir, 0755) < 0)
        return errno != ENOENT ? err_sys(err, errno, "chmod '%s'", dir)
               : is_begun
                   ? 0
                   : err_set(err, ERR_NOT_FOUND, "%s '%s' was not added", item->noun, item->name);
    return discard(incoming, parent, item->name, err);
}

/* ---- runtimes ---- */

static struct obtain_item item_of(const struct runtime *runtime)
{
    bool is_system = runtime->source == RUNTIME_DEBIAN;
    return (struct obtain_item){
        .noun = "runtime",
        .area = "runtimes",
        .kind = is_system ? "roots" : "trees",
        .name = runtime->name,
        .version = runtime->version,
        .package = runtime->package,
        .integrity = runtime->integrity,
        .program = runtime->program,
        .system = is_system ? runtime : NULL,
    };
}

void runtime_dir(const struct runtime *runtime, const char *data_dir, char out[RUNTIME_PATH_MAX])
{
    struct obtain_item item = item_of(runtime);
    obtain_dir(&item, data_dir, out);
}

bool runtime_added(const struct runtime *runtime, const char *data_dir,
                   char version[RUNTIME_VERSION_SIZE])
{
    struct obtain_item item = item_of(runtime);
    return obtain_added(&item, data_dir, version);
}

int runtime_add(const struct runtime *runtime, const struct obtain *how, bool *ret_added,
                struct err *err)
{
    struct obtain_item item = item_of(runtime);
    if (runtime->source == RUNTIME_HOST)
        return err_set(err, ERR_INVALID, "runtime '%s' comes from the host: %s", runtime->name,
                       runtime->remedy);
    return obtain_add(&item, how, ret_added, err);
}

int runtime_remove(const struct runtime *runtime, const char *data_dir, struct err *err)
{
    struct obtain_item item = item_of(runtime);
    if (runtime->source == RUNTIME_HOST)
        return err_set(err, ERR_INVALID, "runtime '%s' comes from the host and cannot be removed",
                       runtime->name);
    return obtain_remove(&item, data_dir, err);
}
