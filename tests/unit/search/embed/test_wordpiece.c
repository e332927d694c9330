#include "search/embed/wordpiece.h"

#include "base/buf.h"
#include "test.h"

/* Equality with the reference is what tests/integration/embed.test.mjs shows. */

#define SPECIALS "\"[PAD]\":0,\"[UNK]\":1,\"[CLS]\":2,\"[SEP]\":3,\"[MASK]\":4"

static void load(const char *vocab, size_t size, struct wordpiece **ret_wordpiece)
{
    struct err err = {0};
    AUTO_BUF struct buf json = {0};
    buf_printf(&json, "{\"model\":{\"vocab\":{%s}}}", vocab);
    CHECK_OK(wordpiece_load(buf_str(&json), size, ret_wordpiece, &err));
}

/* "2 5 3" */
static void check_ids(const struct wordpiece *wordpiece, struct str text, size_t max,
                      const char *expected)
{
    uint16_t ids[300];
    AUTO_BUF struct buf line = {0};
    size_t count = wordpiece_encode(wordpiece, text, ids, max);
    for (size_t i = 0; i < count; i++)
        buf_printf(&line, "%s%d", i == 0 ? "" : " ", ids[i]);
    CHECK_CSTR(buf_cstr(&line), expected);
}

TEST(words_become_their_longest_pieces)
{
    AUTO_WORDPIECE struct wordpiece *wordpiece = NULL;
    load(SPECIALS
         ",\"un\":5,\"##a\":6,\"##able\":7,\"una\":8,\"!\":9,\"\xe6\x9d\xb1\":10,\"##b\":11",
         12, &wordpiece);
    check_ids(wordpiece, STR("unb"), 256, "2 5 11 3");
    check_ids(wordpiece, STR("unable"), 256, "2 1 3"); /* not un, able: una comes first */
    check_ids(wordpiece, STR("una"), 256, "2 8 3");
    check_ids(wordpiece, STR("unx"), 256, "2 1 3");
    check_ids(wordpiece, STR(""), 256, "2 3");
    check_ids(wordpiece, STR("UN\xc3\xa0!un"), 256, "2 8 9 5 3");
    check_ids(wordpiece, STR("un\xe6\x9d\xb1un"), 256, "2 5 10 5 3");
    check_ids(wordpiece, STR("un[SEP]un[SEPun"), 256, "2 5 3 5 1 1 3");
    check_ids(wordpiece, STR("un\0un\xff"), 256, "2 1 3");
}

TEST(a_text_is_cut_at_the_limit)
{
    AUTO_WORDPIECE struct wordpiece *wordpiece = NULL;
    load(SPECIALS ",\"a\":5,\"##a\":6", 7, &wordpiece);
    check_ids(wordpiece, STR("a a a a a a"), 5, "2 5 5 5 3");
    check_ids(wordpiece, STR("aaaaaa"), 5, "2 5 6 6 3");
    check_ids(wordpiece, STR("a"), 2, "2 3");
    /* A word that is unknown at its end is so when it is cut, too. */
    check_ids(wordpiece, STR("aaaaaax"), 5, "2 1 3");
}

TEST(a_long_word_is_unknown_and_costs_its_length_only)
{
    AUTO_WORDPIECE struct wordpiece *wordpiece = NULL;
    AUTO_BUF struct buf text = {0};
    load(SPECIALS ",\"a\":5,\"##a\":6", 7, &wordpiece);
    for (int i = 0; i < 10 << 20; i++)
        buf_put_char(&text, 'a');
    check_ids(wordpiece, buf_str(&text), 256, "2 1 3");
    uint16_t ids[256];
    CHECK_INT(wordpiece_encode(wordpiece, str_slice(buf_str(&text), 0, 100), ids, 256), 102);
    CHECK_INT(wordpiece_encode(wordpiece, str_slice(buf_str(&text), 0, 101), ids, 256), 3);
}

TEST(a_wrong_vocabulary_is_refused)
{
    static const char *const vocabs[] = {
        SPECIALS,
        SPECIALS ",\"a\":5,\"b\":5",
        SPECIALS ",\"a\":5,\"b\":7",
        SPECIALS ",\"a\":5,\"b\":-1",
        SPECIALS ",\"a\":5,\"b\":\"6\"",
        SPECIALS ",\"a\":5,\"\":6",
        "\"a\":0,\"b\":1,\"c\":2,\"d\":3,\"e\":4,\"f\":5,\"g\":6",
    };
    struct err err = {0};
    struct wordpiece *wordpiece = NULL;
    for (size_t i = 0; i < countof(vocabs); i++) {
        AUTO_BUF struct buf json = {0};
        buf_printf(&json, "{\"model\":{\"vocab\":{%s}}}", vocabs[i]);
        CHECK_ERR(wordpiece_load(buf_str(&json), 7, &wordpiece, &err), ERR_INVALID);
    }
    CHECK_ERR(wordpiece_load(STR("[]"), 7, &wordpiece, &err), ERR_INVALID);
    CHECK_ERR(wordpiece_load(STR("{\"model\":{\"vocab\":[]}}"), 7, &wordpiece, &err), ERR_INVALID);
    CHECK_ERR(wordpiece_load(STR("{"), 7, &wordpiece, &err), ERR_INVALID);
    CHECK(wordpiece == NULL);
}
