#pragma once

/* The Porter stemmer (Porter, 1980): "connections" and "connecting" become "connect". */

#include "base/base.h"

/* Shortens a word of lower-case ASCII letters in place and gives its new length. Words with other
 * characters, and those of fewer than three letters, stay as they are. */
size_t stem_word(char *word, size_t len);
