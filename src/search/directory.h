#pragma once

/* The documents below a directory: Markdown, HTML, text and declarations. Hidden files,
 * node_modules and symbolic links below it are left out. */

#include "base/arena.h"

struct err;

enum {
    DOCS_PAGES_MAX = 2000, /* of a directory or an upload */
    DOCS_BYTES_MAX = 64 << 20,
};

struct docs_upload {
    struct str path, text; /* the path is relative */
};

/* Of a file that is named itself: that one. NOT_FOUND, NOT_A_DIRECTORY, INVALID: neither a file nor
 * a directory; TOO_LARGE. */
int directory_read(struct str path, struct arena *arena, struct docs_upload **ret_pages,
                   size_t *ret_count, struct err *err) MUST_USE;
