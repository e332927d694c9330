#pragma once

/* What every file uses: attributes, scope clean-up, checked sums. Nothing of the product. */

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/banned.h"

#ifdef NDEBUG
#error "asserts stay on in release: they stop a process before it acts on what cannot be"
#endif

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NORETURN __attribute__((noreturn))
#define UNUSED __attribute__((unused))

/* AUTO(f) calls f(&variable) on every way out of the variable's scope. */
#define AUTO(func) __attribute__((cleanup(func)))

/* Makes x_freep for AUTO from `struct x *x_free(struct x *)`. */
#define DEFINE_FREEP(type)                                                                         \
    static inline void type##_freep(struct type **p)                                               \
    {                                                                                              \
        *p = type##_free(*p);                                                                      \
    }

/* The struct of type `type` whose member `member` is at `ptr`. cppcheck takes the null pointer in
 * __typeof__ for one that is read. */
#ifdef __cppcheck__
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#else
#define CONTAINER_OF(ptr, type, member)                                                            \
    ({                                                                                             \
        __typeof__(((type *)0)->member) *container_of_ptr_ = (ptr);                                \
        (type *)(void *)((char *)container_of_ptr_ - offsetof(type, member));                      \
    })
#endif

#define countof(array) (sizeof(array) / sizeof((array)[0]))

#define MIN(a, b)                                                                                  \
    ({                                                                                             \
        __typeof__(a) min_a_ = (a);                                                                \
        __typeof__(b) min_b_ = (b);                                                                \
        min_a_ < min_b_ ? min_a_ : min_b_;                                                         \
    })
#define MAX(a, b)                                                                                  \
    ({                                                                                             \
        __typeof__(a) max_a_ = (a);                                                                \
        __typeof__(b) max_b_ = (b);                                                                \
        max_a_ > max_b_ ? max_a_ : max_b_;                                                         \
    })

/* Checked arithmetic for numbers that come from outside: true when the result fits. */
static inline bool add_size(size_t a, size_t b, size_t *ret_sum)
{
    return !__builtin_add_overflow(a, b, ret_sum);
}
static inline bool mul_size(size_t a, size_t b, size_t *ret_product)
{
    return !__builtin_mul_overflow(a, b, ret_product);
}
static inline bool add_i64(int64_t a, int64_t b, int64_t *ret_sum)
{
    return !__builtin_add_overflow(a, b, ret_sum);
}
static inline bool mul_i64(int64_t a, int64_t b, int64_t *ret_product)
{
    return !__builtin_mul_overflow(a, b, ret_product);
}

/* Small allocations do not fail: these abort with a message. What an outsider can make big has a
 * ceiling of its own (buf, arena limits) long before memory ends. */
void *mem_alloc(size_t size) MUST_USE;             /* zeroed */
void *mem_resize(void *ptr, size_t size) MUST_USE; /* grown bytes are not zeroed */
void *mem_dup(const void *ptr, size_t size) MUST_USE;
char *mem_dup_cstr(const char *text) MUST_USE;

static inline void mem_freep(void *p)
{
    void **ptr = p;
    __builtin_free(*ptr);
    *ptr = NULL;
}
#define AUTO_MEM AUTO(mem_freep)
