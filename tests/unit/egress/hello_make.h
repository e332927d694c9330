#pragma once

/* A ClientHello with these server names (NULL for none), cut into records of `piece` bytes. */

#include "base/buf.h"

static inline void hello_put_u16(struct buf *out, size_t n)
{
    buf_put_char(out, (char)(n >> 8));
    buf_put_char(out, (char)(n & 0xff));
}

static inline void hello_make(const char *name, size_t piece, struct buf *out)
{
    AUTO_BUF struct buf extensions = {0}, body = {0}, message = {0};
    if (name != NULL) {
        size_t len = strlen(name);
        hello_put_u16(&extensions, 0);
        hello_put_u16(&extensions, len + 5);
        hello_put_u16(&extensions, len + 3);
        buf_put_char(&extensions, 0);
        hello_put_u16(&extensions, len);
        buf_put_cstr(&extensions, name);
    }
    hello_put_u16(&extensions, 43);
    hello_put_u16(&extensions, 3);
    buf_put(&extensions, STR("\x02\x03\x04"));
    hello_put_u16(&body, 0x0303);
    buf_put(&body, STR("0123456789abcdef0123456789abcdef"));
    buf_put_char(&body, 0);
    hello_put_u16(&body, 2);
    hello_put_u16(&body, 0x1301);
    buf_put(&body, STR("\x01\x00"));
    hello_put_u16(&body, extensions.len);
    buf_put(&body, buf_str(&extensions));
    buf_put_char(&message, 1);
    buf_put_char(&message, 0);
    hello_put_u16(&message, body.len);
    buf_put(&message, buf_str(&body));
    for (size_t at = 0; at < message.len; at += piece) {
        struct str part = str_slice(buf_str(&message), at, at + piece);
        buf_put(out, STR("\x16\x03\x01"));
        hello_put_u16(out, part.len);
        buf_put(out, part);
    }
}
