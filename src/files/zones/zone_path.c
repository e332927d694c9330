/* A virtual path by its words: which zone, and what below it. */

#include "base/err.h"
#include "files/zones/zones.h"

static const char *const names[ZONE_COUNT] = {
    [ZONE_WORKSPACE] = "workspace", [ZONE_CACHE] = "cache"};

bool zone_of_name(struct str name, enum zone *ret_zone)
{
    for (size_t i = 0; i < ZONE_COUNT; i++)
        if (str_eq(name, str_of(names[i]))) {
            *ret_zone = (enum zone)i;
            return true;
        }
    return false;
}

static int escapes(struct str path, struct err *err)
{
    return err_set(err, ERR_PATH_ESCAPES, "'%.*s' is outside its zone", STR_ARG(path));
}

static int find_zone(struct str path, struct str name, enum zone *ret_zone, struct err *err)
{
    if (str_eq(name, STR("..")))
        return escapes(path, err);
    if (!zone_of_name(name, ret_zone))
        return err_set(err, ERR_ZONE_NOT_CONFIGURED,
                       "no zone '/%.*s': paths begin with /workspace or /cache", STR_ARG(name));
    return 0;
}

/* Takes one name into `below`, which is `*len` bytes long. */
static int take_name(struct str path, struct str name, char *below, size_t *len, struct err *err)
{
    if (name.len == 0 || str_eq(name, STR(".")))
        return 0;
    if (!str_eq(name, STR(".."))) {
        if (name.len > FILES_NAME_MAX)
            return err_set(err, ERR_INVALID, "a name in the path has %zu bytes; the limit is %d",
                           name.len, FILES_NAME_MAX);
        if (*len > 0)
            below[(*len)++] = '/';
        memcpy(below + *len, name.ptr, name.len);
        *len += name.len;
        return 0;
    }
    if (*len == 0)
        return escapes(path, err);
    while (*len > 0 && below[*len - 1] != '/')
        (*len)--;
    *len -= *len > 0;
    return 0;
}

int zone_path_parse(struct str path, struct zone_path *ret_path, struct err *err)
{
    struct zone_path found = {0};
    size_t len = 0;
    struct str rest = path, name = {0};
    if (str_find_char(path, '\0') != path.len)
        return err_set(err, ERR_INVALID, "the path contains a NUL byte");
    if (path.len == 0 || path.ptr[0] != '/')
        return err_set(err, ERR_INVALID,
                       "'%.*s' is not absolute: paths begin with /workspace or /cache",
                       STR_ARG(path));
    if (path.len >= sizeof found.below)
        return err_set(err, ERR_INVALID, "the path has %zu bytes; the limit is %d", path.len,
                       FILES_PATH_MAX - 1);
    while (name.len == 0 || str_eq(name, STR(".")))
        if (!str_split(&rest, '/', &name))
            return err_set(err, ERR_INVALID, "'%.*s' is not below /workspace or /cache",
                           STR_ARG(path));
    if (find_zone(path, name, &found.zone, err) < 0)
        return -1;
    while (str_split(&rest, '/', &name))
        if (take_name(path, name, found.below, &len, err) < 0)
            return -1;
    if (len == 0)
        found.below[len++] = '.';
    found.below[len] = '\0';
    *ret_path = found;
    return 0;
}

int zone_path_refuse_zone(const struct zone_path *at, struct str path, const char *what,
                          struct err *err)
{
    if (!str_eq(str_of(at->below), STR(".")))
        return 0;
    return err_set(err, ERR_INVALID, "'%.*s' is a zone: it cannot be %s", STR_ARG(path), what);
}
