#pragma once

/* Paths of modules: where an import leads. */

#include "base/str.h"

struct arena;

/* What `specifier` means in the file `from`: "lib/a.js" and "../b.js" give "b.js". A leading slash
 * starts at the root of the session's files. False when it leads out of them, or to nothing. The
 * path is NUL-terminated and belongs to `arena`. */
bool module_path_join(struct arena *arena, struct str from, struct str specifier,
                      struct str *ret_path);
