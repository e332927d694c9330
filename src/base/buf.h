#pragma once

/* Bytes that grow, up to the limit that the buffer was created with.
 *
 * A NUL follows the bytes at all times, so that `ptr` also serves as a C string. Appending
 * past the limit fails with TOO_LARGE and leaves the buffer as it was. An all-zero buffer has the
 * default limit. Text we compose ourselves goes through the `buf_put_*` calls, which assert
 * instead of failing: their size is ours to know. */

#include "base/str.h"

struct err;

enum { BUF_LIMIT_DEFAULT = 64 << 20 };

struct buf {
    char *ptr;
    size_t len;
    size_t cap;
    size_t limit; /* 0 means BUF_LIMIT_DEFAULT */
    bool wipes;   /* may hold a secret: bytes that are dropped, moved or freed are overwritten */
};

static inline struct buf buf_with_limit(size_t limit)
{
    return (struct buf){.limit = limit};
}
void buf_done(struct buf *buf);
#define AUTO_BUF AUTO(buf_done)

static inline struct str buf_str(const struct buf *buf)
{
    return str_n(buf->ptr, buf->len);
}
/* As a C string; "" when empty. */
const char *buf_cstr(const struct buf *buf);
void buf_clear(struct buf *buf);
/* The bytes as a heap string that the caller frees; the buffer is empty afterwards. */
char *buf_take(struct buf *buf) MUST_USE;

/* Makes room for `more` bytes behind the end and gives the place; buf_commit then counts them. */
int buf_reserve(struct buf *buf, size_t more, char **ret_space, struct err *err) MUST_USE;
void buf_commit(struct buf *buf, size_t written);

int buf_append(struct buf *buf, struct str bytes, struct err *err) MUST_USE;
/* Reads `fd` to its end; NUL bytes and all. */
int buf_read_all(struct buf *buf, int fd, struct err *err) MUST_USE;
/* Drops the first `count` bytes. */
void buf_consume(struct buf *buf, size_t count);

void buf_put(struct buf *buf, struct str bytes);
void buf_put_char(struct buf *buf, char c);
void buf_put_cstr(struct buf *buf, const char *text);
/* "a, b, c" for `between` ", " */
void buf_put_joined(struct buf *buf, const struct str *items, size_t count, const char *between);
void buf_printf(struct buf *buf, const char *fmt, ...) PRINTF_LIKE(2, 3);
