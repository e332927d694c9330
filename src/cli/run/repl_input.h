#pragma once

/* Whether what was typed at a prompt is a whole input, by its brackets, quotes and blocks. */

#include "base/str.h"

/* `language` is a runtime's: "python", "javascript", "bash", ... An empty line ends any input. */
bool repl_is_unfinished(struct str code, struct str language);
