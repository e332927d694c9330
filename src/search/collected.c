#include "search/collected.h"

#include "base/err.h"
#include "search/chunk.h"

enum { NUMBER = 4, HEAD = 3 * NUMBER };

static size_t collected_number_at(struct str bytes, size_t at)
{
    size_t n = 0;
    for (size_t i = NUMBER; i-- > 0;)
        n = n << 8 | (unsigned char)bytes.ptr[at + i];
    return n;
}

static bool is_path(struct str path)
{
    for (size_t i = 0; i < path.len; i++)
        if ((unsigned char)path.ptr[i] < 0x20 || path.ptr[i] == 0x7f)
            return false;
    return path.len > 0 && path.len <= COLLECTED_PATH_MAX && str_is_utf8(path);
}

int collected_begin(struct str *bytes, struct err *err)
{
    if (!str_starts(*bytes, STR(COLLECTED_MAGIC)))
        return err_set(err, ERR_INVALID, "the script left something else than documentation");
    *bytes = str_slice(*bytes, STR(COLLECTED_MAGIC).len, bytes->len);
    return 0;
}

int collected_next(struct str *bytes, size_t packages, struct collected_page *ret_page,
                   struct err *err)
{
    struct str rest = *bytes;
    if (rest.len == 0)
        return 0;
    if (rest.len < HEAD)
        return err_set(err, ERR_INVALID, "the collected documentation ends inside a page");
    size_t package = collected_number_at(rest, 0), path_len = collected_number_at(rest, NUMBER);
    size_t text_len = collected_number_at(rest, (size_t)2 * NUMBER);
    rest = str_slice(rest, HEAD, rest.len);
    if (path_len > rest.len || text_len > rest.len - path_len)
        return err_set(err, ERR_INVALID, "the collected documentation ends inside a page");
    struct str path = str_slice(rest, 0, path_len);
    if (package >= packages || text_len > DOCUMENT_MAX || !is_path(path))
        return err_set(err, ERR_INVALID, "the collected documentation has a page that is not one");
    *ret_page =
        (struct collected_page){package, path, str_slice(rest, path_len, path_len + text_len)};
    *bytes = str_slice(rest, path_len + text_len, rest.len);
    return 1;
}
