#pragma once

/* Which names a script declares: a later run may declare them again. */

#include "isolate/strip/tree.h"

struct buf;

/* The names that `source` declares at its top level, appended to `out`, separated by newlines.
 * False when it cannot be parsed. */
bool declared_find(struct tree *tree, enum strip_lang lang, struct str source, int64_t deadline_ns,
                   struct buf *out);
