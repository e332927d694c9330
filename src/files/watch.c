#include "files/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/err.h"
#include "base/map.h"
#include "base/sys.h"
#include "base/vec.h"
#include "files/internal.h"
#include "files/walk.h"

enum {
    MASK = IN_CREATE | IN_DELETE | IN_MODIFY | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB |
           IN_DELETE_SELF | IN_ONLYDIR,
    READ_SIZE = 65536,
};

struct waiting {
    enum files_event_type type;
    bool is_dir;
    uint32_t cookie;
    char *path;
};

/* A rename whose second half, the new name, has not been read yet. */
struct move {
    uint32_t cookie; /* 0: none */
    /* PLAIN: by another process. NEW and OVER: from a temporary name of ours. */
    enum { MOVE_PLAIN, MOVE_NEW, MOVE_OVER } kind;
};

struct files_watch {
    struct files *files; /* borrowed */
    char *path;          /* of the watched directory */
    int inotify_fd;
    int root_wd;
    bool recursive, tells; /* tells: what is found while adding is news */
    bool has_overflowed;   /* and said so, since the queue was last empty */
    bool is_full;          /* of directories */
    struct map dirs;       /* watch descriptor, as bytes, to path */
    VEC(struct waiting) queue;
    size_t next; /* of the queue */
    char *last;  /* path of the event given last */
    /* Renames in several directories at once may be told interleaved. */
    struct move moves[64];
    size_t next_move;
    int swapped_wd; /* the directory in which two trees have changed places, and the name: */
    char swapped[FILES_NAME_MAX + 1]; /* the old one is about to be told to leave it; or "" */
    char bytes[READ_SIZE] __attribute__((aligned(8)));
};

static struct str wd_key(const int *wd)
{
    return str_n((const char *)wd, sizeof *wd);
}

static void watch_push(struct files_watch *watch, enum files_event_type type, bool is_dir,
                       uint32_t cookie, const char *path)
{
    if (watch->queue.len - watch->next >= FILES_WATCH_EVENTS_MAX) {
        if (watch->has_overflowed)
            return;
        watch->has_overflowed = true;
        type = FILES_EVENT_OVERFLOW;
        path = "";
    }
    *vec_push(&watch->queue) = (struct waiting){type, is_dir, cookie, mem_dup_cstr(path)};
}

/* inotify wants a path; the descriptor's entry in /proc is one that cannot be swapped. */
static int add_dir(struct files_watch *watch, int dir_fd, struct str path)
{
    if (watch->dirs.len >= FILES_WATCH_DIRS_MAX) {
        watch->is_full = true;
        return -1;
    }
    char name[32];
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", dir_fd);
    int wd = SYS(inotify_add_watch(watch->inotify_fd, name, MASK));
    if (wd < 0) {
        watch->is_full |= errno == ENOSPC || errno == ENOMEM;
        return -1;
    }
    char *copy = mem_alloc(path.len + 1);
    if (path.len > 0)
        memcpy(copy, path.ptr, path.len);
    free(map_put(&watch->dirs, wd_key(&wd), copy));
    return wd;
}

static bool watch_is_ours(struct str path, bool *ret_is_new)
{
    const char *slash = path.len == 0 ? NULL : memrchr(path.ptr, '/', path.len);
    size_t skip = slash == NULL ? 0 : (size_t)(slash - path.ptr) + 1;
    return files_is_temp_name(str_slice(path, skip, path.len), ret_is_new);
}

static bool watch_enter(void *ctx, int dir_fd, struct str path)
{
    struct files_watch *watch = ctx;
    bool is_new;
    if (watch_is_ours(path, &is_new))
        return false;
    int wd = add_dir(watch, dir_fd, path);
    if (path.len == 0)
        watch->root_wd = wd;
    return wd >= 0 && watch->recursive;
}

static int watch_visit(void *ctx, UNUSED int dir_fd, UNUSED const char *name, struct str path,
                       unsigned char type, UNUSED struct err *err)
{
    struct files_watch *watch = ctx;
    bool is_new;
    if (watch->tells && !watch_is_ours(path, &is_new))
        watch_push(watch, FILES_EVENT_CREATE, type == DT_DIR, 0, path.ptr);
    return 0;
}

/* Watches the directory first and reads it afterwards: an entry that is created in between is
 * reported twice, but never missed. The directory is opened only for this: an open descriptor would
 * keep it alive, and the kernel would never report its deletion. */
static int add_tree(struct files_watch *watch, struct str path, struct err *err)
{
    AUTO_CLOSE int dir_fd = files_open_dir(watch->files, str_of(watch->path), err);
    if (dir_fd < 0)
        return watch->tells ? 0 : -1;
    struct files_walk walk;
    struct files_visitor visitor = {watch_enter, watch_visit, watch};
    files_walk_init(&walk, dir_fd, watch->files->how & FD_NO_XDEV, path);
    int done = files_walk_run(&walk, &visitor, err);
    files_walk_done(&walk);
    return done;
}

