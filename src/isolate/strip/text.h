#pragma once

/* The source as text: trivia, operators, places, and the copy that gets blanked. */

#include "base/str.h"
#include "isolate/strip/strip.h"

/* The first byte at or after `at` that is neither white space nor comment. */
uint32_t text_skip_trivia(struct str source, uint32_t at);
bool text_has_newline(struct str source, uint32_t from, uint32_t to);
/* What stands at `at`, cut to a length that suits a message. */
struct str text_token(struct str source, uint32_t at);
struct strip_place text_place(struct str source, uint32_t at);

/* Binary operators by how tightly they bind; 0 is none. */
enum text_binding {
    BIND_NONE = 0,
    BIND_NULLISH = 4,
    BIND_OR = 5,
    BIND_AND = 6,
    BIND_EQUALITY = 10,
    BIND_RELATION = 11, /* also `as` and `satisfies` */
    BIND_SHIFT = 12,
    BIND_SUM = 13,
    BIND_PRODUCT = 14,
    BIND_POWER = 15,
};
/* The binary operator that stands at `at`, or BIND_NONE. */
enum text_binding text_operator(struct str source, uint32_t at);

/* Turns [from, to) of `out`, a copy of the source, into blanks: one for each UTF-16 unit, line
 * ends stay. Surplus bytes of longer characters become NUL, which text_compact takes out. */
void text_blank(char *out, uint32_t from, uint32_t to);
/* Drops the NULs; gives the new length. */
size_t text_compact(char *out, size_t len);
