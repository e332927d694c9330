#pragma once

/* Files that travel inside the program. tools/embed makes `const struct embed_file NAME[]`, which
 * ends with a row without name. */

#include "base/str.h"

struct embed_file {
    const char *name;
    struct str bytes;
};
