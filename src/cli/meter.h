#pragma once

/* The progress of an addition (runtime/obtain.h) on standard error. */

#include "base/base.h"

struct meter {
    const char *name; /* what is added */
    char step[32];
    bool on_terminal, open_line;
    int64_t drawn_ms;
};

struct meter meter_of(const char *name);
/* A line that is drawn again on a terminal; elsewhere one line for each step. `ctx` is the meter.
 */
void meter_show(void *ctx, const char *step, uint64_t have, uint64_t total);
/* Before anything else is printed. */
void meter_end(const struct meter *meter);
