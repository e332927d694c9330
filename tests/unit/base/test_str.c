#include "test.h"

TEST(str_compares)
{
    CHECK(str_eq(STR("abc"), STR("abc")));
    CHECK(!str_eq(STR("abc"), STR("abd")));
    CHECK(str_eq((struct str){0}, STR("")));
    CHECK(str_eq_nocase(STR("AbC"), STR("aBc")));
    CHECK(str_cmp(STR("a"), STR("ab")) < 0);
    CHECK(str_cmp(STR("b"), STR("ab")) > 0);
    CHECK(str_starts(STR("/workspace/x"), STR("/workspace")));
    CHECK(!str_starts(STR("/w"), STR("/workspace")));
    CHECK(str_ends(STR("a.ts"), STR(".ts")));
    CHECK(!str_ends(STR("s"), STR(".ts")));
}

TEST(str_finds_and_slices)
{
    CHECK_INT(str_find_char(STR("a=b"), '='), 1);
    CHECK_INT(str_find_char(STR("ab"), '='), 2);
    CHECK_INT(str_find(STR("hello"), STR("llo")), 2);
    CHECK_INT(str_find(STR("hello"), STR("x")), 5);
    CHECK_INT(str_find(STR(""), STR("x")), 0);
    CHECK_STR(str_slice(STR("hello"), 1, 3), "el");
    CHECK_STR(str_slice(STR("hello"), 4, 99), "o");
    CHECK_STR(str_slice(STR("hello"), 9, 2), "");
    CHECK_STR(str_trim(STR(" \t a b\r\n")), "a b");
    CHECK_STR(str_trim(STR("  ")), "");
}

TEST(str_split_keeps_empty_parts)
{
    struct str rest = STR("a,,b,"), part;
    CHECK(str_split(&rest, ',', &part));
    CHECK_STR(part, "a");
    CHECK(str_split(&rest, ',', &part));
    CHECK_STR(part, "");
    CHECK(str_split(&rest, ',', &part));
    CHECK_STR(part, "b");
    CHECK(str_split(&rest, ',', &part));
    CHECK_STR(part, "");
    CHECK(!str_split(&rest, ',', &part));
}

TEST(str_is_hex_takes_only_lower_case_digits)
{
    CHECK(str_is_hex(STR("09af")) && str_is_hex(STR("")));
    CHECK(!str_is_hex(STR("0A")) && !str_is_hex(STR("g")) && !str_is_hex(STR("0x1")));
}

TEST(str_to_hex_takes_only_digits)
{
    static const char *const bad[] = {"", "0x1", "-1", "+1", " 1", "1 ", "g", "1234567890abcdef"};
    uint64_t n = 7;
    CHECK(str_to_hex(STR("0"), &n) && n == 0);
    CHECK(str_to_hex(STR("fFaA09"), &n) && n == 0xffaa09);
    CHECK(str_to_hex(STR("fffffffffffffff"), &n) && n == 0xfffffffffffffff);
    for (size_t i = 0; i < countof(bad); i++)
        CHECK(!str_to_hex(str_of(bad[i]), &n));
    CHECK(n == 0xfffffffffffffff);
    for (int c = -1; c < 256; c++)
        CHECK_INT(char_hex(c) >= 0, c > 0 && strchr("0123456789abcdefABCDEF", c) != NULL);
}

TEST(characters_are_those_of_ascii)
{
    size_t digits = 0, others = 0;
    for (int c = -200; c < 400; c++) {
        digits += char_is_digit(c);
        others += char_is_alnum(c);
    }
    CHECK_INT(digits, 10);
    CHECK_INT(others, 10 + 26 + 26);
    CHECK(char_is_digit('0') && char_is_digit('9'));
    CHECK(char_is_alnum('0') && char_is_alnum('a') && char_is_alnum('Z'));
    CHECK(!char_is_digit((char)0xb2) && !char_is_alnum((char)0xe9));
}

TEST(str_to_i64_has_no_default)
{
    int64_t n = 42;
    CHECK(str_to_i64(STR("0"), 0, 10, &n));
    CHECK_INT(n, 0);
    CHECK(str_to_i64(STR("-9223372036854775808"), INT64_MIN, INT64_MAX, &n));
    CHECK(n == INT64_MIN);
    CHECK(str_to_i64(STR("9223372036854775807"), INT64_MIN, INT64_MAX, &n));
    CHECK(n == INT64_MAX);
    n = 42;
    const char *const bad[] = {"",  "-", "+1", " 1", "1 ", "0x10", "1e3", "9223372036854775808",
                               "11"};
    for (size_t i = 0; i < countof(bad); i++)
        CHECK(!str_to_i64(str_of(bad[i]), INT64_MIN, 10, &n));
    CHECK_INT(n, 42);
}

TEST(str_to_f64_takes_numbers_only)
{
    double x = 1;
    CHECK(str_to_f64(STR("-2.5e3"), &x));
    CHECK(x == -2500.0);
    CHECK(!str_to_f64(STR("inf"), &x));
    CHECK(!str_to_f64(STR("0x1p3"), &x));
    CHECK(!str_to_f64(STR(" 1"), &x));
    CHECK(!str_to_f64(STR("1e999"), &x));
    CHECK(!str_to_f64(STR(""), &x));
}

TEST(str_is_utf8_follows_rfc_3629)
{
    CHECK(str_is_utf8(STR("")));
    CHECK(str_is_utf8(STR("plain")));
    CHECK(str_is_utf8(STR("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80")));
    CHECK(!str_is_utf8(STR("\xc0\xaf")));         /* overlong */
    CHECK(!str_is_utf8(STR("\xe0\x80\xaf")));     /* overlong */
    CHECK(!str_is_utf8(STR("\xed\xa0\x80")));     /* surrogate */
    CHECK(!str_is_utf8(STR("\xf4\x90\x80\x80"))); /* past U+10FFFF */
    CHECK(!str_is_utf8(STR("\xe2\x82")));         /* cut short */
    CHECK(!str_is_utf8(STR("\x80")));
    CHECK(!str_is_utf8(STR("\xff")));
}

TEST(str_to_cstr_refuses_nul_and_overflow)
{
    struct err err = {0};
    char out[4] = "zzz";
    CHECK_OK(str_to_cstr(STR("abc"), out, sizeof out, &err));
    CHECK_CSTR(out, "abc");
    CHECK_ERR(str_to_cstr(STR("abcd"), out, sizeof out, &err), ERR_TOO_LARGE);
    CHECK_ERR(str_to_cstr(STR("a\0b"), out, sizeof out, &err), ERR_INVALID);
}

TEST(nearest_suggests_only_what_is_near)
{
    CHECK_INT(str_distance(STR("kitten"), STR("sitting")), 3);
    CHECK_INT(str_distance(STR("ab"), STR("ba")), 1);
    struct nearest nearest = {.word = STR("timeout_secnds")};
    nearest_offer(&nearest, STR("memory_mb"));
    CHECK_STR(nearest.best, "");
    nearest_offer(&nearest, STR("timeout_seconds"));
    nearest_offer(&nearest, STR("idle_seconds"));
    CHECK_STR(nearest.best, "timeout_seconds");
}
