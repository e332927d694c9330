#pragma once

/* Between reader.c (the daemon) and reader_serve.c (the process). The file that is read has
 * documents one behind the other: a struct reader_head, the title, the text, and for each chunk
 * that is asked about a struct reader_range and its heading. The file that is written has frames: a
 * length of 32 bits and the record, each written at once. */

#include <stdint.h>

#include "search/confine/confine.h"
#include "search/reader.h"

/* Descriptors of the process. */
enum { READER_IN = 3, READER_OUT = 4 };

struct reader_head {
    uint32_t format, title_len, text_len;
    uint32_t has_chunks, chunk_count;
};

struct reader_range {
    uint32_t start, len, heading_len;
};

/* What the process may do. */
extern const struct confine_list reader_calls;
