#include "base/format/base64.h"

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

static int digit_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (char_is_digit(c))
        return c - '0' + 52;
    return c == '+' ? 62 : (c == '/' ? 63 : -1);
}

bool base64_read(struct str text, struct buf *out)
{
    size_t before = out->len;
    for (size_t i = 0; i < text.len; i += 4) {
        size_t pad = 0;
        uint32_t group = 0;
        for (size_t k = 0; k < 4 && text.len % 4 == 0; k++) {
            char c = text.ptr[i + k];
            bool is_pad = c == '=' && i + 4 == text.len && k >= 2;
            int digit = is_pad ? 0 : digit_of(c);
            pad = is_pad ? pad + 1 : (pad > 0 ? 3 : 0);
            group = group << 6 | (uint32_t)digit;
            if (digit < 0)
                pad = 3;
        }
        if (text.len % 4 != 0 || pad > 2) {
            while (out->len > before)
                out->ptr[--out->len] = '\0';
            return false;
        }
        char bytes[3] = {(char)(group >> 16), (char)(group >> 8), (char)group};
        buf_put(out, str_n(bytes, 3 - pad));
    }
    return true;
}
