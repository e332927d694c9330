#include "base/format/json_text.h"

void json_hide_nul(struct buf *json)
{
    static const char nul[] = "\\u0000";
    size_t len = sizeof nul - 1;
    for (size_t i = 0; i + len <= json->len; i++) {
        if (json->ptr[i] != '\\')
            continue;
        if (memcmp(json->ptr + i, nul, len) == 0)
            memcpy(json->ptr + i + 2, "fffd", 4);
        i++; /* what is escaped begins nothing */
    }
}
