#include "test.h"

#include "base/buf.h"
#include "base/format/base64.h"
#include "base/id.h"
#include "egress/keys/scrub.h"
#include "egress/keys/secrets.h"

static const char value[] = "cnry+\"A/b%&'\\ 9_cdef";

struct stage {
    struct secrets *secrets;
    struct host host;
    struct scrub *scrub;
};

static void add(struct stage *stage, const char *rule_text, const char *text)
{
    struct err err = {0};
    struct secret_rule rule;
    CHECK_OK(secret_rule_parse(str_of(rule_text), &rule, &err));
    CHECK_OK(secrets_add(stage->secrets, &rule, str_of(text), &err));
}

static void stage_open(struct stage *stage, enum scrub_mode mode)
{
    struct err err = {0};
    stage->secrets = secrets_new();
    CHECK_OK(host_parse(STR("ok.test"), &stage->host, &err));
    add(stage, "KEY=env:K@ok.test", value);
    stage->scrub = scrub_new(stage->secrets, &stage->host, 443, mode);
}

static void stage_close(struct stage *stage)
{
    (void)scrub_free(stage->scrub);
    (void)secrets_free(stage->secrets);
}
#define AUTO_STAGE AUTO(stage_close)

static struct str placeholder(const struct stage *stage)
{
    return str_of(secrets_at(stage->secrets, 0)->placeholder);
}

/* The text with some spelling of the value in it, in pieces of every size: what comes out is the
 * same each time, and has the placeholder where the value stood. */
static void check_found(struct stage *stage, struct str before, struct str spelled,
                        struct str after)
{
    AUTO_BUF struct buf in = {0}, out = {0}, expected = {0};
    buf_put(&in, before), buf_put(&in, spelled), buf_put(&in, after);
    buf_put(&expected, before), buf_put(&expected, placeholder(stage)), buf_put(&expected, after);
    for (size_t step = 1; step <= in.len; step++) {
        buf_clear(&out);
        for (size_t at = 0; at < in.len; at += step)
            scrub_feed(stage->scrub, str_slice(buf_str(&in), at, at + step), &out);
        scrub_end(stage->scrub, &out);
        CHECK_STR(buf_str(&out), buf_cstr(&expected));
    }
}

TEST(values_are_found_however_they_are_spelled)
{
    static const char *const spelled[] = {
        value,
        /* JSON */
        "cnry+\\\"A/b%&'\\\\ 9_cdef",
        "cnry+\\\"A\\/b%\\u0026\\u0027\\\\ 9_cdef",
        "\\u0063nry+\\u0022A/b%&'\\u005c\\u00209_cdef",
        /* URLs: encodeURIComponent, forms, lower case */
        "cnry%2B%22A%2Fb%25%26'%5C%209_cdef",
        "cnry%2b%22A%2fb%25%26%27%5c+9_cdef",
        "%63%6e%72%79%2B%22%41%2F%62%25%26%27%5C%20%39%5F%63%64%65%66",
        /* HTML */
        "cnry+&quot;A/b%&amp;&#39;\\ 9_cdef",
        "cnry+&#34;A&#x2F;b%&amp;&apos;\\ 9_cdef",
        /* other sources */
        "\\x63nry+\\\"A/b%&\\'\\\\ 9_cdef",
        /* hexadecimal */
        "636e72792b22412f622526275c20395f63646566",
        "636E72792B22412F622526275C20395F63646566",
    };
    AUTO_STAGE struct stage stage = {0};
    AUTO_BUF struct buf far = {0}, out = {0};
    stage_open(&stage, SCRUB_REPLACE);
    for (int i = 0; i < 20000; i++)
        buf_printf(&far, "%d,", i);
    for (int is_long = 0; is_long < 2; is_long++) {
        for (size_t i = 0; i < countof(spelled); i++) {
            check_found(&stage, STR(""), str_of(spelled[i]), STR(""));
            check_found(&stage, STR("{\"token\": \"c cn cnry"), str_of(spelled[i]), STR("\"}\n%6"));
        }
        /* Long streams are searched with another table. */
        scrub_feed(stage.scrub, buf_str(&far), &out);
        scrub_end(stage.scrub, &out);
        CHECK(str_ends(buf_str(&out), buf_str(&far)));
    }
}

/* "x:VALUE:y" in base64: the digits that only the value decides are removed. */
TEST(values_are_found_in_base64_at_every_offset)
{
    static const char *const before[] = {"", "u", "us", "user:", "xx:yy:z"};
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage, SCRUB_REPLACE);
    for (size_t i = 0; i < countof(before); i++) {
        for (int url = 0; url < 2; url++) {
            AUTO_BUF struct buf plain = {0}, coded = {0}, out = {0};
            buf_printf(&plain, "%s%s:rest", before[i], value);
            base64_put(buf_str(&plain), &coded);
            for (size_t k = 0; url == 1 && k < coded.len; k++)
                coded.ptr[k] = coded.ptr[k] == '+' ? '-' : coded.ptr[k] == '/' ? '_' : coded.ptr[k];
            for (size_t step = 1; step < coded.len; step += 3) {
                buf_clear(&out);
                for (size_t at = 0; at < coded.len; at += step)
                    scrub_feed(stage.scrub, str_slice(buf_str(&coded), at, at + step), &out);
                scrub_end(stage.scrub, &out);
                CHECK(str_find(buf_str(&out), placeholder(&stage)) < out.len);
                CHECK(out.len < coded.len + PLACEHOLDER_LEN - 20);
            }
        }
    }
}

