#include "search/embed/wordpiece.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/format/json.h"
#include "search/embed/fold.h"

enum { SLOTS = 1 << 17, UTF8_MAX = 4 };

/* Pieces that text may hold literally. */
enum special { PAD, UNK, CLS, SEP, MASK, SPECIALS };
static const struct str special_names[SPECIALS] = {
    [PAD] = {"[PAD]", 5}, [UNK] = {"[UNK]", 5},   [CLS] = {"[CLS]", 5},
    [SEP] = {"[SEP]", 5}, [MASK] = {"[MASK]", 6},
};

struct piece {
    uint32_t at; /* in `bytes` */
    uint32_t hash;
    uint8_t len;
    bool continues; /* a word: "##" stood before it */
    bool is_known;
};

struct wordpiece {
    struct piece *pieces; /* by id */
    size_t count;
    char *bytes;
    size_t bytes_len;
    uint32_t slots[SLOTS]; /* id plus one; 0 is free */
    uint16_t specials[SPECIALS];
    size_t longest; /* bytes of a piece */
};

/* ---- loading ---- */

/* FNV-1a, which can go on byte by byte: the hashes of all prefixes cost one pass. */
static uint32_t hash_begin(bool continues)
{
    return continues ? 0x9e3779b9u : 2166136261u;
}

static uint32_t hash_more(uint32_t hash, char c)
{
    return (hash ^ (unsigned char)c) * 16777619u;
}

static size_t wordpiece_slot_of(uint32_t hash)
{
    return (hash ^ hash >> 15) % SLOTS;
}

static int add_piece(struct wordpiece *self, struct str name, const struct json_t *value,
                     struct err *err)
{
    int64_t id = 0;
    if (!json_to_i64(value, &id) || id < 0 || (uint64_t)id >= self->count)
        return err_set(err, ERR_INVALID, "a piece of the vocabulary has no valid number");
    struct piece *piece = &self->pieces[id];
    if (piece->is_known)
        return err_set(err, ERR_INVALID, "two pieces of the vocabulary have the number %d",
                       (int)id);
    bool continues = name.len > 2 && str_starts(name, STR("##"));
    struct str text = continues ? str_slice(name, 2, name.len) : name;
    if (text.len == 0 || text.len > WORDPIECE_TOKEN_MAX)
        return err_set(err, ERR_INVALID, "piece %d of the vocabulary is empty or too long",
                       (int)id);
    uint32_t hash = hash_begin(continues);
    for (size_t i = 0; i < text.len; i++)
        hash = hash_more(hash, text.ptr[i]);
    memcpy(self->bytes + self->bytes_len, text.ptr, text.len);
    *piece = (struct piece){(uint32_t)self->bytes_len, hash, (uint8_t)text.len, continues, true};
    self->bytes_len += text.len;
    self->longest = MAX(self->longest, text.len);
    size_t slot = wordpiece_slot_of(hash);
    while (self->slots[slot] != 0)
        slot = (slot + 1) % SLOTS;
    self->slots[slot] = (uint32_t)id + 1;
    return 0;
}

static bool wordpiece_find(const struct wordpiece *self, struct str text, uint32_t hash,
                           bool continues, uint16_t *ret_id)
{
    for (size_t slot = wordpiece_slot_of(hash); self->slots[slot] != 0; slot = (slot + 1) % SLOTS) {
        const struct piece *piece = &self->pieces[self->slots[slot] - 1];
        if (piece->hash == hash && piece->continues == continues &&
            str_eq(str_n(self->bytes + piece->at, piece->len), text)) {
            *ret_id = (uint16_t)(self->slots[slot] - 1);
            return true;
        }
    }
    return false;
}

static int find_specials(struct wordpiece *self, struct err *err)
{
    for (size_t i = 0; i < SPECIALS; i++) {
        uint32_t hash = hash_begin(false);
        for (size_t k = 0; k < special_names[i].len; k++)
            hash = hash_more(hash, special_names[i].ptr[k]);
        if (!wordpiece_find(self, special_names[i], hash, false, &self->specials[i]))
            return err_set(err, ERR_INVALID, "the vocabulary has no '%s'", special_names[i].ptr);
    }
    return 0;
}

static int read_vocab(struct wordpiece *self, struct json_t *vocab, struct err *err)
{
    size_t total = 0;
    void *iter = NULL;
    struct str name;
    struct json_t *value;
    while (json_next(vocab, &iter, &name, &value))
        total += name.len;
    self->bytes = mem_alloc(total + 1);
    self->pieces = mem_alloc(self->count * sizeof *self->pieces);
    iter = NULL;
    while (json_next(vocab, &iter, &name, &value))
        if (add_piece(self, name, value, err) < 0)
            return -1;
    return find_specials(self, err);
}

int wordpiece_load(struct str json, size_t size, struct wordpiece **ret_wordpiece, struct err *err)
{
    AUTO_JSON struct json_t *root = NULL;
    if (json.len > WORDPIECE_FILE_MAX)
        return err_set(err, ERR_TOO_LARGE, "the tokenizer has more than %d bytes",
                       WORDPIECE_FILE_MAX);
    if (json_parse(json, &root, err) < 0)
        return err_wrap(err, "the tokenizer");
    struct json_t *model = json_get(root, "model");
    struct json_t *vocab = model == NULL ? NULL : json_get(model, "vocab");
    if (vocab == NULL || json_kind(vocab) != JSON_KIND_OBJECT || json_len(vocab) != size ||
        size == 0 || size > WORDPIECE_VOCAB_MAX)
        return err_set(err, ERR_INVALID, "the tokenizer has no vocabulary of %zu pieces", size);
    AUTO_WORDPIECE struct wordpiece *self = mem_alloc(sizeof *self);
    self->count = size;
    if (read_vocab(self, vocab, err) < 0)
        return -1;
    *ret_wordpiece = self;
    self = NULL;
    return 0;
}

