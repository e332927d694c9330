#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sys.h"

enum { CAP_MIN = 64, READ_STEP = 16384 };

static size_t limit_of(const struct buf *buf)
{
    return buf->limit == 0 ? (size_t)BUF_LIMIT_DEFAULT : buf->limit;
}

/* Overwrites the bytes after the first `len` ones. */
static void wipe_after(struct buf *buf, size_t len)
{
    if (buf->wipes && buf->ptr != NULL)
        explicit_bzero(buf->ptr + len, buf->cap - len);
}

void buf_done(struct buf *buf)
{
    wipe_after(buf, 0);
    free(buf->ptr);
    *buf = (struct buf){.limit = buf->limit, .wipes = buf->wipes};
}

const char *buf_cstr(const struct buf *buf)
{
    return buf->ptr == NULL ? "" : buf->ptr;
}

void buf_clear(struct buf *buf)
{
    wipe_after(buf, 0);
    buf->len = 0;
    if (buf->ptr != NULL)
        buf->ptr[0] = '\0';
}

char *buf_take(struct buf *buf)
{
    char *bytes = buf->ptr == NULL ? mem_dup_cstr("") : buf->ptr;
    *buf = (struct buf){.limit = buf->limit, .wipes = buf->wipes};
    return bytes;
}

static void grow(struct buf *buf, size_t cap)
{
    if (buf->wipes && buf->ptr != NULL) {
        /* realloc would leave the old bytes in freed memory. */
        char *fresh = mem_alloc(cap);
        memcpy(fresh, buf->ptr, buf->len);
        wipe_after(buf, 0);
        free(buf->ptr);
        buf->ptr = fresh;
    } else {
        buf->ptr = mem_resize(buf->ptr, cap);
    }
    buf->cap = cap;
    buf->ptr[buf->len] = '\0';
}

int buf_reserve(struct buf *buf, size_t more, char **ret_space, struct err *err)
{
    size_t want;
    if (!add_size(buf->len, more, &want) || want > limit_of(buf))
        return err_set(err, ERR_TOO_LARGE, "more than %zu bytes", limit_of(buf));
    if (want + 1 > buf->cap) {
        size_t cap = MAX(buf->cap * 2, (size_t)CAP_MIN);
        grow(buf, MAX(cap, want + 1));
    }
    *ret_space = buf->ptr + buf->len;
    return 0;
}

void buf_commit(struct buf *buf, size_t written)
{
    assert(written < buf->cap - buf->len);
    buf->len += written;
    buf->ptr[buf->len] = '\0';
}

int buf_append(struct buf *buf, struct str bytes, struct err *err)
{
    char *space;
    if (buf_reserve(buf, bytes.len, &space, err) < 0)
        return -1;
    if (bytes.len > 0)
        memcpy(space, bytes.ptr, bytes.len);
    buf_commit(buf, bytes.len);
    return 0;
}

int buf_read_all(struct buf *buf, int fd, struct err *err)
{
    for (;;) {
        /* One byte more than allowed is asked for: only a file that really is longer fails. */
        char spare;
        size_t room = MIN(limit_of(buf) - buf->len, (size_t)READ_STEP);
        char *space = &spare;
        if (room > 0 && buf_reserve(buf, room, &space, err) < 0)
            return -1;
        ssize_t got = SYS(read(fd, space, MAX(room, (size_t)1)));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(err, errno, "read");
        if (got == 0)
            return 0;
        if (room == 0)
            return err_set(err, ERR_TOO_LARGE, "more than %zu bytes", limit_of(buf));
        buf_commit(buf, (size_t)got);
    }
}

void buf_consume(struct buf *buf, size_t count)
{
    assert(count <= buf->len);
    if (count == 0)
        return;
    memmove(buf->ptr, buf->ptr + count, buf->len - count + 1);
    buf->len -= count;
    wipe_after(buf, buf->len + 1);
}

void buf_put(struct buf *buf, struct str bytes)
{
    struct err err;
    int done = buf_append(buf, bytes, &err);
    assert(done == 0);
}

void buf_put_char(struct buf *buf, char c)
{
    if (buf->len + 1 < buf->cap && buf->len < limit_of(buf)) {
        buf->ptr[buf->len++] = c;
        buf->ptr[buf->len] = '\0';
        return;
    }
    buf_put(buf, str_n(&c, 1));
}

void buf_put_cstr(struct buf *buf, const char *text)
{
    buf_put(buf, str_of(text));
}

void buf_put_joined(struct buf *buf, const struct str *items, size_t count, const char *between)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_put_cstr(buf, between);
        buf_put(buf, items[i]);
    }
}

void buf_printf(struct buf *buf, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    assert(len >= 0);
    struct err err;
    char *space;
    int done = buf_reserve(buf, (size_t)len, &space, &err);
    assert(done == 0);
    va_start(args, fmt);
    (void)vsnprintf(space, (size_t)len + 1, fmt, args);
    va_end(args);
    buf_commit(buf, (size_t)len);
}
