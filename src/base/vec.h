#pragma once

/* A growing array of one type: `struct { T *ptr; size_t len, cap; }`, all-zero is empty.
 *
 *     VEC(int) numbers = {0};
 *     *vec_push(&numbers) = 7;
 *     VEC_EACH (n, &numbers) sum += *n;
 *     vec_done(&numbers); */

#include "base/base.h"

#define VEC(type)                                                                                  \
    struct {                                                                                       \
        type *ptr;                                                                                 \
        size_t len;                                                                                \
        size_t cap;                                                                                \
    }

/* A zeroed new element at the end. */
#define vec_push(vec)                                                                              \
    ((__typeof__((vec)->ptr))vec_push_((void **)&(vec)->ptr, &(vec)->len, &(vec)->cap,             \
                                       sizeof *(vec)->ptr))
#define vec_pop(vec) ((vec)->ptr[--(vec)->len])
#define vec_last(vec) (&(vec)->ptr[(vec)->len - 1])
#define VEC_EACH(item, vec)                                                                        \
    for (__typeof__(*(vec)->ptr) *item = (vec)->ptr;                                               \
         (vec)->len > 0 && item < (vec)->ptr + (vec)->len; item++)
/* Takes out one element, keeping the order. */
#define vec_remove(vec, index) vec_remove_((vec)->ptr, &(vec)->len, (index), sizeof *(vec)->ptr)
#define vec_done(vec) vec_done_((void **)&(vec)->ptr, &(vec)->len, &(vec)->cap)

void *vec_push_(void **ptr, size_t *len, size_t *cap, size_t item_size);
void vec_remove_(void *ptr, size_t *len, size_t index, size_t item_size);
void vec_done_(void **ptr, size_t *len, size_t *cap);
