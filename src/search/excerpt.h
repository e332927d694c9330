#pragma once

/* The part of a text that answers a question best. */

#include "base/str.h"

/* The whole sentences or lines around the most of `terms` (as words_each gives them), at most `max`
 * bytes; the whole text when it is short enough. A view of `text`. */
struct str excerpt_around(struct str text, const struct str *terms, size_t count, size_t max);
