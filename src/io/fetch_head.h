#pragma once

/* The head of an answer, line by line: kept where it is plain, refused where two readers could
 * understand it differently. */

#include "base/vec.h"
#include "io/fetch.h"

struct arena;

struct fetch_head {
    size_t max, bytes; /* `max` is the caller's */
    int status;
    struct str status_text, length, coding;
    bool has_status, is_done, has_length, is_chunked;
    VEC(struct fetch_header) headers;
};

/* Texts go to `arena`. UNAVAILABLE for a head that is broken, TOO_LARGE. */
int fetch_head_take(struct fetch_head *head, struct arena *arena, struct str line,
                    struct err *err) MUST_USE;
