#pragma once

/* The longest text that every match of a regular expression must hold, found by reading the
 * pattern; empty when in any doubt. `out` has room for the pattern. Gives whether the pattern is
 * nothing but that text. */

#include "base/str.h"

bool needle_of_pattern(struct str pattern, char *out, size_t *ret_len);
