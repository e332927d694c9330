#include "files/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#include "base/err.h"
#include "base/sys.h"
#include "base/vec.h"

struct walk_worker {
    struct files_walk *walk;
    const struct files_visitor *visitor;
    struct files_dir dir;
    char path[FILES_PATH_MAX + FILES_NAME_MAX + 2];
};

void files_walk_init(struct files_walk *walk, int dir_fd, unsigned how, struct str start)
{
    *walk = (struct files_walk){.dir_fd = dir_fd, .how = how};
    (void)pthread_mutex_init(&walk->lock, NULL);
    (void)pthread_cond_init(&walk->changed, NULL);
    char *copy = mem_alloc(start.len + 1);
    if (start.len > 0)
        memcpy(copy, start.ptr, start.len);
    *vec_push(&walk->pending) = copy;
}

void files_walk_done(struct files_walk *walk)
{
    VEC_EACH (path, &walk->pending)
        free(*path);
    vec_done(&walk->pending);
    (void)pthread_cond_destroy(&walk->changed);
    (void)pthread_mutex_destroy(&walk->lock);
}

static void count_unread(struct files_walk *walk)
{
    (void)pthread_mutex_lock(&walk->lock);
    walk->unread++;
    (void)pthread_mutex_unlock(&walk->lock);
}

static void walk_stop(struct files_walk *walk)
{
    (void)pthread_mutex_lock(&walk->lock);
    walk->stopped = true;
    (void)pthread_cond_broadcast(&walk->changed);
    (void)pthread_mutex_unlock(&walk->lock);
}

static void add_dir(struct files_walk *walk, struct str path)
{
    (void)pthread_mutex_lock(&walk->lock);
    if (walk->pending_bytes + path.len > FILES_WALK_PENDING_MAX || path.len + 2 >= FILES_PATH_MAX) {
        walk->unread++;
    } else {
        *vec_push(&walk->pending) = mem_dup(path.ptr, path.len + 1);
        walk->pending_bytes += path.len;
        (void)pthread_cond_signal(&walk->changed);
    }
    (void)pthread_mutex_unlock(&walk->lock);
}

/* The next directory, or NULL when all is done. Waits while others may still add some. */
static char *take_dir(struct files_walk *walk)
{
    char *path = NULL;
    (void)pthread_mutex_lock(&walk->lock);
    while (!walk->stopped && walk->pending.len == 0 && walk->busy > 0)
        (void)pthread_cond_wait(&walk->changed, &walk->lock);
    if (!walk->stopped && walk->pending.len > 0) {
        path = vec_pop(&walk->pending);
        walk->pending_bytes -= strlen(path);
        walk->busy++;
    }
    (void)pthread_mutex_unlock(&walk->lock);
    return path;
}

static void leave_dir(struct files_walk *walk)
{
    (void)pthread_mutex_lock(&walk->lock);
    walk->busy--;
    (void)pthread_cond_broadcast(&walk->changed);
    (void)pthread_mutex_unlock(&walk->lock);
}

static unsigned char type_by_stat(int dir_fd, const char *name)
{
    struct stat st;
    if (SYS(fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW)) < 0)
        return DT_UNKNOWN;
    return (unsigned char)((st.st_mode & S_IFMT) >> 12); /* what IFTODT does */
}

static int visit_entry(struct walk_worker *worker, size_t prefix, const struct files_dirent *entry,
                       struct err *err)
{
    size_t len = strlen(entry->name);
    if (prefix + len >= FILES_PATH_MAX) {
        count_unread(worker->walk);
        return 0;
    }
    unsigned char type = entry->type;
    if (type == DT_UNKNOWN)
        type = type_by_stat(worker->dir.fd, entry->name);
    if (type == DT_UNKNOWN)
        return 0;
    memcpy(worker->path + prefix, entry->name, len + 1);
    struct str path = str_n(worker->path, prefix + len);
    const struct files_visitor *visitor = worker->visitor;
    int done = visitor->visit(visitor->ctx, worker->dir.fd, worker->path + prefix, path, type, err);
    if (done == 0 && type == DT_DIR)
        add_dir(worker->walk, path);
    return done;
}

static int read_dir(struct walk_worker *worker, size_t prefix, struct err *err)
{
    worker->dir.at = worker->dir.len = 0;
    for (;;) {
        struct files_dirent entry;
        int got = files_dir_next(&worker->dir, &entry);
        if (got < 0)
            count_unread(worker->walk);
        if (got <= 0)
            return 0;
        int done = visit_entry(worker, prefix, &entry, err);
        if (done != 0)
            return done;
    }
}

static int walk_dir(struct walk_worker *worker, const char *path, struct err *err)
{
    const struct files_visitor *visitor = worker->visitor;
    size_t len = strlen(path);
    memcpy(worker->path, path, len + 1);
    struct err ignored;
    AUTO_CLOSE int fd =
        fd_open_in(worker->walk->dir_fd, len == 0 ? "." : path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
                   0, worker->walk->how | FD_NO_LINKS, &ignored);
    if (fd < 0) {
        /* Gone, or a link by now: not a directory of this tree any more. */
        if (ignored.sys != ENOENT && ignored.sys != ELOOP && ignored.sys != ENOTDIR)
            count_unread(worker->walk);
        return 0;
    }
    if (visitor->enter != NULL && !visitor->enter(visitor->ctx, fd, str_n(path, len)))
        return 0;
    worker->dir.fd = fd;
    if (len > 0)
        worker->path[len++] = '/';
    return read_dir(worker, len, err);
}

int files_walk_run(struct files_walk *walk, const struct files_visitor *visitor, struct err *err)
{
    AUTO_MEM struct walk_worker *worker = mem_alloc(sizeof *worker);
    worker->walk = walk;
    worker->visitor = visitor;
    for (;;) {
        AUTO_MEM char *path = take_dir(walk);
        if (path == NULL)
            return 0;
        int done = walk_dir(worker, path, err);
        if (done != 0)
            walk_stop(walk);
        leave_dir(walk);
        if (done != 0)
            return done < 0 ? -1 : 0;
    }
}
