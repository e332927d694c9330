/* A file that a sandbox has written, any bytes: it is refused, or its pages lie inside it, one
 * behind the other, with names that are one line. */

#include "fuzz.h"

#include "base/err.h"
#include "search/chunk.h"
#include "search/collected.h"

enum { PACKAGES = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str all = str_n((const char *)data, size), rest = all;
    struct collected_page page;
    struct err err = {0};
    int got = 1;
    if (collected_begin(&rest, &err) < 0) {
        assert(err.code == ERR_INVALID && rest.len == all.len);
        return 0;
    }
    for (size_t before = rest.len; (got = collected_next(&rest, PACKAGES, &page, &err)) > 0;
         before = rest.len) {
        assert(rest.len < before && page.package < PACKAGES);
        assert(page.path.len > 0 && page.path.len <= COLLECTED_PATH_MAX);
        assert(str_is_utf8(page.path) && str_find_char(page.path, '\n') == page.path.len);
        assert(page.text.len <= DOCUMENT_MAX && page.path.ptr >= all.ptr);
        assert(page.text.ptr + page.text.len == rest.ptr);
    }
    assert(got == 0 ? rest.len == 0 : err.code == ERR_INVALID);
    return 0;
}
