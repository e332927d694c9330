#include "test.h"

#include "base/buf.h"
#include "base/crypto/hash.h"
#include "search/stem.h"
#include "search/terms.h"
#include "search/words.h"

static void join(void *ctx, struct str term, UNUSED struct str raw)
{
    struct buf *out = ctx;
    if (out->len > 0)
        buf_put_char(out, ' ');
    buf_put(out, term);
}

static const char *words(const char *text)
{
    static char kept[4096];
    AUTO_BUF struct buf out = {0};
    words_each(str_of(text), join, &out);
    (void)snprintf(kept, sizeof kept, "%s", buf_cstr(&out));
    return kept;
}

TEST(stem_follows_porter)
{
    static const char *const pairs[][2] = {
        {"caresses", "caress"},
        {"ponies", "poni"},
        {"cats", "cat"},
        {"feed", "feed"},
        {"agreed", "agre"},
        {"plastered", "plaster"},
        {"motoring", "motor"},
        {"sing", "sing"},
        {"conflated", "conflat"},
        {"hopping", "hop"},
        {"falling", "fall"},
        {"filing", "file"},
        {"happy", "happi"},
        {"sky", "sky"},
        {"relational", "relat"},
        {"conditional", "condit"},
        {"vietnamization", "vietnam"},
        {"operator", "oper"},
        {"hopefulness", "hope"},
        {"triplicate", "triplic"},
        {"formalize", "formal"},
        {"revival", "reviv"},
        {"adjustment", "adjust"},
        {"adoption", "adopt"},
        {"probate", "probat"},
        {"rate", "rate"},
        {"controll", "control"},
        {"roll", "roll"},
        {"connections", "connect"},
        {"embedding", "embed"},
        {"streaming", "stream"},
        {"yyyy", "yyyi"},
        {"is", "is"},
    };
    for (size_t i = 0; i < countof(pairs); i++) {
        char word[64];
        (void)snprintf(word, sizeof word, "%s", pairs[i][0]);
        size_t len = stem_word(word, strlen(word));
        CHECK_STR(str_n(word, len), pairs[i][1]);
    }
}

TEST(identifiers_are_whole_and_in_parts)
{
    CHECK_CSTR(words("createClient"), "creat client createcli");
    CHECK_CSTR(words("create_client"), "creat client createcli");
    CHECK_CSTR(words("z.object()"), "z object zobject");
    CHECK_CSTR(words("HTTPServer2"), "http server2 httpserver2");
    CHECK_CSTR(words("__init__"), "init");
    CHECK_CSTR(words("end. Next"), "end next");
    CHECK_CSTR(words("plain words"), "plain word");
}

TEST(accents_case_and_scripts_are_folded)
{
    CHECK_CSTR(words("Caf\xc3\xa9 \xc3\x9c"
                     "ber"),
               "cafe uber");
    CHECK_CSTR(words("\xd0\x9c\xd0\xb8\xd1\x80"), "\xd0\xbc\xd0\xb8\xd1\x80");
    CHECK_CSTR(words("\xe6\x97\xa5\xe6\x9c\xac"), "\xe6\x97\xa5 \xe6\x9c\xac");
    CHECK_CSTR(words("a\xe2\x80\x94"
                     "b"),
               "a b");
}

TEST(bytes_that_are_no_text_end)
{
    CHECK_CSTR(words("\xff\xfe\x80 x \xc3"), "x");
    AUTO_BUF struct buf out = {0};
    words_each(str_n("a\0b", 3), join, &out);
    CHECK_STR(buf_str(&out), "a b");
}

static void count(void *ctx, struct str term, UNUSED struct str raw)
{
    CHECK(term.len <= WORD_MAX);
    ++*(size_t *)ctx;
}

TEST(long_word_is_cut)
{
    AUTO_MEM char *word = mem_alloc(10 << 20);
    size_t terms = 0;
    memset(word, 'a', 10 << 20);
    words_each(str_n(word, 10 << 20), count, &terms);
    CHECK(terms > 0 && terms <= (10 << 20) / IDENTIFIER_MAX + 1);
    memset(word, '.', 10 << 20);
    terms = 0;
    words_each(str_n(word, 10 << 20), count, &terms);
    CHECK_INT(terms, 0);
}

/* Terms are stored: when this text gives other ones, raise TERMS_VERSION and set the new hash. */
TEST(terms_are_those_of_their_version)
{
    char hex[HASH_HEX_SIZE];
    AUTO_BUF struct buf terms = {0};
    terms_put(&terms,
              STR("The createClient_v2 of @acme/sdk (caf\xc3\xa9, \xe6\x97\xa5\xe6\x9c\xac) is "
                  "running 3.14 times; HTTPServer.listenAndServe() relational, hopping, ponies, "
                  "agreed, probabilities, don't, x86_64, snake_case_name, \xc3\x9c"
                  "ber."));
    hash_sha256_hex(buf_str(&terms), hex);
    CHECK_INT(TERMS_VERSION, 1);
    CHECK_CSTR(hex, "cd691dad43de59f7dd17e006072b66c7b10d52f655e4b1a77d0b03053b8fc034");
}

TEST(common_words)
{
    CHECK(word_is_common(STR("the")) && word_is_common(STR("a")) && word_is_common(STR("your")));
    CHECK(!word_is_common(STR("stream")) && !word_is_common(STR("")));
}
