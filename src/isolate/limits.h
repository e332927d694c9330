#pragma once

/* What a run may use. The numbers of a caller are brought into these bounds, never refused. */

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

enum { ISOLATE_TIMEOUT_MIN_MS = 250, ISOLATE_TIMEOUT_MAX_MS = 5000 };

static inline int64_t isolate_clamp_timeout(int64_t ms)
{
    return MAX(MIN(ms, (int64_t)ISOLATE_TIMEOUT_MAX_MS), (int64_t)ISOLATE_TIMEOUT_MIN_MS);
}
