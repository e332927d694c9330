#pragma once

/* Spans of time in one word for tables: "12s", "5m", "3h", "2d". */

#include <stdint.h>

#include "base/str.h"

struct buf;

void span_put(int64_t seconds, struct buf *out);
/* The whole of it, in the largest unit that can tell it: "90s", "5m", "1500ms". */
void span_put_exact(int64_t ms, struct buf *out);
/* From now to a date of the server's answers, or with `sign` -1 from that date to now; "-" for what
 * is no date. */
void span_put_date(struct str date, int sign, struct buf *out);
