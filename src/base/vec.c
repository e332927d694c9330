#include "base/vec.h"

void *vec_push_(void **ptr, size_t *len, size_t *cap, size_t item_size)
{
    if (*len == *cap) {
        size_t bigger = MAX(*cap * 2, (size_t)4), bytes;
        bool fits = mul_size(bigger, item_size, &bytes);
        assert(fits);
        *ptr = mem_resize(*ptr, bytes);
        *cap = bigger;
    }
    void *item = (char *)*ptr + *len * item_size;
    memset(item, 0, item_size);
    (*len)++;
    return item;
}

void vec_remove_(void *ptr, size_t *len, size_t index, size_t item_size)
{
    assert(index < *len);
    char *item = (char *)ptr + index * item_size;
    memmove(item, item + item_size, (*len - index - 1) * item_size);
    (*len)--;
}

void vec_done_(void **ptr, size_t *len, size_t *cap)
{
    free(*ptr);
    *ptr = NULL;
    *len = *cap = 0;
}