int files_watch_new(struct files *files, struct str path, bool recursive,
                    struct files_watch **ret_watch, struct err *err)
{
    AUTO_FILES_WATCH struct files_watch *watch = mem_alloc(sizeof *watch);
    watch->recursive = recursive;
    watch->root_wd = watch->inotify_fd = -1;
    struct files_path checked;
    if (files_path_check(path, &checked, err) < 0)
        return -1;
    watch->files = files;
    watch->path = mem_dup_cstr(checked.text);
    watch->inotify_fd = SYS(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    if (watch->inotify_fd < 0)
        return err_sys(err, errno, "watch '%.*s'", STR_ARG(path));
    if (add_tree(watch, (struct str){0}, err) < 0)
        return -1;
    if (watch->is_full)
        return err_set(err, ERR_LIMIT,
                       "'%.*s' has too many directories to watch; watch a part of it",
                       STR_ARG(path));
    if (watch->root_wd < 0)
        return err_set(err, ERR_UNSUPPORTED, "cannot watch '%.*s': is /proc mounted?",
                       STR_ARG(path));
    watch->tells = true;
    *ret_watch = watch;
    watch = NULL;
    return 0;
}

struct files_watch *files_watch_free(struct files_watch *watch)
{
    if (watch == NULL)
        return NULL;
    fd_close(&watch->inotify_fd);
    free(watch->path);
    MAP_EACH (entry, &watch->dirs)
        free(entry->value);
    map_done(&watch->dirs);
    for (size_t i = watch->next; i < watch->queue.len; i++)
        free(watch->queue.ptr[i].path);
    vec_done(&watch->queue);
    free(watch->last);
    free(watch);
    return NULL;
}

/* A directory left its place: its watches would go on under a wrong name. */
static void drop_below(struct files_watch *watch, struct str path)
{
    MAP_EACH (entry, &watch->dirs) {
        struct str dir = str_of(entry->value);
        bool is_below = str_starts(dir, path) && (dir.len == path.len || dir.ptr[path.len] == '/');
        if (!is_below)
            continue;
        int wd;
        memcpy(&wd, entry->key.ptr, sizeof wd);
        (void)inotify_rm_watch(watch->inotify_fd, wd);
        free(map_remove(&watch->dirs, wd_key(&wd)));
    }
}

static void watch_forget(struct files_watch *watch, int wd)
{
    free(map_remove(&watch->dirs, wd_key(&wd)));
    if (wd == watch->root_wd) {
        watch->root_wd = -1;
        watch_push(watch, FILES_EVENT_GONE, true, 0, "");
    }
}

static enum files_event_type type_of(uint32_t mask)
{
    if ((mask & IN_CREATE) != 0)
        return FILES_EVENT_CREATE;
    if ((mask & IN_DELETE) != 0)
        return FILES_EVENT_REMOVE;
    if ((mask & IN_MOVED_FROM) != 0)
        return FILES_EVENT_RENAME_FROM;
    if ((mask & IN_MOVED_TO) != 0)
        return FILES_EVENT_RENAME_TO;
    return (mask & IN_ATTRIB) != 0 ? FILES_EVENT_CHMOD : FILES_EVENT_WRITE;
}

static void note_move(struct files_watch *watch, uint32_t cookie, int kind)
{
    watch->moves[watch->next_move] = (struct move){.cookie = cookie, .kind = kind};
    watch->next_move = (watch->next_move + 1) % countof(watch->moves);
}

static struct move *find_move(struct files_watch *watch, uint32_t cookie)
{
    for (size_t i = 0; cookie != 0 && i < countof(watch->moves); i++)
        if (watch->moves[i].cookie == cookie)
            return &watch->moves[i];
    return NULL;
}

/* The other half of an exchange: the old tree goes to a temporary name, where it is deleted. It was
 * told with the first half. */
static bool is_swapped_out(struct files_watch *watch, const struct inotify_event *event)
{
    if ((event->mask & IN_MOVED_FROM) == 0 || event->wd != watch->swapped_wd ||
        strcmp(event->name, watch->swapped) != 0)
        return false;
    watch->swapped[0] = '\0';
    return true;
}

/* A file is written under a temporary name and renamed, and an archive is unpacked in a temporary
 * directory. These steps are not reported, only that the file is new or has changed. A file that is
 * moved here from outside the watched tree is also new. Returns whether there is an event to
 * report. */
static bool translate(struct files_watch *watch, const struct inotify_event *event,
                      enum files_event_type *type, uint32_t *cookie)
{
    bool is_new;
    *type = type_of(event->mask);
    *cookie = event->cookie;
    if (files_is_temp_name(str_of(event->name), &is_new)) {
        if ((event->mask & IN_MOVED_FROM) != 0)
            note_move(watch, event->cookie, is_new ? MOVE_NEW : MOVE_OVER);
        return false;
    }
    if (is_swapped_out(watch, event))
        return false;
    if ((event->mask & IN_MOVED_FROM) != 0)
        note_move(watch, event->cookie, MOVE_PLAIN);
    if ((event->mask & IN_MOVED_TO) == 0)
        return true;
    const struct move *move = find_move(watch, event->cookie);
    if (move != NULL && move->kind == MOVE_PLAIN)
        return true;
    *type = move != NULL && move->kind == MOVE_OVER ? FILES_EVENT_WRITE : FILES_EVENT_CREATE;
    *cookie = 0;
    return true;
}

/* A tree has taken the place of what was there (RENAME_EXCHANGE). */
static void swap_in(struct files_watch *watch, const struct inotify_event *event, const char *path)
{
    watch->swapped_wd = event->wd;
    (void)snprintf(watch->swapped, sizeof watch->swapped, "%s", event->name);
    watch_push(watch, FILES_EVENT_REMOVE, true, 0, path);
    drop_below(watch, str_of(path));
}

static int watch_take(struct files_watch *watch, const struct inotify_event *event, struct err *err)
{
    if ((event->mask & IN_Q_OVERFLOW) != 0) {
        watch->swapped[0] = '\0';
        watch_push(watch, FILES_EVENT_OVERFLOW, false, 0, "");
        return 0;
    }
    if ((event->mask & (IN_IGNORED | IN_DELETE_SELF)) != 0) {
        watch_forget(watch, event->wd);
        return 0;
    }
    const char *dir = map_get(&watch->dirs, wd_key(&event->wd));
    enum files_event_type type;
    uint32_t cookie;
    if (dir == NULL || event->len == 0 || !translate(watch, event, &type, &cookie))
        return 0;
    char path[FILES_PATH_MAX + FILES_NAME_MAX + 2];
    int len = snprintf(path, sizeof path, "%s%s%s", dir, dir[0] == '\0' ? "" : "/", event->name);
    if (len < 0 || (size_t)len >= FILES_PATH_MAX)
        return 0;
    bool is_dir = (event->mask & IN_ISDIR) != 0;
    if (is_dir && (event->mask & IN_MOVED_TO) != 0 && type == FILES_EVENT_WRITE) {
        swap_in(watch, event, path);
        type = FILES_EVENT_CREATE;
    }
    watch_push(watch, type, is_dir, cookie, path);
    if (is_dir && (event->mask & (IN_MOVED_FROM | IN_DELETE)) != 0)
        drop_below(watch, str_n(path, (size_t)len));
    if (!is_dir || !watch->recursive || (event->mask & (IN_CREATE | IN_MOVED_TO)) == 0)
        return 0;
    watch->is_full = false;
    if (add_tree(watch, str_n(path, (size_t)len), err) < 0)
        return -1;
    if (watch->is_full)
        watch_push(watch, FILES_EVENT_OVERFLOW, true, 0, path);
    return 0;
}

static int read_news(struct files_watch *watch, struct err *err)
{
    ssize_t got = SYS(read(watch->inotify_fd, watch->bytes, sizeof watch->bytes));
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : err_sys(err, errno, "read events of a tree");
    for (size_t at = 0; at < (size_t)got;) {
        const struct inotify_event *event = (const void *)(watch->bytes + at);
        at += sizeof *event + event->len;
        if (watch_take(watch, event, err) < 0)
            return -1;
    }
    return 0;
}

static void watch_give(struct files_watch *watch, struct files_event *ret_event)
{
    struct waiting *waiting = &watch->queue.ptr[watch->next++];
    free(watch->last);
    watch->last = waiting->path;
    *ret_event = (struct files_event){waiting->type, waiting->is_dir, waiting->cookie,
                                      str_of(waiting->path)};
    if (watch->next == watch->queue.len) {
        watch->queue.len = watch->next = 0;
        watch->has_overflowed = false;
    }
}

int files_watch_next(struct files_watch *watch, int timeout_ms, struct files_event *ret_event,
                     struct err *err)
{
    for (bool has_waited = false;; has_waited = true) {
        if (watch->next == watch->queue.len && read_news(watch, err) < 0)
            return -1;
        if (watch->next < watch->queue.len) {
            watch_give(watch, ret_event);
            return 1;
        }
        if (timeout_ms == 0 || (has_waited && timeout_ms > 0))
            return 0;
        struct pollfd poll_fd = {.fd = watch->inotify_fd, .events = POLLIN};
        if (SYS(poll(&poll_fd, 1, timeout_ms)) < 0 && errno != EINTR)
            return err_sys(err, errno, "wait for events of a tree");
    }
}
