#pragma once

/* Time. Deadlines count on the monotonic clock; dates are for people and records. */

#include "base/base.h"

enum { CLOCK_TEXT_SIZE = 25 };

int64_t clock_now_ns(void);  /* monotonic */
int64_t clock_now_ms(void);  /* monotonic */
int64_t clock_boot_ms(void); /* monotonic, and counts while the machine sleeps */
int64_t clock_date_ms(void); /* since 1970, UTC; may jump */
/* "2026-11-15T09:30:00.123Z" */
void clock_format_utc(int64_t date_ms, char out[CLOCK_TEXT_SIZE]);
