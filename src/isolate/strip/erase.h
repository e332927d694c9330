#pragma once

/* Decides what of a syntax tree is type and blanks it. */

#include "base/err.h"
#include "base/str.h"
#include "isolate/strip/tree.h"

struct erase;

/* A construct that has a meaning at run time, or code the parser was too lenient about. */
struct erase_fault {
    const char *message; /* NULL when all went well; a static string */
    enum err_code code;  /* UNSUPPORTED, INVALID or TOO_LARGE */
    uint32_t at;
};

struct erase *erase_new(void) MUST_USE;
struct erase *erase_free(struct erase *erase);

/* Sets up a walk: `out` is a copy of `source` that will be blanked in place. Both must live until
 * the walk is over; erase_fault tells how it went. The tree may be of the source as simplify.h
 * leaves it: offsets are the same. */
struct tree_visitor *erase_begin(struct erase *erase, struct str source, char *out);
struct erase_fault erase_fault(const struct erase *erase);
