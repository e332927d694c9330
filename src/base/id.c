#include "base/id.h"

#include <errno.h>
#include <sys/random.h>

void id_random(void *out, size_t size)
{
    unsigned char *at = out;
    while (size > 0) {
        ssize_t got = getrandom(at, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        /* Without randomness nothing here is safe; getrandom fails only on a broken system. */
        assert(got > 0);
        at += got;
        size -= (size_t)got;
    }
}

static void random_text(char *out, size_t len)
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz234567";
    unsigned char bytes[TOKEN_LEN];
    assert(len <= sizeof bytes);
    id_random(bytes, len);
    for (size_t i = 0; i < len; i++)
        out[i] = alphabet[bytes[i] & 31];
    out[len] = '\0';
    explicit_bzero(bytes, sizeof bytes);
}

void id_new(char out[ID_SIZE])
{
    random_text(out, ID_LEN);
}

void id_new_token(char out[TOKEN_SIZE])
{
    random_text(out, TOKEN_LEN);
}

bool id_is_valid(struct str s)
{
    if (s.len < 8 || s.len > 64)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool good = (c >= 'a' && c <= 'z') || char_is_digit(c) || c == '_' || c == '-';
        if (!good)
            return false;
    }
    return true;
}
