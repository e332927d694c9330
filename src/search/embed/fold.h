#pragma once

/* What the tokenizer makes of a code point before words are looked up: nothing (control characters,
 * marks), a blank, or up to three other ones (without accents, in lower case). */

#include "base/base.h"

enum { FOLD_MAX = 3, FOLD_BLANK = ' ' };

/* How many code points take the place of `c`. */
size_t fold_code_point(uint32_t c, uint32_t out[FOLD_MAX]);
bool fold_is_punctuation(uint32_t c);
/* Ideographs, each of which is a word by itself. */
bool fold_is_ideograph(uint32_t c);

/* The table, made by tools/unicode-fold. */

enum fold_kind {
    FOLD_DROP,
    FOLD_SPACE,
    FOLD_ADD,   /* c + value */
    FOLD_EVEN,  /* the same for every second one, beginning with the first; others stay */
    FOLD_LIST,  /* one entry of fold_list each, from `value` on */
    FOLD_THREE, /* three entries each; a zero ends them earlier */
};

struct fold_range {
    uint32_t from, to; /* inclusive */
    enum fold_kind kind;
    int32_t value;
};
extern const struct fold_range fold_ranges[];
extern const size_t fold_range_count;
extern const uint32_t fold_list[];

struct fold_span {
    uint32_t from, to; /* inclusive */
};
extern const struct fold_span fold_punctuation[];
extern const size_t fold_punctuation_count;
