#pragma once

/* What an installer's output says about its failure: one line, of at most 180 bytes, borrowed. */

#include "base/str.h"

struct str installer_reason(struct str output);
