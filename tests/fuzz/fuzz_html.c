/* Any bytes as a page: the text is UTF-8 without NUL and within its limit, or the page is refused.
 */

#include "fuzz.h"

#include "base/err.h"
#include "search/html.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_BUF struct buf out = buf_with_limit(1 << 20);
    struct err err = {0};
    if (html_to_markdown(str_n((const char *)data, size), &out, &err) < 0) {
        assert(err.code == ERR_TOO_LARGE);
        return 0;
    }
    assert(str_is_utf8(buf_str(&out)) && str_find_char(buf_str(&out), '\0') == out.len);
    return 0;
}
