#include "search/words.h"

#include <string.h>

#include "search/stem.h"

/* --- Characters --- */

/* Decodes one character; a byte that is not UTF-8 counts as a separator. */
static uint32_t next_char(struct str text, size_t *at)
{
    const unsigned char *p = (const unsigned char *)text.ptr + *at;
    size_t len = p[0] < 0x80 ? 1 : str_utf8_len(str_slice(text, *at, *at + 4));
    *at += len == 0 ? 1 : len;
    switch (len) {
    case 1:
        return p[0];
    case 2:
        return (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
    case 3:
        return (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
    case 4:
        return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3f) << 12 |
               (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3f);
    default:
        return ' ';
    }
}

/* Latin letters from U+00C0 to U+017F without their accents; a blank: not a letter. */
static const char latin[] = "aaaaaaaceeeeiiiidnooooo ouuuuypsaaaaaaaceeeeiiiidnooooo ouuuuypy"
                            "aaaaaaccccccccddddeeeeeeeeeegggggggghhhhiiiiiiiiiiiijjkkklllllll"
                            "lllnnnnnnnnnoooooooorrrrrrssssssssttttttuuuuuuuuuuuuwwyyyzzzzzzs";

static uint32_t fold(uint32_t c)
{
    if (c >= 0xc0 && c < 0xc0 + sizeof latin - 1)
        return (unsigned char)latin[c - 0xc0];
    if (c >= 0x391 && c <= 0x3a9) /* Greek */
        return c + 0x20;
    if (c >= 0x410 && c <= 0x42f) /* Cyrillic */
        return c + 0x20;
    if (c >= 0x400 && c <= 0x40f)
        return c + 0x50;
    return c;
}

static bool is_ideograph(uint32_t c)
{
    return (c >= 0x3040 && c <= 0x30ff) || (c >= 0x3400 && c <= 0x9fff) ||
           (c >= 0xac00 && c <= 0xd7af) || (c >= 0xf900 && c <= 0xfaff) ||
           (c >= 0x20000 && c <= 0x3ffff);
}

static bool is_separator(uint32_t c)
{
    if (c < 0x80)
        return !char_is_alnum((int)c);
    return c < 0xc0 ? c != 0xaa && c != 0xb5 && c != 0xba
                    : (c >= 0x2000 && c <= 0x2bff) || (c >= 0x3000 && c <= 0x303f) ||
                          (c >= 0xfe00 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff0f) ||
                          (c >= 0xe000 && c <= 0xf8ff) || c >= 0xe0000;
}

/* --- Emitting --- */

struct splitting {
    words_emit *emit;
    void *ctx;
};

static void emit_word(const struct splitting *to, const char *word, size_t len)
{
    char stem[WORD_MAX + 1];
    len = MIN(len, (size_t)WORD_MAX);
    if (len == 0)
        return;
    memcpy(stem, word, len);
    to->emit(to->ctx, str_n(stem, stem_word(stem, len)), str_n(word, len));
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static char lower(char c)
{
    return is_upper(c) ? (char)(c | 0x20) : c;
}

/* Where a part of camelCase ends: before an upper-case letter behind another character, and before
 * the last upper-case letter of several ("HTTPServer" is "http", "server"). */
static bool is_hump(const char *text, size_t at, size_t len)
{
    if (!is_upper(text[at]))
        return false;
    return !is_upper(text[at - 1]) ||
           (at + 1 < len && !is_upper(text[at + 1]) && !char_is_digit(text[at + 1]));
}

static void emit_parts(const struct splitting *to, const char *text, size_t len)
{
    char word[IDENTIFIER_MAX];
    size_t start = 0;
    for (size_t i = 0; i < len; i++)
        word[i] = lower(text[i]);
    for (size_t i = 1; i <= len; i++)
        if (i == len || is_hump(text, i, len)) {
            if (start > 0 || i < len)
                emit_word(to, word + start, i - start);
            start = i;
        }
    emit_word(to, word, len);
}

/* A run of ASCII letters, digits, and single dots and underscores between them. */
static void emit_identifier(const struct splitting *to, struct str text)
{
    char joined[IDENTIFIER_MAX];
    size_t len = 0, parts = 0;
    for (size_t at = 0; at < text.len;) {
        size_t end = at;
        while (end < text.len && char_is_alnum(text.ptr[end]))
            end++;
        if (end > at) {
            emit_parts(to, text.ptr + at, end - at);
            parts++;
        }
        for (size_t i = at; i < end; i++)
            joined[len++] = lower(text.ptr[i]);
        at = end + 1;
    }
    if (parts > 1)
        emit_word(to, joined, len);
}

/* --- Splitting --- */

static bool is_joint(char c)
{
    return c == '_' || c == '.' || c == '$';
}

/* The end of an identifier that begins at `at`; `at` itself when another kind of word begins
 * there. */
static size_t identifier_end(struct str text, size_t at)
{
    size_t end = at, max = MIN(text.len, at + IDENTIFIER_MAX);
    while (end < max) {
        char c = text.ptr[end];
        bool goes_on =
            char_is_alnum(c) ||
            (is_joint(c) && end + 1 < max && end > at &&
             (char_is_alnum(text.ptr[end + 1]) || (c == '_' && text.ptr[end + 1] == '_')));
        if (!goes_on)
            break;
        end++;
    }
    /* A letter beyond ASCII follows: a word of a language, not an identifier. */
    return end < text.len && (unsigned char)text.ptr[end] >= 0x80 ? at : end;
}

static size_t put_char(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = lower((char)c);
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6), out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12), out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18), out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f)), out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* A word with letters beyond ASCII; gives where it ends. */
static size_t emit_foreign(const struct splitting *to, struct str text, size_t at)
{
    char word[WORD_MAX + 4];
    size_t len = 0;
    while (at < text.len) {
        size_t next = at;
        uint32_t c = fold(next_char(text, &next));
        if (is_separator(c) || c == ' ')
            break;
        if (is_ideograph(c)) {
            if (len > 0)
                break;
            emit_word(to, word, put_char(word, c));
            return next;
        }
        if (c >= 0x300 && c <= 0x36f) /* an accent of its own */
            ;
        else if (len + 4 <= WORD_MAX)
            len += put_char(word + len, c);
        at = next;
    }
    emit_word(to, word, len);
    return at;
}

