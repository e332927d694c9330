#pragma once

/* The documentation that a script has collected in a sandbox (engine/script/package_docs.py). The
 * sandbox may have written anything, so every length is checked.
 *
 * The bytes COLLECTED_MAGIC, then pages: three numbers of 32 bits, the lowest byte first (which
 * package of the list that the script was given, the length of the path, the length of the text),
 * the path and the text. */

#include "base/str.h"

struct err;

#define COLLECTED_MAGIC "SGDOCS1\n"
enum { COLLECTED_PATH_MAX = 512 };

struct collected_page {
    size_t package;        /* below `packages` */
    struct str path, text; /* the path is one line of UTF-8 and not empty; the text any bytes, at
                            * most DOCUMENT_MAX */
};

/* Takes the magic. INVALID. */
int collected_begin(struct str *bytes, struct err *err) MUST_USE;
/* Takes the next page. 1, or 0 at the end; INVALID. */
int collected_next(struct str *bytes, size_t packages, struct collected_page *ret_page,
                   struct err *err) MUST_USE;
