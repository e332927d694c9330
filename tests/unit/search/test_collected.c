#include "test.h"

#include "search/collected.h"

TEST(pages_come_in_order)
{
    static const char bytes[] = COLLECTED_MAGIC "\1\0\0\0\4\0\0\0\3\0\0\0a.mdabc"
                                                "\0\0\0\0\1\0\0\0\0\0\0\0b";
    struct err err = {0};
    struct str rest = str_n(bytes, sizeof bytes - 1);
    struct collected_page page = {0};
    CHECK_OK(collected_begin(&rest, &err));
    CHECK_INT(collected_next(&rest, 2, &page, &err), 1);
    CHECK_INT(page.package, 1);
    CHECK_STR(page.path, "a.md");
    CHECK_STR(page.text, "abc");
    CHECK_INT(collected_next(&rest, 2, &page, &err), 1);
    CHECK_INT(page.package, 0);
    CHECK_STR(page.path, "b");
    CHECK_INT(page.text.len, 0);
    CHECK_INT(collected_next(&rest, 2, &page, &err), 0);
}

/* Each is refused as a whole; what was there before stays. */
TEST(what_is_not_a_page_is_refused)
{
    static const struct str bad[] = {
        STR("\0\0\0\0\1\0\0\0\0\0\0"),                   /* cut off */
        STR("\0\0\0\0\1\0\0\0\2\0\0\0ab"),               /* a text that is longer */
        STR("\0\0\0\0\xff\xff\xff\xff\2\0\0\0ab"),       /* a path that is longer */
        STR("\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"), /* both: their sum must not overflow */
        STR("\2\0\0\0\1\0\0\0\1\0\0\0ab"),               /* no such package */
        STR("\0\0\0\0\0\0\0\0\1\0\0\0b"),                /* no path */
        STR("\0\0\0\0\3\0\0\0\0\0\0\0a\nb"),             /* two lines */
        STR("\0\0\0\0\1\0\0\0\0\0\0\0\xff"),             /* no text */
    };
    for (size_t i = 0; i < countof(bad); i++) {
        struct err err = {0};
        struct str rest = bad[i];
        struct collected_page page = {.package = 7};
        CHECK_ERR(collected_next(&rest, 2, &page, &err), ERR_INVALID);
        CHECK_INT(page.package, 7);
        CHECK_INT(rest.len, bad[i].len);
    }
    struct err err = {0};
    struct str json = STR("{\"p\": []}");
    CHECK_ERR(collected_begin(&json, &err), ERR_INVALID);
}
