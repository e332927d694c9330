#pragma once

/* RFC 1952 (zlib, included only in gzip.c). */

#include "base/buf.h"

/* Packs `bytes` behind what `out` holds; false when that would not make it shorter. */
bool gzip_pack(struct str bytes, struct buf *out) MUST_USE;
