#pragma once

/* What a kernel and whoever runs it say to each other, over one stream socket.
 *
 * A frame is a head of four little-endian numbers (length of the rest: 4 bytes, type: 2, flags: 2,
 * id: 4) and fields: numbers of 4 bytes, texts and bytes behind their length. Kernels write them in
 * their own languages (cells/wire.py, script/wire.mjs). What a kernel says is a tenant's word:
 * every length is checked, and what is inside is passed on as bytes, never understood. */

#include "base/str.h"

struct buf;
struct err;

enum frame_type {
    FRAME_RUN = 1, /* code, language, variables: "NAME=value" with a NUL behind each */
    FRAME_ENV,     /* variables as above, for good: of whoever takes over a kernel made ahead */
    FRAME_COPY,    /* MiB at most; one byte with the descriptor of a file follows: write all your
                    * memory there */
    /* from the kernel */
    FRAME_READY = 128, /* version */
    FRAME_DISPLAY,     /* count, then that many times: MIME type, bytes */
    FRAME_ERROR,       /* name, message, traceback, module that is missing or "" */
    FRAME_DONE,        /* number of the run, 1 when it did not fail; 1 when variables are gone */
    FRAME_COPIED,      /* 1 when it did not fail, or why not */
};

enum {
    FRAME_HEAD = 12,
    FRAME_MAX = 64 << 20,
    FRAME_FLAG_MAIN = 1, /* of DISPLAY: the value of the last expression */
    FRAME_FLAG_LIVE = 1, /* of READY: it goes on where another kernel was */
};

struct frame {
    uint32_t type, flags, id;
    struct str fields; /* what is left of them; points into what was read */
};

/* Reads the head alone, and the size of what follows it; false while it is not all there. */
bool frame_head(struct str bytes, struct frame *ret_frame, uint32_t *ret_size) MUST_USE;
/* Takes the first frame of `bytes`. Gives its whole size, or 0 while it is not all there.
 * TOO_LARGE when it says that it is longer than any may be. */
ssize_t frame_read(struct str bytes, struct frame *ret_frame, struct err *err) MUST_USE;
/* Takes the next field; false when there is none of that kind. */
bool frame_number(struct frame *frame, uint32_t *ret_number) MUST_USE;
bool frame_bytes(struct frame *frame, struct str *ret_bytes) MUST_USE;

/* Appends a frame of texts, or of numbers. */
void frame_write(struct buf *out, uint32_t type, uint32_t id, const struct str *texts,
                 size_t count);
void frame_write_numbers(struct buf *out, uint32_t type, uint32_t id, const uint32_t *numbers,
                         size_t count);
