#pragma once

/* RFC 4648, section 4: with padding, without line breaks. */

#include "base/str.h"

struct buf;

void base64_put(struct str bytes, struct buf *out);
/* Appends the bytes; false when `text` is not base64: then nothing is appended. */
bool base64_read(struct str text, struct buf *out) MUST_USE;
