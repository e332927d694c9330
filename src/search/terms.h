#pragma once

/* The terms of a text as one piece of bytes: a byte for the length of a term, the term, the next.
 * They are in the order of the text, with repetitions, as words_each gives them. */

#include "base/buf.h"
#include "search/words.h"

/* Grows when the same text gives other terms than before: stored ones are then found again. A test
 * of search/words fails when it should. */
enum { TERMS_VERSION = 1 };

void terms_put(struct buf *out, struct str text);
/* Each is 1 to WORD_MAX bytes of UTF-8, and the last ends where the bytes do. */
bool terms_are_valid(struct str terms);
/* For valid ones. `raw` is empty. */
void terms_each(struct str terms, words_emit *emit, void *ctx);
