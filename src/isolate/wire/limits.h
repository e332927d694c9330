#pragma once

/* What a run may use. */

#include "base/base.h"

struct isolate_limits {
    int64_t timeout_ms;
    uint64_t memory_bytes;
    uint32_t stack_bytes;
    uint32_t code_chars;    /* of one piece of code */
    uint32_t console_lines; /* kept per stream; the rest is counted */
    uint32_t line_bytes;    /* of one console call; the rest is cut */
    int result_depth;
    uint32_t result_items;
    uint32_t result_bytes;
};

#define ISOLATE_LIMITS_DEFAULT                                                                     \
    ((struct isolate_limits){.timeout_ms = 3000,                                                   \
                             .memory_bytes = 16 << 20,                                             \
                             .stack_bytes = 512 << 10,                                             \
                             .code_chars = 12000,                                                  \
                             .console_lines = 100,                                                 \
                             .line_bytes = 64 << 10,                                               \
                             .result_depth = 10,                                                   \
                             .result_items = 200,                                                  \
                             .result_bytes = 1 << 20})

enum { ISOLATE_TIMEOUT_MIN_MS = 250 };
/* Ten years: the deadline of a run that has no limit, and the largest one that a caller may set. */
#define ISOLATE_TIMEOUT_NONE_MS ((int64_t)10 * 365 * 86400000)

/* `ms` 0: none. A short one is brought up to what a start of the engine needs. */
static inline int64_t isolate_deadline(int64_t ms)
{
    return ms <= 0 ? ISOLATE_TIMEOUT_NONE_MS
                   : MAX(MIN(ms, ISOLATE_TIMEOUT_NONE_MS), (int64_t)ISOLATE_TIMEOUT_MIN_MS);
}