void words_each(struct str text, words_emit *emit, void *ctx)
{
    const struct splitting to = {emit, ctx};
    for (size_t at = 0; at < text.len;) {
        if (char_is_alnum(text.ptr[at])) {
            size_t end = identifier_end(text, at);
            if (end > at) {
                emit_identifier(&to, str_slice(text, at, end));
                at = end;
                continue;
            }
        }
        size_t next = at;
        uint32_t c = fold(next_char(text, &next));
        at = is_separator(c) ? next : MAX(emit_foreign(&to, text, at), next);
    }
}

/* --- Common words --- */

/* Sorted, for the search by halves. */
static const char *const common[] = {
    "a",     "about", "after", "all",  "am",   "an",    "and",   "any",   "are",  "as",   "at",
    "be",    "been",  "but",   "by",   "can",  "could", "did",   "do",    "does", "for",  "from",
    "get",   "had",   "has",   "have", "how",  "i",     "if",    "in",    "into", "is",   "it",
    "its",   "me",    "my",    "no",   "not",  "of",    "on",    "or",    "our",  "s",    "should",
    "so",    "some",  "such",  "t",    "than", "that",  "the",   "their", "them", "then", "there",
    "these", "they",  "this",  "to",   "up",   "want",  "was",   "we",    "were", "what", "when",
    "where", "which", "who",   "why",  "will", "with",  "would", "you",   "your",
};

bool word_is_common(struct str raw)
{
    size_t low = 0, high = countof(common);
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = str_cmp(raw, str_of(common[middle]));
        if (order == 0)
            return true;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}
