#include "base/excerpt.h"
#include "test.h"

static void fill(struct excerpt *excerpt, int from, int to, size_t max)
{
    for (int i = from; i <= to; i++) {
        char line[16];
        int len = snprintf(line, sizeof line, "%d\n", i);
        excerpt_put(excerpt, str_n(line, (size_t)len), max);
    }
}

static void check(const struct excerpt *excerpt, size_t max, const char *expected)
{
    AUTO_BUF struct buf text = {0};
    struct excerpt_view view = excerpt_view(excerpt, max);
    excerpt_view_put(&view, "left out", &text);
    CHECK_CSTR(buf_cstr(&text), expected);
}

TEST(what_fits_is_whole)
{
    struct excerpt excerpt = {0};
    check(&excerpt, 0, "");
    fill(&excerpt, 1, 9, 18);
    check(&excerpt, 0, "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    CHECK_INT(excerpt_view(&excerpt, 0).cut, 0);
    excerpt_done(&excerpt);
}

TEST(both_ends_have_whole_lines_and_the_gap_is_counted)
{
    struct excerpt excerpt = {0};
    fill(&excerpt, 1, 100000, 1000);
    struct excerpt_view view = excerpt_view(&excerpt, 0);
    CHECK_INT(view.head.len + view.cut + view.tail.len, 588895);
    CHECK_INT(excerpt_count_lines(view.head) + view.lines + excerpt_count_lines(view.tail), 100000);
    CHECK(view.head.ptr[view.head.len - 1] == '\n');
    CHECK(str_ends(view.tail, STR("\n100000\n")));
    CHECK(view.head.len + view.tail.len > 950);
    /* Less of the same. */
    check(&excerpt, 20, "1\n2\n3\n4\n5\n... 588,878 bytes (99,994 lines) left out ...\n100000\n");
    excerpt_done(&excerpt);
}

TEST(a_text_of_one_line_is_cut_between_characters)
{
    struct excerpt excerpt = {0};
    excerpt_put(&excerpt, STR("\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4"), 100);
    check(&excerpt, 6, "\u00e4\n... 8 bytes (0 lines) left out ...\n\u00e4");
    excerpt_done(&excerpt);
}

/* What is kept of the beginning may end within a character. */
TEST(characters_that_were_kept_in_part_are_left_out)
{
    static const char *const characters[] = {"a", "\u00e4", "\u20ac", "\U0001f600"};
    for (size_t i = 0; i < countof(characters); i++)
        for (size_t max = 20; max < 32; max++) {
            struct excerpt excerpt = {0};
            for (int n = 0; n < 100; n++)
                excerpt_put(&excerpt, str_of(characters[i]), max);
            struct excerpt_view view = excerpt_view(&excerpt, 0);
            size_t len = strlen(characters[i]);
            CHECK(str_is_utf8(view.head) && str_is_utf8(view.tail));
            CHECK(view.head.len > max / 2 - len && view.tail.len > max / 2 - len);
            CHECK_INT(view.head.len + view.cut + view.tail.len, 100 * len);
            excerpt_done(&excerpt);
        }
}

TEST(the_line_for_a_gap)
{
    AUTO_BUF struct buf text = {0};
    excerpt_mark(12345678, 98765, "not kept", &text);
    excerpt_mark(1, 1, "not kept", &text);
    excerpt_mark(100, -1, "left out", &text);
    CHECK_CSTR(buf_cstr(&text), "... 12,345,678 bytes (98,765 lines) not kept ...\n"
                                "... 1 byte (1 line) not kept ...\n"
                                "... 100 bytes left out ...\n");
}
