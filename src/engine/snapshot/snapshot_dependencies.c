/* Lists of packages: checked, sorted, and the slug that the same list always has. */

#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crypto/hash.h"
#include "base/err.h"
#include "engine/snapshot/snapshot_build.h"

enum { DEPENDENCIES_MAX = 256 };

bool snapshot_is_python(struct str package)
{
    return str_starts(package, STR("pypi:"));
}

static bool all_of(struct str text, const char *more)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!(char_is_alnum(c) || strchr(more, c) != NULL) || c == '\0')
            return false;
    }
    return true;
}

/* Only names and versions of a registry: no path, no address, no option. */
static int check_one(struct snapshot_dependency one, struct err *err)
{
    struct str name =
        snapshot_is_python(one.package) ? str_slice(one.package, 5, one.package.len) : one.package;
    if (name.len == 0 || name.len > 200 || name.ptr[0] == '-' || name.ptr[0] == '.' ||
        !all_of(name, snapshot_is_python(one.package) ? "._-" : "@/._-"))
        return err_set(err, ERR_INVALID,
                       "dependencies: '%.*s' is not a package; write an npm name or pypi:NAME",
                       (int)MIN(one.package.len, (size_t)60),
                       one.package.ptr == NULL ? "" : one.package.ptr);
    if (one.version.len > 60 || !all_of(one.version, ".+_^~-"))
        return err_set(err, ERR_INVALID, "dependencies: '%.*s' is not a version of '%.*s'",
                       (int)MIN(one.version.len, (size_t)60), one.version.ptr, STR_ARG(name));
    return 0;
}

static int snapshot_dependencies_compare(const void *a, const void *b)
{
    const struct snapshot_dependency *left = a, *right = b;
    int order = str_cmp(left->package, right->package);
    return order != 0 ? order : str_cmp(left->version, right->version);
}

int snapshot_dependencies(const struct snapshot_dependency *list, size_t count, struct arena *arena,
                          struct snapshot_dependency **ret_sorted, char ret_slug[32],
                          struct err *err)
{
    AUTO_BUF struct buf text = {0};
    char hex[HASH_HEX_SIZE];
    if (count > DEPENDENCIES_MAX)
        return err_set(err, ERR_INVALID, "dependencies: at most %d", DEPENDENCIES_MAX);
    struct snapshot_dependency *sorted = arena_array(arena, struct snapshot_dependency, count + 1);
    for (size_t i = 0; i < count; i++) {
        if (check_one(list[i], err) < 0)
            return -1;
        sorted[i] = (struct snapshot_dependency){arena_dup(arena, list[i].package),
                                                 arena_dup(arena, list[i].version)};
    }
    qsort(sorted, count, sizeof *sorted, snapshot_dependencies_compare);
    for (size_t i = 0; i < count; i++)
        buf_printf(&text, "%.*s@%.*s\n", STR_ARG(sorted[i].package), STR_ARG(sorted[i].version));
    hash_sha256_hex(buf_str(&text), hex);
    (void)snprintf(ret_slug, 32, "deps-%.20s", hex);
    *ret_sorted = sorted;
    return 0;
}