struct wordpiece *wordpiece_free(struct wordpiece *wordpiece)
{
    if (wordpiece == NULL)
        return NULL;
    free(wordpiece->pieces);
    free(wordpiece->bytes);
    free(wordpiece);
    return NULL;
}

/* ---- encoding ---- */

struct encoding {
    const struct wordpiece *wordpiece;
    uint16_t *ids;
    size_t count, max; /* `max` leaves room for [SEP] */
    char word[WORDPIECE_WORD_MAX * UTF8_MAX];
    size_t len, chars; /* of the word; `chars` goes on counting when the word is too long */
};

static void put_id(struct encoding *self, uint16_t id)
{
    if (self->count < self->max)
        self->ids[self->count++] = id;
}

/* The longest piece that `rest` begins with; gives its bytes, 0 for none. */
static size_t longest_piece(const struct wordpiece *wordpiece, struct str rest, bool continues,
                            uint16_t *ret_id)
{
    uint32_t hashes[WORDPIECE_TOKEN_MAX + 1];
    size_t len = MIN(rest.len, wordpiece->longest);
    hashes[0] = hash_begin(continues);
    for (size_t i = 0; i < len; i++)
        hashes[i + 1] = hash_more(hashes[i], rest.ptr[i]);
    for (; len > 0; len--)
        if (wordpiece_find(wordpiece, str_n(rest.ptr, len), hashes[len], continues, ret_id))
            return len;
    return 0;
}

/* A word of which some part is in no piece is unknown as a whole. */
static void end_word(struct encoding *self)
{
    const struct wordpiece *wordpiece = self->wordpiece;
    size_t first = self->count;
    bool is_known = self->chars <= WORDPIECE_WORD_MAX;
    for (size_t at = 0; is_known && at < self->len;) {
        uint16_t id = 0;
        size_t len = longest_piece(wordpiece, str_n(self->word + at, self->len - at), at > 0, &id);
        is_known = len > 0;
        put_id(self, id);
        at += len;
    }
    if (!is_known) {
        self->count = first;
        put_id(self, wordpiece->specials[UNK]);
    }
    self->len = self->chars = 0;
}

static void flush_word(struct encoding *self)
{
    if (self->chars > 0)
        end_word(self);
}

static size_t put_utf8(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t len = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(c | (0xf00u >> len & 0xff));
    return len;
}

static void put_char(struct encoding *self, uint32_t c)
{
    if (self->chars < WORDPIECE_WORD_MAX)
        self->len += put_utf8(c, self->word + self->len);
    self->chars++;
}

static void put_folded(struct encoding *self, uint32_t c)
{
    bool is_alone = c != FOLD_BLANK && fold_is_punctuation(c);
    if (is_alone || c == FOLD_BLANK)
        flush_word(self);
    if (c != FOLD_BLANK)
        put_char(self, c);
    if (is_alone)
        flush_word(self);
}

static void put_code_point(struct encoding *self, uint32_t c)
{
    uint32_t out[FOLD_MAX];
    bool is_alone = fold_is_ideograph(c);
    if (is_alone)
        flush_word(self);
    size_t count = fold_code_point(c, out);
    for (size_t i = 0; i < count; i++)
        put_folded(self, out[i]);
    if (is_alone)
        flush_word(self);
}

static uint32_t decode(const char *at, size_t len)
{
    unsigned char first = (unsigned char)at[0];
    uint32_t c = len == 1 ? first : first & (0x7fu >> len);
    for (size_t i = 1; i < len; i++)
        c = c << 6 | ((unsigned char)at[i] & 0x3f);
    return c;
}

/* "[SEP]" and its kind in a text are the special pieces themselves, as for the reference. */
static size_t put_special(struct encoding *self, struct str rest)
{
    for (size_t i = 0; i < SPECIALS; i++) {
        if (!str_starts(rest, special_names[i]))
            continue;
        flush_word(self);
        put_id(self, self->wordpiece->specials[i]);
        return special_names[i].len;
    }
    return 0;
}

static size_t put_next(struct encoding *self, struct str rest)
{
    if (rest.ptr[0] == '[') {
        size_t len = put_special(self, rest);
        if (len > 0)
            return len;
    }
    size_t len = str_utf8_len(rest);
    if (len == 0)
        return 1; /* not UTF-8: dropped, as U+FFFD is */
    put_code_point(self, decode(rest.ptr, len));
    return len;
}

size_t wordpiece_encode(const struct wordpiece *wordpiece, struct str text, uint16_t *ids,
                        size_t max)
{
    assert(max >= 2);
    struct encoding self = {.wordpiece = wordpiece, .ids = ids, .max = max - 1};
    put_id(&self, wordpiece->specials[CLS]);
    for (size_t at = 0; at < text.len && self.count < self.max;)
        at += put_next(&self, str_slice(text, at, text.len));
    flush_word(&self);
    ids[self.count++] = wordpiece->specials[SEP];
    return self.count;
}
