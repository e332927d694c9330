#include "io/http_words.h"

bool http_is_token(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (!char_is_alnum(c) && (c == '\0' || strchr("!#$%&'*+-.^_`|~", c) == NULL))
            return false;
    }
    return s.len > 0;
}

bool http_is_visible(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] <= 0x20 || s.ptr[i] >= 0x7f)
            return false;
    return s.len > 0;
}
