/* Allocation that does not fail: an out-of-memory abort beats code that cannot be tested. */

#include "base/base.h"

static void *checked(void *ptr, size_t size)
{
    if (ptr == NULL) {
        (void)fprintf(stderr, "sandglass: out of memory (%zu bytes)\n", size);
        abort();
    }
    return ptr;
}

void *mem_alloc(size_t size)
{
    return checked(calloc(1, MAX(size, (size_t)1)), size);
}

void *mem_resize(void *ptr, size_t size)
{
    return checked(realloc(ptr, MAX(size, (size_t)1)), size);
}

void *mem_dup(const void *ptr, size_t size)
{
    void *copy = mem_alloc(size);
    if (size > 0)
        memcpy(copy, ptr, size);
    return copy;
}

char *mem_dup_cstr(const char *text)
{
    return mem_dup(text, strlen(text) + 1);
}
