#pragma once

/* Files that are part of the program; see tools/embed. */

#include "base/str.h"

struct embed_file {
    const char *name;
    struct str bytes;
};

extern const struct embed_file isolate_bootstrap[]; /* ends with a row without name */
