/* Any bytes: either a message, or JavaScript in which each character is the source's own, a blank,
 * or one of the few signs that stripping may put in, on the same line and column. */

#include "fuzz.h"

#include "base/buf.h"
#include "base/err.h"
#include "isolate/strip/strip.h"

/* UTF-16 units and the first byte of the character at `at`; moves past it. */
static int take_character(struct str text, size_t *at, char *ret_first)
{
    size_t len = str_utf8_len(str_slice(text, *at, text.len));
    assert(len > 0);
    *ret_first = text.ptr[*at];
    *at += len;
    return len == 4 ? 2 : 1;
}

static void check_same_places(struct str source, struct str js)
{
    size_t from = 0;
    size_t to = 0;
    while (from < source.len) {
        char expected;
        char found;
        int units = take_character(source, &from, &expected);
        assert(to < js.len);
        int left = units - take_character(js, &to, &found);
        if (left > 0) {
            char second;
            assert(to < js.len);
            left -= take_character(js, &to, &second);
            assert(second == ' ' || second == ')');
        }
        assert(left == 0);
        bool is_line_end = expected == '\n' || expected == '\r';
        assert(found == expected || (!is_line_end && strchr(" ;()", found) != NULL));
    }
    assert(to == js.len);
}

static void check(struct strip *strip, enum strip_lang lang, struct str source)
{
    struct err err = {0};
    struct strip_place place = {0};
    AUTO_BUF struct buf js = {0};
    if (strip_run(strip, lang, source, &js, &place, &err) == 0) {
        check_same_places(source, buf_str(&js));
        return;
    }
    assert(err.msg[0] != '\0' && js.len == 0);
    assert(err.code == ERR_INVALID || err.code == ERR_UNSUPPORTED || err.code == ERR_TOO_LARGE ||
           err.code == ERR_TIMEOUT);
    assert(err.code != ERR_UNSUPPORTED || (place.line > 0 && place.column > 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct strip *strip;
    if (strip == NULL)
        strip = strip_new((struct strip_limits){.heap_bytes = 64 << 20, .timeout_ms = 500});
    struct str source = str_n((const char *)data, size);
    check(strip, STRIP_TS, source);
    check(strip, STRIP_TSX, source);
    return 0;
}
