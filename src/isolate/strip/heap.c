#include "isolate/strip/heap.h"

enum {
    CHUNK_FIRST = 1 << 20,
    CHUNK_GROW_MAX = 16 << 20,
    STEP = 16,        /* small blocks come in multiples of this */
    SMALL_MAX = 1024, /* larger ones in powers of two */
    SMALL_CLASSES = SMALL_MAX / STEP,
};

struct heap_chunk {
    struct heap_chunk *older;
    size_t size;
    _Alignas(16) char bytes[];
};

/* Sits before the bytes that were handed out; `next` overlays them once they are free. */
struct heap_block {
    uint16_t class_index;
    uint16_t is_counted;
    uint32_t asked;
    struct heap_block *next;
};

enum { HEADER = offsetof(struct heap_block, next) };

static size_t class_of(size_t size, size_t *ret_room)
{
    if (size <= SMALL_MAX) {
        size_t steps = size == 0 ? 1 : (size + STEP - 1) / STEP;
        *ret_room = steps * STEP;
        return steps - 1;
    }
    size_t index = SMALL_CLASSES;
    size_t room = (size_t)SMALL_MAX * 2;
    while (room < size) {
        room *= 2;
        index++;
    }
    *ret_room = room;
    return index;
}

static NORETURN void heap_leave(struct heap *heap, int why)
{
    assert(heap->escape != NULL);
    longjmp(*heap->escape, why);
}

static NORETURN void give_up(struct heap *heap)
{
    heap_leave(heap, HEAP_FULL);
}

static void add_chunk(struct heap *heap, size_t need)
{
    size_t size =
        heap->chunks == NULL ? CHUNK_FIRST : MIN(heap->chunks->size * 2, (size_t)CHUNK_GROW_MAX);
    size = MAX(size, need);
    if (size > heap->limit || heap->total > heap->limit - size)
        size = need;
    if (size > heap->limit || heap->total > heap->limit - size)
        give_up(heap);
    /* Plain malloc: if memory runs out, the caller gets an error, as for the limit. */
    struct heap_chunk *chunk = malloc(sizeof *chunk + size);
    if (chunk == NULL)
        give_up(heap);
    chunk->older = heap->chunks;
    chunk->size = size;
    heap->chunks = chunk;
    heap->used = 0;
    heap->total += size;
}

static struct heap_block *take_block(struct heap *heap, size_t size)
{
    if (size > heap->limit || size > UINT32_MAX)
        give_up(heap);
    size_t room;
    size_t index = class_of(size, &room);
    assert(index < HEAP_CLASSES);
    struct heap_block *block = heap->free[index];
    if (block != NULL) {
        heap->free[index] = block->next;
    } else {
        if (heap->chunks == NULL || heap->chunks->size - heap->used < HEADER + room)
            add_chunk(heap, HEADER + room);
        block = (struct heap_block *)(void *)(heap->chunks->bytes + heap->used);
        heap->used += HEADER + room;
        block->class_index = (uint16_t)index;
    }
    block->asked = (uint32_t)size;
    block->is_counted = 0;
    return block;
}

void *heap_alloc(struct heap *heap, size_t size)
{
    struct heap_block *block = take_block(heap, size);
    if (size == heap->counted_size) {
        block->is_counted = 1;
        if (++heap->counted > heap->counted_max)
            heap_leave(heap, HEAP_COUNT);
    }
    return (char *)block + HEADER;
}

static struct heap_block *block_of(void *ptr)
{
    return (struct heap_block *)(void *)((char *)ptr - HEADER);
}

void *heap_calloc(struct heap *heap, size_t count, size_t size)
{
    size_t bytes;
    if (!mul_size(count, size, &bytes))
        give_up(heap);
    void *ptr = (char *)take_block(heap, bytes) + HEADER;
    memset(ptr, 0, bytes);
    return ptr;
}

void *heap_realloc(struct heap *heap, void *ptr, size_t size)
{
    if (ptr == NULL)
        return heap_alloc(heap, size);
    struct heap_block *block = block_of(ptr);
    size_t room;
    if (size <= heap->limit && class_of(size, &room) == block->class_index) {
        block->asked = (uint32_t)size;
        return ptr;
    }
    void *grown = (char *)take_block(heap, size) + HEADER;
    memcpy(grown, ptr, MIN((size_t)block->asked, size));
    heap_free(heap, ptr);
    return grown;
}

void heap_free(struct heap *heap, void *ptr)
{
    if (ptr == NULL)
        return;
    struct heap_block *block = block_of(ptr);
    heap->counted -= block->is_counted;
    block->is_counted = 0;
    block->next = heap->free[block->class_index];
    heap->free[block->class_index] = block;
}

void heap_reset(struct heap *heap)
{
    while (heap->chunks != NULL && heap->chunks->older != NULL) {
        struct heap_chunk *chunk = heap->chunks;
        heap->chunks = chunk->older;
        heap->total -= chunk->size;
        free(chunk);
    }
    heap->used = 0;
    heap->counted = 0;
    memset(heap->free, 0, sizeof heap->free);
}

void heap_done(struct heap *heap)
{
    heap_reset(heap);
    free(heap->chunks);
    *heap = (struct heap){.limit = heap->limit};
}
