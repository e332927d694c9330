#pragma once

/* A second chance for types that the grammar does not know.
 *
 * The grammar has gaps: variance (`in out T`), call signatures without semicolons, long qualified
 * names, a template tag with type arguments. They lie inside types, whose inside is of no
 * interest here. So when parsing fails, the types that can be told from the tokens alone are
 * overwritten by plain names of the same length, and the parser is asked again. All offsets stay.
 */

#include "base/str.h"
#include "isolate/strip/strip.h"

struct simplify;

struct simplify_range {
    uint32_t start, end;
};

struct simplify *simplify_new(void) MUST_USE;
struct simplify *simplify_free(struct simplify *simplify);

/* Rewrites `text`, a copy of `source`. False when nothing changed, or time was up. */
bool simplify_types(struct simplify *simplify, struct str source, char *text, int64_t deadline_ns);
/* Types that had to be taken out altogether; whoever blanks must blank these as well. */
const struct simplify_range *simplify_removed(const struct simplify *simplify, size_t *ret_count);
