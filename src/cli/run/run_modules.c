/* Which files a script imports: the quoted text behind `from` and `import`, when it is a relative
 * path. A scan, not a parser: what it takes for an import by mistake is a file that no code asks
 * for. */

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/fd.h"
#include "cli/run/run.h"
#include "isolate/inside/module_path.h"

enum { SOURCE_MAX = 1 << 20, SPECIFIER_MAX = 512 };

struct search {
    int dir;
    struct arena *arena;
    struct isolate_module *modules;
    size_t count, max;
};

/* The quoted text that follows `at`, past blanks and one parenthesis. */
static bool quoted(struct str code, size_t at, struct str *ret_text)
{
    static const char between[] = {' ', '\t', '\n', '('};
    while (at < code.len && memchr(between, code.ptr[at], sizeof between) != NULL)
        at++;
    if (at >= code.len || (code.ptr[at] != '"' && code.ptr[at] != '\''))
        return false;
    struct str rest = str_slice(code, at + 1, code.len);
    size_t end = str_find_char(rest, code.ptr[at]);
    if (end == rest.len || end > SPECIFIER_MAX)
        return false;
    *ret_text = str_slice(rest, 0, end);
    return true;
}

static bool is_known(const struct search *search, struct str path)
{
    for (size_t i = 0; i < search->count; i++)
        if (str_eq(search->modules[i].path, path))
            return true;
    return false;
}

static int run_modules_add(struct search *search, struct str path, struct err *err)
{
    if (is_known(search, path))
        return 0;
    AUTO_CLOSE int fd = fd_open_beneath(search->dir, path.ptr, O_RDONLY | O_NONBLOCK, 0, err);
    if (fd < 0)
        return err->code == ERR_NOT_FOUND ? 0 : err_wrap(err, "import '%s'", path.ptr);
    if (search->count == search->max)
        return err_set(err, ERR_TOO_LARGE, "more than %zu files are imported", search->max);
    AUTO_BUF struct buf source = buf_with_limit(SOURCE_MAX);
    if (buf_read_all(&source, fd, err) < 0)
        return err_wrap(err, "import '%s'", path.ptr);
    search->modules[search->count++] =
        (struct isolate_module){path, arena_dup(search->arena, buf_str(&source))};
    return 0;
}

static int scan(struct search *search, struct str from, struct str code, struct err *err)
{
    static const char *const words[] = {"from", "import"};
    for (size_t w = 0; w < countof(words); w++) {
        struct str word = str_of(words[w]);
        for (size_t at = 0; at < code.len; at += word.len) {
            at += str_find(str_slice(code, at, code.len), word);
            struct str specifier, path;
            if (at >= code.len || !quoted(code, at + word.len, &specifier))
                continue;
            if (!str_starts(specifier, STR("./")) && !str_starts(specifier, STR("../")))
                continue;
            if (module_path_join(search->arena, from, specifier, &path) &&
                run_modules_add(search, path, err) < 0)
                return -1;
        }
    }
    return 0;
}

int run_find_modules(const char *file, struct str code, struct arena *arena,
                     struct isolate_module *modules, size_t max, size_t *ret_count, struct err *err)
{
    char path[PATH_MAX];
    if (str_to_cstr(str_of(file), path, sizeof path, err) < 0)
        return -1;
    AUTO_CLOSE int dir = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return err_sys(err, errno, "open the directory of '%s'", file);
    struct search search = {.dir = dir, .arena = arena, .modules = modules, .max = max};
    if (scan(&search, STR(""), code, err) < 0)
        return -1;
    for (size_t i = 0; i < search.count; i++)
        if (scan(&search, modules[i].path, modules[i].source, err) < 0)
            return -1;
    *ret_count = search.count;
    return 0;
}
