#pragma once

/* RFC 4648, section 4: with padding, without line breaks. */

#include "base/str.h"

struct buf;

void base64_put(struct str bytes, struct buf *out);
