#include "base/arena.h"

#include <stdalign.h>
#include <stdarg.h>

/* Blocks double up to the largest: a big request settles on one block, which a reset keeps. */
enum { BLOCK_MIN = 4096, BLOCK_MAX = 256 << 10, ALIGN = alignof(max_align_t) };

#if defined(__SANITIZE_ADDRESS__)
#define ONE_BLOCK_EACH true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ONE_BLOCK_EACH true
#endif
#endif
#ifndef ONE_BLOCK_EACH
#define ONE_BLOCK_EACH false
#endif

struct arena_block {
    struct arena_block *next;
    size_t size;
    alignas(max_align_t) char bytes[];
};

static size_t next_block_size(const struct arena *arena, size_t needed)
{
    size_t size =
        arena->blocks == NULL ? BLOCK_MIN : MIN(arena->blocks->size * 2, (size_t)BLOCK_MAX);
    return MAX(size, needed);
}

static void add_block(struct arena *arena, size_t size)
{
    size_t whole;
    bool fits = add_size(size, sizeof(struct arena_block), &whole);
    assert(fits);
    struct arena_block *block = mem_alloc(whole);
    block->size = size;
    block->next = arena->blocks;
    arena->blocks = block;
    arena->used = 0;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    size_t rounded;
    bool fits = add_size(size, ALIGN - 1, &rounded);
    assert(fits);
    rounded &= ~(size_t)(ALIGN - 1);
    if (ONE_BLOCK_EACH)
        add_block(arena, size);
    else if (arena->blocks == NULL || arena->blocks->size - arena->used < rounded)
        add_block(arena, next_block_size(arena, rounded));
    void *ptr = arena->blocks->bytes + arena->used;
    arena->used += ONE_BLOCK_EACH ? size : rounded;
    arena->total += size;
    return ptr;
}

struct str arena_dup(struct arena *arena, struct str s)
{
    char *copy = arena_alloc(arena, s.len + 1);
    if (s.len > 0)
        memcpy(copy, s.ptr, s.len);
    return str_n(copy, s.len);
}

struct str arena_printf(struct arena *arena, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    assert(len >= 0);
    char *text = arena_alloc(arena, (size_t)len + 1);
    va_start(args, fmt);
    (void)vsnprintf(text, (size_t)len + 1, fmt, args);
    va_end(args);
    return str_n(text, (size_t)len);
}

void arena_done(struct arena *arena)
{
    struct arena_block *block = arena->blocks;
    while (block != NULL) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
    *arena = (struct arena){0};
}

void arena_reset(struct arena *arena)
{
    struct arena_block *keep = arena->blocks;
    if (ONE_BLOCK_EACH || keep == NULL || keep->size > BLOCK_MAX) {
        arena_done(arena);
        return;
    }
    struct arena rest = {.blocks = keep->next};
    arena_done(&rest);
    keep->next = NULL;
    memset(keep->bytes, 0, arena->used); /* arena_alloc promises zeroes */
    *arena = (struct arena){.blocks = keep};
}
