#pragma once

/* Makes types simple before they are parsed.
 *
 * The inside of a type is of no interest here, it will be blanked. So the types that can be
 * recognized only from their tokens are overwritten by plain names of the same length, and the
 * parser has less to read. It also works around gaps of the grammar, which are mostly in types:
 * variance (`in out T`), call signatures without semicolons, long qualified names, a template tag
 * with type arguments, `import defer`, a decorator before `declare class`. All offsets stay. */

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
/* Types that had to be removed altogether; the caller must blank these as well. */
const struct simplify_range *simplify_removed(const struct simplify *simplify, size_t *ret_count);

/* After simplify_types: `text` without what the parser would read letter by letter for nothing.
 * Runs of blanks, and of the letters that stand for a type, become one. Gives the new length; the
 * bytes of `packed`, with room for as many as `text` has, stand for [from, to) of the source each,
 * and `from` has one more at the end. */
size_t simplify_pack(const struct simplify *simplify, const char *text, char *packed,
                     uint32_t *from, uint32_t *to);
