#include "test.h"

#include <math.h>

#include "base/format/json.h"
#include "base/format/json_text.h"

static void check_round_trip(const char *text, const char *expected)
{
    struct err err = {0};
    AUTO_JSON struct json_t *value = NULL;
    CHECK_OK(json_parse(str_of(text), &value, &err));
    AUTO_BUF struct buf buf = {0};
    struct json_out out = {.buf = &buf};
    json_put_value(&out, value);
    CHECK_CSTR(buf_cstr(&buf), expected);
}

TEST(json_round_trips)
{
    check_round_trip("{\"b\": [1, 2.5, -0.0, true, null], \"a\": {\"x\": \"\\u00e9\\n\"}}",
                     "{\"b\":[1,2.5,-0.0,true,null],\"a\":{\"x\":\"\xc3\xa9\\n\"}}");
    check_round_trip("0.1", "0.1");
    check_round_trip("1e300", "1e+300");
    check_round_trip("\"\\ud83d\\ude00\"", "\"\xf0\x9f\x98\x80\"");
    check_round_trip("[]", "[]");
    check_round_trip("{}", "{}");
}

TEST(json_refuses_what_is_not_strict)
{
    struct err err = {0};
    struct json_t *value = NULL;
    const char *const bad[] = {
        "",         "{\"a\":1,\"a\":2}",
        "[1,]",     "{a:1}",
        "1 2",      "\"\\ud800\"",
        "\"\xff\"", "1e999",
        "// x\n1",  "\357\273\277true",
        "\"a\nb\"", "+1",
        "'x'",      "01",
        "NaN",      "\"\\u0000\"",
        "[",        "tru",
        "1e5x",
    };
    for (size_t i = 0; i < countof(bad); i++)
        CHECK_ERR(json_parse(str_of(bad[i]), &value, &err), ERR_INVALID);
    CHECK(value == NULL);
    CHECK_ERR(json_parse(STR("[1,\n  x]"), &value, &err), ERR_INVALID);
    CHECK_MSG("line 2");
}

TEST(json_depth_ends_at_64)
{
    struct err err = {0};
    char text[200000];
    for (int depth = 64; depth <= 65; depth++) {
        size_t half = (size_t)depth;
        memset(text, '[', half);
        memset(text + half, ']', half);
        AUTO_JSON struct json_t *value = NULL;
        int result = json_parse(str_n(text, 2 * half), &value, &err);
        CHECK_INT(result, depth == 64 ? 0 : -1);
    }
    memset(text, '[', sizeof text);
    struct json_t *value = NULL;
    CHECK_ERR(json_parse(str_n(text, sizeof text), &value, &err), ERR_INVALID);
    /* Brackets in strings do not count. */
    memset(text, '[', 200);
    text[0] = text[199] = '"';
    CHECK_OK(json_parse(str_n(text, 200), &value, &err));
    (void)json_free(value);
}

TEST(json_readers_tell_kinds_apart)
{
    struct err err = {0};
    AUTO_JSON struct json_t *value = NULL;
    CHECK_OK(
        json_parse(STR("{\"s\":\"x\",\"n\":7,\"f\":1.5,\"b\":false,\"z\":null}"), &value, &err));
    struct str s;
    int64_t n = 0;
    double f = 0;
    bool b = true;
    CHECK(json_to_str(json_get(value, "s"), &s));
    CHECK(json_to_i64(json_get(value, "n"), &n) && n == 7);
    CHECK(json_to_f64(json_get(value, "n"), &f) && f == 7.0);
    CHECK(!json_to_i64(json_get(value, "f"), &n));
    CHECK(json_to_bool(json_get(value, "b"), &b) && !b);
    CHECK(!json_to_str(json_get(value, "absent"), &s));
    CHECK_INT(json_kind(json_get(value, "z")), JSON_KIND_NULL);
    CHECK_INT(json_len(value), 5);
}

TEST(an_integer_is_one_however_it_is_written)
{
    static const struct {
        const char *text;
        bool is_integer;
        int64_t n;
    } rows[] = {
        {"2", true, 2},
        {"2.0", true, 2},
        {"2e0", true, 2},
        {"20E-1", true, 2},
        {"-0.0", true, 0},
        {"-1.0", true, -1},
        {"9007199254740992.0", true, INT64_C(9007199254740992)},
        {"-9007199254740992.0", true, -INT64_C(9007199254740992)},
        {"9223372036854775807", true, INT64_MAX},
        {"2.5", false, 0},
        {"1e-9", false, 0},
        {"9007199254740994.0", false, 0},
        {"1e300", false, 0},
        {"-1e19", false, 0},
        {"true", false, 0},
        {"\"2\"", false, 0},
        {"null", false, 0},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct err err = {0};
        AUTO_JSON struct json_t *value = NULL;
        int64_t n = -7;
        CHECK_OK(json_parse(str_of(rows[i].text), &value, &err));
        CHECK_INT(json_to_i64(value, &n), rows[i].is_integer);
        CHECK_INT(n, rows[i].is_integer ? rows[i].n : -7);
    }
    int64_t n = 1;
    CHECK(!json_to_i64(NULL, &n) && n == 1);
}

