#pragma once

/* Two texts as a unified diff, three lines around each change. */

#include "base/str.h"

struct buf;

/* Appends "@@ ... @@" and its lines; nothing when they are equal. At most `limit` bytes: false when
 * there would be more, and what was appended ends with a whole line. */
bool unified_diff(struct str from, struct str to, size_t limit, struct buf *out);
