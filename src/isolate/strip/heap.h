#pragma once

/* Memory for one parse, with a ceiling, given back in one stroke.
 *
 * The parser library takes its memory through hooks that must not fail. Here they do: when the
 * ceiling is reached the heap leaves by longjmp, and everything that was allocated is dropped with
 * the heap. It is also quicker than malloc: freed blocks wait in a list of their size. */

#include <setjmp.h>

#include "base/base.h"

enum { HEAP_CLASSES = 96 };

struct heap_chunk;
struct heap_block;

struct heap {
    struct heap_chunk *chunks; /* newest first; the oldest survives a reset */
    size_t used;               /* of the newest chunk */
    size_t total;              /* bytes of all chunks */
    size_t limit;
    struct heap_block *free[HEAP_CLASSES];
    /* Blocks of `counted_size` bytes, asked for by heap_alloc, that are alive. Past `counted_max`
     * the heap leaves as well. */
    size_t counted_size;
    size_t counted, counted_max;
    jmp_buf *escape; /* where to go when a ceiling is reached */
};

enum { HEAP_FULL = 1, HEAP_COUNT = 2 }; /* what setjmp gives */

void *heap_alloc(struct heap *heap, size_t size);
void *heap_calloc(struct heap *heap, size_t count, size_t size);
void *heap_realloc(struct heap *heap, void *ptr, size_t size);
void heap_free(struct heap *heap, void *ptr);
/* Forgets every allocation; keeps one chunk warm. */
void heap_reset(struct heap *heap);
void heap_done(struct heap *heap);
