#include "search/embed/fold.h"

/* The ranges of the reference, one of which begins later than its Unicode block. */
static const struct fold_span ideographs[] = {
    {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},   {0x20000, 0x2a6df},
    {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f},
};

static bool is_in(const struct fold_span *spans, size_t count, uint32_t c)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c > spans[middle].to)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && c >= spans[low].from;
}

bool fold_is_ideograph(uint32_t c)
{
    return c >= ideographs[0].from && is_in(ideographs, countof(ideographs), c);
}

bool fold_is_punctuation(uint32_t c)
{
    return is_in(fold_punctuation, fold_punctuation_count, c);
}

static const struct fold_range *range_of(uint32_t c)
{
    size_t low = 0, high = fold_range_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c > fold_ranges[middle].to)
            low = middle + 1;
        else
            high = middle;
    }
    return low < fold_range_count && c >= fold_ranges[low].from ? &fold_ranges[low] : NULL;
}

/* A Hangul syllable is two or three letters (The Unicode Standard, 3.12). */
static size_t split_hangul(uint32_t c, uint32_t out[FOLD_MAX])
{
    enum { FIRST = 0xac00, VOWELS = 21, TAILS = 28 };
    uint32_t at = c - FIRST, tail = at % TAILS;
    out[0] = 0x1100 + at / (VOWELS * TAILS);
    out[1] = 0x1161 + at % (VOWELS * TAILS) / TAILS;
    out[2] = 0x11a7 + tail;
    return tail == 0 ? 2 : 3;
}

static size_t copy_three(const uint32_t *from, uint32_t out[FOLD_MAX])
{
    size_t count = 0;
    while (count < FOLD_MAX && from[count] != 0) {
        out[count] = from[count];
        count++;
    }
    return count;
}

size_t fold_code_point(uint32_t c, uint32_t out[FOLD_MAX])
{
    out[0] = c;
    if (c >= 0xac00 && c <= 0xd7a3)
        return split_hangul(c, out);
    const struct fold_range *range = range_of(c);
    if (c == 0)
        return 0;
    if (range == NULL)
        return 1;
    switch (range->kind) {
    case FOLD_DROP:
        return 0;
    case FOLD_SPACE:
        out[0] = FOLD_BLANK;
        return 1;
    case FOLD_ADD:
        out[0] = c + (uint32_t)range->value;
        return 1;
    case FOLD_EVEN:
        out[0] = (c - range->from) % 2 == 0 ? c + (uint32_t)range->value : c;
        return 1;
    case FOLD_LIST:
        out[0] = fold_list[(uint32_t)range->value + c - range->from];
        return 1;
    case FOLD_THREE:
        return copy_three(fold_list + range->value + (size_t)FOLD_MAX * (c - range->from), out);
    }
    return 1;
}
