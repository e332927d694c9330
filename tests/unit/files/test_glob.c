/* The pattern language, and that no pattern is slow. */

#include "files/glob.h"
#include "tree.h"

static bool matches(const char *pattern, const char *path)
{
    struct err err = {0};
    AUTO_GLOB struct glob *glob = NULL;
    CHECK_OK(glob_new(str_of(pattern), &glob, &err));
    return glob_match(glob, str_of(path));
}

TEST(glob_language)
{
    static const struct {
        const char *pattern, *path;
        bool match;
    } cases[] = {
        {"*.c", "a.c", true},
        {"*.c", "a/b.c", false},
        {"*.c", ".c", true},
        {"?", "a", true},
        {"?", "/", false},
        {"?", "\xc3\xa9", true},
        {"?", "\xff", true},
        {"??", "\xc3\xa9", false},
        {"[a-c]x", "bx", true},
        {"[!a-c]x", "bx", false},
        {"[^a-c]x", "dx", true},
        {"[!a]", "/", false},
        {"[]]", "]", true},
        {"[!]]", "]", false},
        {"[a-]", "-", true},
        {"[\\]]", "]", true},
        {"[\xc3\xa0-\xc3\xbf]", "\xc3\xa9", true},
        {"**", "a", true},
        {"**", "a/b/c", true},
        {"**/x", "x", true},
        {"**/x", "a/b/x", true},
        {"**/x", "ax", false},
        {"a/**", "a/b/c", true},
        {"a/**", "a", false},
        {"a/**/b", "a/b", true},
        {"a/**/b", "a/x/y/b", true},
        {"a/**/b", "axb", false},
        {"a**b", "axxb", true},
        {"a**b", "ax/xb", false},
        {"**/*.{c,h}", "src/x/y.h", true},
        {"**/*.{c,h}", "src/x/y.o", false},
        {"{a,b/{c,d}}/e", "b/d/e", true},
        {"{a,b/{c,d}}/e", "b/e", false},
        {"{,a}b", "b", true},
        {"{,a}b", "ab", true},
        {"{**/,}x", "p/q/x", true},
        {"a{}b", "ab", true},
        {"\\*", "*", true},
        {"\\*", "a", false},
        {"\\{a,b\\}", "{a,b}", true},
        {"[{]a,b[}]", "{a,b}", true},
        {"a,b", "a,b", true},
        {"a}b", "a}b", true},
        {"src/*/test_?.c", "src/io/test_1.c", true},
        {"*a*b*c*", "xxaxxbxxcxx", true},
        {"*a*b*c*", "xxaxxcxxbxx", false},
        {"***", "abc", true},
        {"***", "a/b", false},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        if (matches(cases[i].pattern, cases[i].path) != cases[i].match)
            print_error("'%s' on '%s'\n", cases[i].pattern, cases[i].path);
        CHECK_INT(matches(cases[i].pattern, cases[i].path), cases[i].match);
    }
}

TEST(glob_refuses_bad_patterns)
{
    struct err err = {0};
    struct glob *glob = NULL;
    CHECK_ERR(glob_new(STR(""), &glob, &err), ERR_INVALID_PATTERN);
    CHECK_ERR(glob_new(STR("[a-"), &glob, &err), ERR_INVALID_PATTERN);
    CHECK_MSG("write \\[");
    CHECK_ERR(glob_new(STR("{a,b"), &glob, &err), ERR_INVALID_PATTERN);
    CHECK_ERR(glob_new(STR("a\\"), &glob, &err), ERR_INVALID_PATTERN);
    CHECK_ERR(glob_new(STR("[z-a]"), &glob, &err), ERR_INVALID_PATTERN);
    CHECK_ERR(glob_new(STR("a\0b"), &glob, &err), ERR_INVALID_PATTERN);
    AUTO_BUF struct buf text = {0};
    for (int i = 0; i < 600; i++)
        buf_put_cstr(&text, "{a,b}");
    CHECK_ERR(glob_new(buf_str(&text), &glob, &err), ERR_PATTERN_TOO_COMPLEX);
    buf_clear(&text);
    for (int i = 0; i < 4000; i++)
        buf_put_char(&text, '{');
    CHECK_ERR(glob_new(buf_str(&text), &glob, &err), ERR_INVALID_PATTERN);
    buf_clear(&text);
    for (int i = 0; i < 1 << 20; i++)
        buf_put_char(&text, 'a');
    CHECK_ERR(glob_new(buf_str(&text), &glob, &err), ERR_INVALID_PATTERN);
    CHECK(glob == NULL);
}

/* What makes a backtracking matcher run for years costs pattern times text here. */
TEST(glob_work_is_bounded_by_pattern_times_text)
{
    static const char *const patterns[] = {
        "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", "**/a*/**/a*/**/a*/**/a*/**/b",
        "{a,a*}{a,a*}{a,a*}{a,a*}{a,a*}b", "?*?*?*?*?*?*?*?*?*b"};
    AUTO_BUF struct buf text = {0};
    for (int i = 0; i < 4000; i++)
        buf_put_char(&text, i % 50 == 49 ? '/' : 'a');
    for (size_t i = 0; i < countof(patterns); i++) {
        struct err err = {0};
        AUTO_GLOB struct glob *glob = NULL;
        CHECK_OK(glob_new(str_of(patterns[i]), &glob, &err));
        CHECK(!glob_match(glob, buf_str(&text)));
        CHECK(glob_work(glob) <= 4 * glob_size(glob) * (text.len + 1));
    }
}

TEST(glob_prunes_directories)
{
    struct err err = {0};
    AUTO_GLOB struct glob *flat = NULL, *deep = NULL, *fixed = NULL;
    CHECK_OK(glob_new(STR("*.c"), &flat, &err));
    CHECK_OK(glob_new(STR("**/*.c"), &deep, &err));
    CHECK_OK(glob_new(STR("src/*/x"), &fixed, &err));
    CHECK(!glob_may_match_below(flat, STR("a")));
    CHECK(glob_may_match_below(deep, STR("a/b")));
    CHECK(glob_may_match_below(fixed, STR("src")));
    CHECK(glob_may_match_below(fixed, STR("src/a")));
    CHECK(!glob_may_match_below(fixed, STR("src/a/x")));
    CHECK(!glob_may_match_below(fixed, STR("lib")));
}
