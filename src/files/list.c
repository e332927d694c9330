/* Listing in the order of paths, a page at a time, in memory that the page bounds.
 *
 * Directories can hold a million names and nest without limit, so nothing is read into memory
 * whole. A page of N entries needs at most the N + 1 smallest names of a directory: a heap keeps
 * those. Each level's entries come out before those of the levels above, so all levels together
 * never need more than N + 1 names either; what exceeds that is cut from the top levels' ends. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/sys.h"
#include "base/vec.h"
#include "files/internal.h"

struct names {
    VEC(char *) heap; /* the largest first while reading, then sorted: the smallest last */
};

struct list_level {
    struct names names;
    size_t prefix; /* bytes of `path` that name this directory, with the slash */
};

struct listing {
    int dir_fd;
    unsigned how;
    struct arena *arena;
    size_t limit;
    struct str after; /* empty once the walk is past it */
    VEC(struct list_level) levels;
    size_t waiting; /* names in all levels */
    VEC(struct files_entry) found;
    uint64_t too_deep;
    bool recursive;
    bool dropped; /* names that the page seemed to have no place for were let go */
    size_t slack; /* names of `after`: waiting, yet no part of the page */
    int at_fd;    /* the directory of the last level, or -1 */
    char path[FILES_PATH_MAX + FILES_NAME_MAX + 2];
};

static void names_done(struct names *names)
{
    VEC_EACH (name, &names->heap)
        free(*name);
    vec_done(&names->heap);
}

static void sift_down(char **heap, size_t len, size_t at)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= len)
            return;
        if (child + 1 < len && strcmp(heap[child + 1], heap[child]) > 0)
            child++;
        if (strcmp(heap[at], heap[child]) >= 0)
            return;
        char *swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
        at = child;
    }
}

static void sift_up(char **heap, size_t at)
{
    while (at > 0 && strcmp(heap[(at - 1) / 2], heap[at]) < 0) {
        char *swap = heap[at];
        heap[at] = heap[(at - 1) / 2];
        heap[(at - 1) / 2] = swap;
        at = (at - 1) / 2;
    }
}

/* Keeps the `most` smallest names; false when one had to go. */
static bool names_offer(struct names *names, const char *name, size_t most)
{
    if (names->heap.len < most) {
        *vec_push(&names->heap) = mem_dup_cstr(name);
        sift_up(names->heap.ptr, names->heap.len - 1);
        return true;
    }
    if (most == 0 || strcmp(name, names->heap.ptr[0]) >= 0)
        return false;
    free(names->heap.ptr[0]);
    names->heap.ptr[0] = mem_dup_cstr(name);
    sift_down(names->heap.ptr, names->heap.len, 0);
    return false;
}

static int compare_down(const void *a, const void *b)
{
    return strcmp(*(char *const *)b, *(char *const *)a);
}

/* Where the page begins: the component of `after` in this directory, or none. */
static struct str first_name(const struct listing *listing, size_t prefix)
{
    struct str after = listing->after;
    bool leads_here = after.len > prefix && memcmp(after.ptr, listing->path, prefix) == 0;
    if (!leads_here)
        return (struct str){0};
    struct str rest = str_slice(after, prefix, after.len);
    return str_slice(rest, 0, str_find_char(rest, '/'));
}

static int read_names(struct listing *listing, int fd, struct str first, size_t most,
                      struct names *names, struct err *err)
{
    AUTO_MEM struct files_dir *dir = mem_alloc(sizeof *dir);
    dir->fd = fd;
    struct files_dirent entry;
    for (;;) {
        int got = files_dir_next(dir, &entry);
        if (got < 0)
            return err_sys(err, errno, "read a directory");
        if (got == 0)
            break;
        if (first.len == 0 || str_cmp(str_of(entry.name), first) >= 0)
            listing->dropped |= !names_offer(names, entry.name, most);
    }
    if (names->heap.len > 0)
        qsort(names->heap.ptr, names->heap.len, sizeof *names->heap.ptr, compare_down);
    listing->waiting += names->heap.len;
    return 0;
}

/* Entries of the levels above come last: what is more than the page needs goes from there. */
static void cut_waiting(struct listing *listing, size_t most)
{
    VEC_EACH (level, &listing->levels) {
        size_t extra = listing->waiting > most ? listing->waiting - most : 0;
        size_t cut = MIN(extra, level->names.heap.len);
        for (size_t i = 0; i < cut; i++)
            free(level->names.heap.ptr[i]);
        level->names.heap.len -= cut;
        listing->waiting -= cut;
        listing->dropped |= cut > 0;
        if (cut > 0)
            memmove(level->names.heap.ptr, level->names.heap.ptr + cut,
                    level->names.heap.len * sizeof *level->names.heap.ptr);
        if (cut == extra)
            return;
    }
}

/* Opens the directory that the first `prefix` bytes of the path name. */
static int list_open_dir(struct listing *listing, size_t prefix, struct err *err)
{
    listing->path[prefix] = '\0';
    fd_close(&listing->at_fd);
    listing->at_fd =
        fd_open_in(listing->dir_fd, prefix == 0 ? "." : listing->path,
                   O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, listing->how | FD_NO_LINKS, err);
    return listing->at_fd < 0 ? -1 : 0;
}

