#include "search/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/vec.h"
#include "search/chunk.h"

enum { DEPTH_MAX = 16 };

struct walking {
    struct arena *arena;
    VEC(struct docs_upload) pages;
    size_t bytes;
};

static bool is_document(struct str name)
{
    static const char *const ends[] = {".md",   ".mdx",   ".markdown", ".txt", ".rst",
                                       ".d.ts", ".d.mts", ".html",     ".htm"};
    for (size_t i = 0; i < countof(ends); i++)
        if (str_ends(name, str_of(ends[i])))
            return true;
    return str_starts(name, STR("README"));
}

static int read_file(struct walking *walking, int dir, const char *name, struct str path,
                     struct err *err)
{
    AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    AUTO_BUF struct buf text = buf_with_limit(DOCUMENT_MAX + 1);
    struct stat st;
    struct err ignored = {0};
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > DOCUMENT_MAX ||
        buf_read_all(&text, fd, &ignored) < 0)
        return 0; /* what cannot be read is no document */
    walking->bytes += text.len;
    if (walking->pages.len >= DOCS_PAGES_MAX || walking->bytes > DOCS_BYTES_MAX)
        return err_set(err, ERR_TOO_LARGE,
                       "the directory has more than %d documents or %d MiB: add its parts",
                       DOCS_PAGES_MAX, DOCS_BYTES_MAX >> 20);
    *vec_push(&walking->pages) = (struct docs_upload){arena_dup(walking->arena, path),
                                                      arena_dup(walking->arena, buf_str(&text))};
    return 0;
}

static int walk(struct walking *walking, int dir_fd, struct str prefix, int depth, struct err *err)
{
    DIR *dir = fdopendir(dir_fd);
    if (dir == NULL) {
        (void)close(dir_fd);
        return err_sys(err, errno, "read the directory");
    }
    int result = 0;
    const struct dirent *entry = NULL;
    while (result == 0 && (entry = readdir(dir)) != NULL) {
        struct str name = str_of(entry->d_name);
        if (name.ptr[0] == '.' || str_eq(name, STR("node_modules")))
            continue;
        struct str path = arena_printf(walking->arena, "%.*s%s", STR_ARG(prefix), entry->d_name);
        if (is_document(name)) {
            result = read_file(walking, dirfd(dir), entry->d_name, path, err);
            continue;
        }
        int sub = depth >= DEPTH_MAX ? -1
                                     : openat(dirfd(dir), entry->d_name,
                                              O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_DIRECTORY);
        if (sub >= 0)
            result = walk(walking, sub, arena_printf(walking->arena, "%.*s/", STR_ARG(path)),
                          depth + 1, err);
    }
    (void)closedir(dir);
    return result;
}

/* One that was named itself, so it is a document whatever its name ends with. */
static int read_named(struct walking *walking, int fd, const char *name, struct err *err)
{
    AUTO_BUF struct buf text = buf_with_limit(DOCUMENT_MAX);
    const char *slash = strrchr(name, '/');
    if (buf_read_all(&text, fd, err) < 0)
        return err_wrap(err, "read '%s'", name);
    *vec_push(&walking->pages) =
        (struct docs_upload){arena_dup(walking->arena, str_of(slash == NULL ? name : slash + 1)),
                             arena_dup(walking->arena, buf_str(&text))};
    return 0;
}

int directory_read(struct str path, struct arena *arena, struct docs_upload **ret_pages,
                   size_t *ret_count, struct err *err)
{
    char name[PATH_MAX];
    struct stat st;
    struct walking walking = {.arena = arena};
    if (str_to_cstr(path, name, sizeof name, err) < 0)
        return -1;
    AUTO_CLOSE int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(err, errno, "open '%s'", name);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return err_set(err, ERR_INVALID, "'%s' is neither a file nor a directory", name);
    int result = S_ISREG(st.st_mode) ? read_named(&walking, fd, name, err)
                                     : walk(&walking, fd_take(&fd), (struct str){0}, 0, err);
    if (result == 0) {
        *ret_count = walking.pages.len;
        *ret_pages = arena_array(arena, struct docs_upload, walking.pages.len + 1);
        if (walking.pages.len > 0)
            memcpy(*ret_pages, walking.pages.ptr, walking.pages.len * sizeof **ret_pages);
    }
    vec_done(&walking.pages);
    return result;
}
