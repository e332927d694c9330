/* glob over a tree: the first paths in order, whatever the size of the tree. */

#include <dirent.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"
#include "files/glob.h"
#include "files/internal.h"
#include "files/walk.h"

struct search {
    struct glob *glob;
    size_t limit;
    bool skip_hidden, skip_usual, with_dirs;
    struct str pattern;
    VEC(char *) best; /* a heap, the largest first: it is the first to go */
    bool truncated;
};

static void swap(char **a, char **b)
{
    char *kept = *a;
    *a = *b;
    *b = kept;
}

static void sink_root(struct search *search)
{
    char **heap = search->best.ptr;
    for (size_t at = 0;;) {
        size_t child = 2 * at + 1;
        if (child >= search->best.len)
            return;
        if (child + 1 < search->best.len && strcmp(heap[child + 1], heap[child]) > 0)
            child++;
        if (strcmp(heap[at], heap[child]) >= 0)
            return;
        swap(&heap[at], &heap[child]);
        at = child;
    }
}

static void offer(struct search *search, struct str path)
{
    char **heap = search->best.ptr;
    if (search->best.len == search->limit) {
        search->truncated = true;
        if (strcmp(path.ptr, heap[0]) >= 0)
            return;
        free(heap[0]);
        heap[0] = mem_dup(path.ptr, path.len + 1);
        sink_root(search);
        return;
    }
    *vec_push(&search->best) = mem_dup(path.ptr, path.len + 1);
    heap = search->best.ptr;
    for (size_t at = search->best.len - 1; at > 0; at = (at - 1) / 2) {
        if (strcmp(heap[(at - 1) / 2], heap[at]) >= 0)
            return;
        swap(&heap[(at - 1) / 2], &heap[at]);
    }
}

bool files_is_usual(struct str path, struct str asked)
{
    static const char *const names[] = {".git", "node_modules", ".sandglass"};
    const char *slash = path.len == 0 ? NULL : memrchr(path.ptr, '/', path.len);
    struct str name =
        slash == NULL ? path : str_slice(path, (size_t)(slash + 1 - path.ptr), path.len);
    for (size_t i = 0; i < countof(names); i++)
        if (str_eq(name, str_of(names[i])))
            return str_find(asked, name) == asked.len;
    return false;
}

static bool may_enter(void *ctx, UNUSED int dir_fd, struct str path)
{
    struct search *search = ctx;
    if (path.len == 0)
        return true;
    const char *slash = memrchr(path.ptr, '/', path.len);
    if (search->skip_hidden && (slash == NULL ? path.ptr[0] : slash[1]) == '.')
        return false;
    if (search->skip_usual && files_is_usual(path, search->pattern))
        return false;
    return glob_may_match_below(search->glob, path);
}

static int find_visit(void *ctx, UNUSED int dir_fd, const char *name, struct str path,
                      unsigned char type, UNUSED struct err *err)
{
    struct search *search = ctx;
    if (search->skip_hidden && name[0] == '.')
        return 0;
    if (search->skip_usual && type == DT_DIR && files_is_usual(str_of(name), search->pattern))
        return 0;
    if ((type != DT_DIR || search->with_dirs) && glob_match(search->glob, path))
        offer(search, path);
    return 0;
}

static int find_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void hand_over(struct search *search, uint64_t unread, struct arena *arena,
                      struct files_glob *ret_glob)
{
    size_t count = search->best.len;
    struct str *paths = arena_array(arena, struct str, count);
    if (count > 0)
        qsort(search->best.ptr, count, sizeof *search->best.ptr, find_compare);
    for (size_t i = 0; i < count; i++)
        paths[i] = arena_dup(arena, str_of(search->best.ptr[i]));
    *ret_glob = (struct files_glob){paths, count, search->truncated, unread};
}

/* The directories that a pattern names outright: "src/lib/" of "src/lib/x*.c". Starting there
 * spares the walk its surroundings. */
static struct str fixed_dirs(struct str pattern)
{
    size_t end = 0;
    for (size_t i = 0; i < pattern.len && strchr("*?[]{}\\", pattern.ptr[i]) == NULL; i++)
        if (pattern.ptr[i] == '/')
            end = i;
    return str_slice(pattern, 0, end);
}

int files_glob(struct files *files, struct str dir, struct str pattern,
               const struct files_glob_options *options, struct arena *arena,
               struct files_glob *ret_glob, struct err *err)
{
    while (str_starts(pattern, STR("./")))
        pattern = str_slice(pattern, 2, pattern.len);
    AUTO_GLOB struct glob *glob = NULL;
    if (glob_new(pattern, &glob, err) < 0)
        return -1;
    AUTO_CLOSE int fd = files_open_dir(files, dir, err);
    if (fd < 0)
        return -1;
    struct search search = {.glob = glob, .limit = FILES_GLOB_MAX, .pattern = pattern};
    if (options != NULL) {
        search.limit = options->limit == 0 ? search.limit : options->limit;
        search.skip_hidden = options->skip_hidden;
        search.skip_usual = options->skip_usual;
        search.with_dirs = options->with_dirs;
    }
    struct files_walk walk;
    struct str start = fixed_dirs(pattern);
    bool is_odd = start.len >= FILES_PATH_MAX || str_starts(start, STR("/"));
    files_walk_init(&walk, fd, files->how & FD_NO_XDEV, is_odd ? (struct str){0} : start);
    struct files_visitor visitor = {may_enter, find_visit, &search};
    int done = files_walk_run(&walk, &visitor, err);
    if (done == 0)
        hand_over(&search, walk.unread, arena, ret_glob);
    files_walk_done(&walk);
    VEC_EACH (path, &search.best)
        free(*path);
    vec_done(&search.best);
    return done;
}