static int enter_dir(struct listing *listing, size_t prefix, struct err *err)
{
    if (list_open_dir(listing, prefix, err) < 0)
        return -1;
    struct list_level level = {.prefix = prefix};
    size_t most = listing->limit + 1 - listing->found.len + listing->slack;
    struct str first = first_name(listing, prefix);
    if (read_names(listing, listing->at_fd, first, most, &level.names, err) < 0) {
        names_done(&level.names);
        fd_close(&listing->at_fd);
        return -1;
    }
    *vec_push(&listing->levels) = level;
    cut_waiting(listing, most);
    return 0;
}

static bool is_fatal(const struct err *err)
{
    return err->sys == EMFILE || err->sys == ENFILE || err->sys == ENOMEM || err->sys == EIO;
}

/* Directories that vanished or may not be read count as empty. */
static int enter_below(struct listing *listing, size_t len, struct err *err)
{
    if (len + 1 >= FILES_PATH_MAX) {
        listing->too_deep++;
        return 0;
    }
    listing->path[len] = '/';
    if (enter_dir(listing, len + 1, err) == 0)
        return 0;
    return is_fatal(err) ? -1 : 0;
}

/* One name off the last level: recorded unless it lies before the page, then entered. */
static int take_name(struct listing *listing, struct err *err)
{
    struct list_level *level = vec_last(&listing->levels);
    AUTO_MEM char *name = vec_pop(&level->names.heap);
    listing->waiting--;
    size_t len = level->prefix + strlen(name);
    memcpy(listing->path + level->prefix, name, strlen(name) + 1);
    if (len >= FILES_PATH_MAX) {
        listing->too_deep++;
        return 0;
    }
    /* By the directory's descriptor: by its path, a link put there meanwhile would be followed. */
    struct stat st;
    if (SYS(fstatat(listing->at_fd, name, &st, AT_SYMLINK_NOFOLLOW)) < 0)
        return errno == ENOENT || errno == EACCES ? 0 : err_sys(err, errno, "stat an entry");
    struct str path = str_n(listing->path, len);
    bool is_before = str_eq(path, listing->after) ||
                     (listing->after.len > len && listing->after.ptr[len] == '/' &&
                      str_starts(listing->after, path));
    if (!is_before) {
        listing->after = (struct str){0};
        struct files_entry *entry = vec_push(&listing->found);
        entry->path = arena_dup(listing->arena, path);
        files_stat_from(&st, &entry->stat);
    }
    bool enters = listing->recursive && S_ISDIR(st.st_mode) && listing->found.len <= listing->limit;
    return enters ? enter_below(listing, len, err) : 0;
}

static int list_run(struct listing *listing, struct err *err)
{
    if (enter_dir(listing, 0, err) < 0)
        return -1;
    while (listing->levels.len > 0 && listing->found.len <= listing->limit) {
        struct list_level *level = vec_last(&listing->levels);
        bool is_lost = level->names.heap.len > 0 && listing->at_fd < 0 &&
                       list_open_dir(listing, level->prefix, err) < 0;
        if (is_lost && is_fatal(err))
            return -1;
        if (is_lost || level->names.heap.len == 0) {
            listing->waiting -= level->names.heap.len;
            names_done(&level->names);
            fd_close(&listing->at_fd);
            listing->levels.len--;
            continue;
        }
        if (take_name(listing, err) < 0)
            return -1;
    }
    return 0;
}

static void hand_over(struct listing *listing, struct files_list *ret_list)
{
    bool truncated = listing->found.len > listing->limit || listing->dropped;
    size_t count = MIN(listing->found.len, listing->limit);
    struct files_entry *entries = arena_array(listing->arena, struct files_entry, count);
    if (count > 0)
        memcpy(entries, listing->found.ptr, count * sizeof *entries);
    *ret_list = (struct files_list){entries, count, truncated, listing->too_deep};
}

int files_list(struct files *files, struct str path, const struct files_list_options *options,
               struct arena *arena, struct files_list *ret_list, struct err *err)
{
    AUTO_CLOSE int fd = files_open_dir(files, path, err);
    if (fd < 0)
        return -1;
    struct listing *listing = mem_alloc(sizeof *listing);
    listing->dir_fd = fd;
    listing->at_fd = -1;
    listing->how = files->how & FD_NO_XDEV;
    listing->arena = arena;
    listing->limit = FILES_LIST_MAX;
    if (options != NULL) {
        listing->recursive = options->recursive;
        listing->after = options->after;
        for (size_t i = 0; i < options->after.len; i++)
            listing->slack += options->after.ptr[i] == '/';
        listing->slack += options->after.len > 0;
        if (options->limit > 0)
            listing->limit = MIN(options->limit, (size_t)FILES_LIST_MAX);
    }
    int done = list_run(listing, err);
    if (done == 0)
        hand_over(listing, ret_list);
    VEC_EACH (level, &listing->levels)
        names_done(&level->names);
    vec_done(&listing->levels);
    vec_done(&listing->found);
    fd_close(&listing->at_fd);
    free(listing);
    return done < 0 ? err_wrap(err, "list '%.*s'", STR_ARG(path)) : 0;
}

int files_is_small_dir(struct files *files, struct str path, size_t most, bool *ret_is_small,
                       struct err *err)
{
    AUTO_CLOSE int fd = files_open_dir(files, path, err);
    if (fd < 0)
        return -1;
    struct files_dir dir = {.fd = fd};
    struct files_dirent entry;
    size_t count = 0;
    int got;
    while ((got = files_dir_next(&dir, &entry)) > 0 && count <= most)
        count++;
    if (got < 0)
        return err_sys(err, errno, "list '%.*s'", STR_ARG(path));
    *ret_is_small = count <= most;
    return 0;
}
