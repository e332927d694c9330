#pragma once

/* The tokenizer of uncased BERT models: text is cleaned, stripped of accents, put into lower case
 * and split into words (search/embed/fold.h), and each word becomes the longest pieces of the
 * vocabulary. Equal to the tokenizer that the model was trained with, token by token; a test
 * compares the two.
 *
 * The work is bounded by the length of the text, whatever it holds. Reading only; any thread. */

#include "base/str.h"

struct err;
struct wordpiece;

enum {
    WORDPIECE_FILE_MAX = 4 << 20,
    WORDPIECE_VOCAB_MAX = 1 << 16,
    WORDPIECE_TOKEN_MAX = 128, /* bytes of a piece */
    WORDPIECE_WORD_MAX = 100,  /* characters; a longer word is unknown */
};

/* From the text of a tokenizer.json, whose vocabulary must have exactly `size` pieces. */
int wordpiece_load(struct str json, size_t size, struct wordpiece **ret_wordpiece,
                   struct err *err) MUST_USE;
struct wordpiece *wordpiece_free(struct wordpiece *wordpiece);
DEFINE_FREEP(wordpiece)
#define AUTO_WORDPIECE AUTO(wordpiece_freep)

/* [CLS], the first pieces of the text, [SEP]: at most `max` (2 or more), and how many they are. */
size_t wordpiece_encode(const struct wordpiece *wordpiece, struct str text, uint16_t *ids,
                        size_t max);
