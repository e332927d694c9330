#include "search/stem.h"

#include <string.h>

/* The word of length `len`; `stem` is what precedes the suffix that has_suffix found. */
struct word {
    char *text;
    size_t len, stem;
};

static bool is_consonant(const char *text, size_t at)
{
    bool is = true; /* of the letter before a run of y */
    size_t first = at;
    while (first > 0 && text[first] == 'y')
        first--;
    for (size_t i = first; i <= at; i++) {
        char c = text[i];
        bool is_vowel = c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u';
        /* A y is a vowel exactly behind a consonant. */
        is = c == 'y' ? i == 0 || !is : !is_vowel;
    }
    return is;
}

/* How many times a vowel is followed by a consonant in the stem. */
static int measure(const struct word *word)
{
    int count = 0;
    bool was_vowel = false;
    for (size_t i = 0; i < word->stem; i++) {
        bool is_vowel = !is_consonant(word->text, i);
        count += was_vowel && !is_vowel;
        was_vowel = is_vowel;
    }
    return count;
}

static bool has_vowel(const struct word *word)
{
    for (size_t i = 0; i < word->stem; i++)
        if (!is_consonant(word->text, i))
            return true;
    return false;
}

static bool ends_double(const char *text, size_t len)
{
    return len >= 2 && text[len - 1] == text[len - 2] && is_consonant(text, len - 1);
}

/* Consonant, vowel, consonant, the last not w, x or y. */
static bool ends_cvc(const char *text, size_t len)
{
    if (len < 3 || !is_consonant(text, len - 1) || is_consonant(text, len - 2) ||
        !is_consonant(text, len - 3))
        return false;
    char c = text[len - 1];
    return c != 'w' && c != 'x' && c != 'y';
}

static bool has_suffix(struct word *word, const char *suffix)
{
    size_t len = strlen(suffix);
    if (word->len < len || memcmp(word->text + word->len - len, suffix, len) != 0)
        return false;
    word->stem = word->len - len;
    return true;
}

/* Never longer than what it replaces, or by the one letter that the caller has just removed. */
static void put_suffix(struct word *word, const char *suffix)
{
    size_t len = strlen(suffix);
    memcpy(word->text + word->stem, suffix, len);
    word->len = word->stem + len;
}

struct rule {
    const char *from, *to;
};

/* The first suffix that fits decides, whether its stem is long enough or not. */
static void stem_apply(struct word *word, const struct rule *rules, int more_than)
{
    for (const struct rule *rule = rules; rule->from != NULL; rule++)
        if (has_suffix(word, rule->from)) {
            if (measure(word) > more_than)
                put_suffix(word, rule->to);
            return;
        }
}

static void step_1a(struct word *word)
{
    if (has_suffix(word, "sses") || has_suffix(word, "ies"))
        word->len -= 2;
    else if (!has_suffix(word, "ss") && has_suffix(word, "s"))
        word->len--;
}

static void step_1b(struct word *word)
{
    if (has_suffix(word, "eed")) {
        if (measure(word) > 0)
            word->len--;
        return;
    }
    if (!(has_suffix(word, "ed") && has_vowel(word)) &&
        !(has_suffix(word, "ing") && has_vowel(word)))
        return;
    word->len = word->stem;
    if (has_suffix(word, "at") || has_suffix(word, "bl") || has_suffix(word, "iz")) {
        word->text[word->len++] = 'e';
        return;
    }
    word->stem = word->len;
    char last = word->len > 0 ? word->text[word->len - 1] : '\0';
    if (ends_double(word->text, word->len) && last != 'l' && last != 's' && last != 'z')
        word->len--;
    else if (measure(word) == 1 && ends_cvc(word->text, word->len))
        word->text[word->len++] = 'e';
}

static void step_1c(struct word *word)
{
    if (has_suffix(word, "y") && has_vowel(word))
        word->text[word->len - 1] = 'i';
}

static const struct rule step_2[] = {
    {"ational", "ate"}, {"tional", "tion"},
    {"enci", "ence"},   {"anci", "ance"},
    {"izer", "ize"},    {"logi", "log"},
    {"bli", "ble"},     {"alli", "al"},
    {"entli", "ent"},   {"eli", "e"},
    {"ousli", "ous"},   {"ization", "ize"},
    {"ation", "ate"},   {"ator", "ate"},
    {"alism", "al"},    {"iveness", "ive"},
    {"fulness", "ful"}, {"ousness", "ous"},
    {"aliti", "al"},    {"iviti", "ive"},
    {"biliti", "ble"},  {0},
};
static const struct rule step_3[] = {
    {"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"},
    {"ical", "ic"},  {"ful", ""},   {"ness", ""},    {0},
};
static const struct rule step_4[] = {
    {"al", ""},  {"ance", ""},  {"ence", ""}, {"er", ""},  {"ic", ""}, {"able", ""}, {"ible", ""},
    {"ant", ""}, {"ement", ""}, {"ment", ""}, {"ent", ""}, {"ou", ""}, {"ism", ""},  {"ate", ""},
    {"iti", ""}, {"ous", ""},   {"ive", ""},  {"ize", ""}, {0},
};

static void strip_last(struct word *word)
{
    /* "ion" only behind s or t. */
    if (has_suffix(word, "ion")) {
        char before = word->stem > 0 ? word->text[word->stem - 1] : '\0';
        if ((before == 's' || before == 't') && measure(word) > 1)
            word->len = word->stem;
        return;
    }
    stem_apply(word, step_4, 1);
}

static void step_5(struct word *word)
{
    if (has_suffix(word, "e")) {
        int m = measure(word);
        if (m > 1 || (m == 1 && !ends_cvc(word->text, word->stem)))
            word->len--;
    }
    word->stem = word->len;
    if (word->len > 1 && word->text[word->len - 1] == 'l' && ends_double(word->text, word->len) &&
        measure(word) > 1)
        word->len--;
}

size_t stem_word(char *text, size_t len)
{
    struct word word = {text, len, 0};
    if (len < 3)
        return len;
    for (size_t i = 0; i < len; i++)
        if (text[i] < 'a' || text[i] > 'z')
            return len;
    step_1a(&word);
    step_1b(&word);
    step_1c(&word);
    stem_apply(&word, step_2, 0);
    stem_apply(&word, step_3, 0);
    strip_last(&word);
    step_5(&word);
    return word.len;
}
