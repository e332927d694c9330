#pragma once

/* Only for path_*.c. */

#include "search/embed/path.h"

extern const struct path path_avx2, path_neon, path_plain;
