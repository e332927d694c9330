/* A byte, then a text or a tokenizer. The tokenizer of a small vocabulary keeps its limits for any
 * text, finds the same ids for a text that is cut behind them, and refuses or takes any file. */

#include "fuzz.h"

#include "base/err.h"
#include "search/embed/wordpiece.h"

enum { VOCAB = 14, IDS_MAX = 32 };

static const char tokenizer[] =
    "{\"model\":{\"vocab\":{\"[PAD]\":0,\"[UNK]\":1,\"[CLS]\":2,\"[SEP]\":3,\"[MASK]\":4,\"a\":5,"
    "\"##a\":6,\"##b\":7,\"ab\":8,\"abba\":9,\"!\":10,\"\xe6\x9d\xb1\":11,\"\xe1\x84\x80\":12,"
    "\"##\xe1\x85\xa1\":13}}}";

static const struct wordpiece *the_tokenizer(void)
{
    static struct wordpiece *wordpiece;
    struct err err;
    if (wordpiece == NULL && wordpiece_load(str_of(tokenizer), VOCAB, &wordpiece, &err) < 0)
        assert(false);
    return wordpiece;
}

static void check_text(struct str text)
{
    uint16_t all[1024], few[IDS_MAX];
    size_t count = wordpiece_encode(the_tokenizer(), text, all, countof(all));
    assert(count >= 2 && count <= countof(all) && all[0] == 2 && all[count - 1] == 3);
    for (size_t i = 0; i < count; i++)
        assert(all[i] < VOCAB);
    /* A lower limit gives the beginning of the same ids. */
    size_t short_count = wordpiece_encode(the_tokenizer(), text, few, countof(few));
    assert(short_count == (count < countof(few) ? count : countof(few)));
    assert(memcmp(all, few, (short_count - 1) * sizeof few[0]) == 0);
    assert(few[short_count - 1] == 3);
}

static void check_file(struct str file)
{
    struct err err = {0};
    AUTO_WORDPIECE struct wordpiece *wordpiece = NULL;
    uint16_t ids[IDS_MAX];
    if (wordpiece_load(file, VOCAB, &wordpiece, &err) < 0) {
        assert(err.code == ERR_INVALID || err.code == ERR_TOO_LARGE);
        return;
    }
    size_t count = wordpiece_encode(wordpiece, STR("a ab abba! [MASK] \xe6\x9d\xb1"), ids, IDS_MAX);
    for (size_t i = 0; i < count; i++)
        assert(ids[i] < VOCAB);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str input = str_n((const char *)data, size);
    if (size > 0 && data[0] == 'f')
        check_file(str_slice(input, 1, size));
    else if (size > 0)
        check_text(str_slice(input, 1, size));
    return 0;
}
