#pragma once

/* Static imports at the top level of a script as dynamic ones. */

#include "isolate/strip/tree.h"

struct buf;

/* Appends the script to `out`. False, and nothing appended, when it has none, when it exports
 * something and is a module therefore, or when it cannot be parsed. */
bool imports_replace(struct tree *tree, struct str source, int64_t deadline_ns, struct buf *out);