TEST(base64_may_be_broken_into_lines)
{
    AUTO_STAGE struct stage stage = {0};
    AUTO_BUF struct buf coded = {0}, broken = {0}, out = {0};
    stage_open(&stage, SCRUB_REPLACE);
    base64_put(str_of(value), &coded);
    for (size_t i = 0; i < coded.len; i++) {
        buf_put_char(&broken, coded.ptr[i]);
        if (i % 5 == 4)
            buf_put_cstr(&broken, "\r\n");
    }
    scrub_text(stage.scrub, buf_str(&broken), &out);
    CHECK(str_starts(buf_str(&out), placeholder(&stage)));
}

TEST(what_only_looks_alike_passes)
{
    static const char *const texts[] = {
        "",
        "c",
        "cnry",
        "cnry+\"A/b%&'\\ 9_cde",
        "cnry+\"A/b%&'\\ 9_cdeg",
        "%",
        "%6",
        "\\",
        "\\u00",
        "&",
        "&am",
        "%%%%",
        "\\\\\\\\",
        "&&&&;;;",
        "%63nry",
        "636e7279",
        "ccccnry+\"A/b%&'\\ 9_cdecnry",
    };
    AUTO_STAGE struct stage stage = {0};
    AUTO_BUF struct buf out = {0};
    stage_open(&stage, SCRUB_REPLACE);
    for (size_t i = 0; i < countof(texts); i++) {
        struct str text = str_of(texts[i]);
        for (size_t step = 1; step <= text.len; step++) {
            buf_clear(&out);
            for (size_t at = 0; at < text.len; at += step)
                scrub_feed(stage.scrub, str_slice(text, at, at + step), &out);
            scrub_end(stage.scrub, &out);
            CHECK_STR(buf_str(&out), texts[i]);
        }
    }
}

TEST(an_overlapping_false_start_does_not_hide_the_value)
{
    AUTO_STAGE struct stage stage = {.secrets = secrets_new()};
    struct err err = {0};
    CHECK_OK(host_parse(STR("ok.test"), &stage.host, &err));
    add(&stage, "KEY=env:K@ok.test", "aabaabaac");
    stage.scrub = scrub_new(stage.secrets, &stage.host, 443, SCRUB_REPLACE);
    check_found(&stage, STR("aabaab"), STR("aabaabaac"), STR("aab"));
}

TEST(of_two_values_the_longer_wins)
{
    AUTO_STAGE struct stage stage = {.secrets = secrets_new()};
    struct err err = {0};
    AUTO_BUF struct buf out = {0};
    CHECK_OK(host_parse(STR("ok.test"), &stage.host, &err));
    add(&stage, "SHORT=env:K@ok.test", "key-12345");
    add(&stage, "LONG=env:K@ok.test", "key-1234567890");
    add(&stage, "ELSEWHERE=env:K@ok2.test", "not-for-this-host");
    stage.scrub = scrub_new(stage.secrets, &stage.host, 443, SCRUB_REPLACE);
    struct str text = STR("key-12345 key-1234567890 key-12345678 not-for-this-host");
    for (size_t i = 0; i < text.len; i++)
        scrub_feed(stage.scrub, str_slice(text, i, i + 1), &out);
    scrub_end(stage.scrub, &out);
    AUTO_BUF struct buf expected = {0};
    const char *small = secrets_at(stage.secrets, 0)->placeholder;
    buf_printf(&expected, "%s %s %s678 not-for-this-host", small,
               secrets_at(stage.secrets, 1)->placeholder, small);
    CHECK_STR(buf_str(&out), buf_cstr(&expected));
}

TEST(masking_keeps_the_length)
{
    AUTO_STAGE struct stage stage = {0};
    AUTO_BUF struct buf in = {0}, out = {0};
    stage_open(&stage, SCRUB_MASK);
    buf_printf(&in, "<%s>", value);
    scrub_text(stage.scrub, buf_str(&in), &out);
    CHECK_INT(out.len, in.len);
    CHECK(str_starts(buf_str(&out), STR("<sgs_")));
    buf_clear(&in), buf_clear(&out);
    buf_put_cstr(&in, "%63%6e%72%79%2B%22%41%2F%62%25%26%27%5C%20%39%5F%63%64%65%66");
    scrub_text(stage.scrub, buf_str(&in), &out);
    CHECK_INT(out.len, in.len);
    CHECK(str_ends(buf_str(&out), STR("***")));
}

TEST(without_a_bound_secret_bytes_pass)
{
    AUTO_STAGE struct stage stage = {.secrets = secrets_new()};
    struct err err = {0};
    AUTO_BUF struct buf out = {0};
    CHECK_OK(host_parse(STR("ok2.test"), &stage.host, &err));
    add(&stage, "KEY=env:K@ok.test", value);
    stage.scrub = scrub_new(stage.secrets, &stage.host, 443, SCRUB_REPLACE);
    CHECK(scrub_is_idle(stage.scrub));
    scrub_feed(stage.scrub, str_of(value), &out);
    CHECK_STR(buf_str(&out), value);
}

TEST(random_bytes_pass_unchanged_in_any_pieces)
{
    AUTO_STAGE struct stage stage = {0};
    stage_open(&stage, SCRUB_REPLACE);
    char bytes[4096];
    AUTO_BUF struct buf out = {0};
    for (int round = 0; round < 50; round++) {
        unsigned char cut;
        id_random(bytes, sizeof bytes);
        buf_clear(&out);
        for (size_t at = 0; at < sizeof bytes; at += (size_t)cut + 1) {
            id_random(&cut, 1);
            scrub_feed(stage.scrub, str_slice(str_n(bytes, sizeof bytes), at, at + cut + 1), &out);
        }
        scrub_end(stage.scrub, &out);
        CHECK(str_eq(buf_str(&out), str_n(bytes, sizeof bytes)));
    }
}
