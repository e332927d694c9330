#include "isolate/inside/module_path.h"

#include "base/arena.h"

/* Takes the last component, and its slash, off the `len` bytes of a path that ends in one. */
static size_t go_up(const char *path, size_t len)
{
    for (len--; len > 0 && path[len - 1] != '/'; len--)
        ;
    return len;
}

bool module_path_join(struct arena *arena, struct str from, struct str specifier,
                      struct str *ret_path)
{
    size_t len = str_starts(specifier, STR("/")) ? 0 : from.len;
    while (len > 0 && from.ptr[len - 1] != '/')
        len--;
    char *out = arena_alloc(arena, len + specifier.len + 2);
    if (len > 0)
        memcpy(out, from.ptr, len);
    struct str rest = specifier, part;
    while (str_split(&rest, '/', &part)) {
        if (part.len == 0 || str_eq(part, STR(".")))
            continue;
        if (str_eq(part, STR(".."))) {
            if (len == 0)
                return false;
            len = go_up(out, len);
            continue;
        }
        memcpy(out + len, part.ptr, part.len);
        len += part.len;
        out[len++] = '/';
    }
    if (len == 0)
        return false;
    out[len - 1] = '\0';
    *ret_path = str_n(out, len - 1);
    return true;
}