TEST(json_writing_survives_any_bytes)
{
    AUTO_BUF struct buf buf = {0};
    struct json_out out = {.buf = &buf};
    json_begin_array(&out);
    json_put_str(&out, STR("a\"\\\x01\x7f\xff\xc3\xa9\xc3"));
    json_put_f64(&out, NAN);
    json_put_cstr(&out, NULL);
    json_end_array(&out);
    CHECK_CSTR(buf_cstr(&buf),
               "[\"a\\\"\\\\\\u0001\x7f\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\",null,null]");
}

/* What a client sends comes back in answers: written again it must not be longer. */
TEST(json_a_text_is_not_longer_when_it_is_written_again)
{
    AUTO_BUF struct buf text = {0}, again = {0};
    AUTO_JSON struct json_t *value = NULL;
    struct err err;
    buf_put_char(&text, '"');
    for (int c = 1; c < 0x80; c++)
        if (c < 0x20)
            buf_put_cstr(&text, c == '\b'   ? "\\b"
                                : c == '\f' ? "\\f"
                                : c == '\n' ? "\\n"
                                : c == '\r' ? "\\r"
                                : c == '\t' ? "\\t"
                                            : "\\u0001");
        else if (c != '"' && c != '\\')
            buf_put_char(&text, (char)c);
    buf_put_cstr(&text, "\\\"\\\\\xc2\x80\xf0\x9f\x98\x80\"");
    CHECK_OK(json_parse(buf_str(&text), &value, &err));
    json_put_value(&(struct json_out){.buf = &again}, value);
    CHECK_STR(buf_str(&again), buf_cstr(&text));
}

TEST(json_a_nul_hides_nothing)
{
    AUTO_BUF struct buf text = {0};
    AUTO_JSON struct json_t *value = NULL;
    struct err err;
    struct str shown;
    json_put_str(&(struct json_out){.buf = &text}, str_n("a\0b\\u0000\\\0\\", 12));
    CHECK_ERR(json_parse(buf_str(&text), &value, &err), ERR_INVALID);
    json_hide_nul(&text);
    CHECK_OK(json_parse(buf_str(&text), &value, &err));
    CHECK(json_to_str(value, &shown));
    CHECK_STR(shown, "a\xef\xbf\xbd"
                     "b\\u0000\\\xef\xbf\xbd\\");
}

static int parse_many(const char *unit, size_t bytes, struct err *err)
{
    AUTO_BUF struct buf text = {0}, many = {0};
    AUTO_JSON struct json_t *value = NULL;
    while (many.len < 4096)
        buf_printf(&many, "%s,", unit);
    buf_put_char(&text, '[');
    while (text.len + many.len + strlen(unit) + 1 < bytes)
        buf_put(&text, buf_str(&many));
    buf_printf(&text, "%s]", unit);
    return json_parse(buf_str(&text), &value, err);
}

/* Sixteen MiB of empty objects would be more than a GiB of memory. */
TEST(json_a_short_text_makes_no_huge_tree)
{
    static const char *const units[] = {"{}", "[]", "\"\"", "0", "[{}]", "{\"\":0}"};
    struct err err;
    for (size_t i = 0; i < countof(units); i++) {
        CHECK_ERR(parse_many(units[i], JSON_SIZE_MAX, &err), ERR_TOO_LARGE);
        CHECK_OK(parse_many(units[i], 256 << 10, &err));
    }
    CHECK_OK(parse_many("0", 3 << 20, &err));
    CHECK_OK(parse_many("\"{},{},[],[],{},{},[],[]{},{},[],[]{},{},[],[]{},{},[],[]{},{},[],[]\"",
                        JSON_SIZE_MAX, &err));
}

TEST(json_pretty_printing)
{
    AUTO_BUF struct buf buf = {0};
    struct json_out out = {.buf = &buf, .pretty = true};
    json_begin_object(&out);
    json_key(&out, "a");
    json_put_i64(&out, 1);
    json_key(&out, "b");
    json_begin_array(&out);
    json_put_bool(&out, true);
    json_end_array(&out);
    json_key(&out, "c");
    json_begin_object(&out);
    json_end_object(&out);
    json_end_object(&out);
    CHECK_CSTR(buf_cstr(&buf), "{\n  \"a\": 1,\n  \"b\": [\n    true\n  ],\n  \"c\": {}\n}");
}

TEST(json_put_texts_writes_an_array)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    const struct str texts[] = {STR("a"), STR("\"")};
    json_begin_object(&out);
    json_key(&out, "none"), json_put_texts(&out, NULL, 0);
    json_key(&out, "two"), json_put_texts(&out, texts, countof(texts));
    json_end_object(&out);
    CHECK_STR(buf_str(&text), "{\"none\":[],\"two\":[\"a\",\"\\\"\"]}");
}
