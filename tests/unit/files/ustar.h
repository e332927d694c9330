#pragma once

/* tar headers written by hand: what no honest program would write. */

#include "base/buf.h"

static inline void ustar_header(struct buf *out, const char *name, char type, const char *target,
                                unsigned mode, const char *size_field)
{
    char block[512] = {0};
    unsigned sum = 0;
    (void)snprintf(block, 100, "%s", name);
    (void)snprintf(block + 100, 8, "%07o", mode);
    (void)snprintf(block + 108, 8, "%07o", 0u);
    (void)snprintf(block + 116, 8, "%07o", 0u);
    memcpy(block + 124, size_field, MIN(strlen(size_field), (size_t)12));
    (void)snprintf(block + 136, 12, "%011o", 1000000000u);
    memset(block + 148, ' ', 8);
    block[156] = type;
    (void)snprintf(block + 157, 100, "%s", target);
    memcpy(block + 257,
           "ustar\0"
           "00",
           8);
    for (size_t i = 0; i < sizeof block; i++)
        sum += (unsigned char)block[i];
    (void)snprintf(block + 148, 8, "%06o", sum);
    buf_put(out, str_n(block, sizeof block));
}

static inline void ustar_add(struct buf *out, const char *name, char type, const char *target,
                             const char *text)
{
    char size[13];
    static const char zeros[512];
    size_t len = strlen(text);
    (void)snprintf(size, sizeof size, "%011o", (unsigned)len);
    ustar_header(out, name, type, target, 04755, size);
    buf_put(out, str_of(text));
    buf_put(out, str_n(zeros, (512 - len % 512) % 512));
}

static inline void ustar_end(struct buf *out)
{
    static const char zeros[1024];
    buf_put(out, str_n(zeros, sizeof zeros));
}
