#include "base/base64.h"

#include "base/buf.h"

void base64_put(struct str bytes, struct buf *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t left = bytes.len - i;
        uint32_t group = (uint32_t)(unsigned char)bytes.ptr[i] << 16;
        if (left > 1)
            group |= (uint32_t)(unsigned char)bytes.ptr[i + 1] << 8;
        if (left > 2)
            group |= (unsigned char)bytes.ptr[i + 2];
        char text[4] = {digits[group >> 18], digits[group >> 12 & 63],
                        left > 1 ? digits[group >> 6 & 63] : '=',
                        left > 2 ? digits[group & 63] : '='};
        buf_put(out, str_n(text, sizeof text));
    }
}
