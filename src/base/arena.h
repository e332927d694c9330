#pragma once

/* Memory of one request: many allocations, freed in one stroke.
 *
 * An all-zero arena is a valid empty one. Under sanitizers each allocation is a real one, so that
 * an overrun shows. Pointers stay good until arena_done or arena_reset. */

#include "base/str.h"

struct arena_block;

struct arena {
    struct arena_block *blocks; /* newest first */
    size_t used;                /* of the newest block */
    size_t total;               /* bytes handed out, for limits and figures */
};

/* Zeroed, aligned for any type. */
void *arena_alloc(struct arena *arena, size_t size) MUST_USE;
/* A copy with a NUL behind it, so that `ptr` also serves as a C string. */
struct str arena_dup(struct arena *arena, struct str s) MUST_USE;
struct str arena_printf(struct arena *arena, const char *fmt, ...) PRINTF_LIKE(2, 3) MUST_USE;
void arena_reset(struct arena *arena);
void arena_done(struct arena *arena);

#define AUTO_ARENA AUTO(arena_done)
#define arena_new(arena, type) ((type *)arena_alloc((arena), sizeof(type)))
#define arena_array(arena, type, count)                                                            \
    ({                                                                                             \
        size_t arena_bytes_;                                                                       \
        bool arena_fits_ = mul_size(sizeof(type), (count), &arena_bytes_);                         \
        assert(arena_fits_);                                                                       \
        (type *)arena_alloc((arena), arena_bytes_);                                                \
    })
