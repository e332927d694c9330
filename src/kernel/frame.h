#pragma once

/* The messages between an interpreter and its server, over one stream socket.
 *
 * A frame is a head of four little-endian numbers (length of the rest: 4 bytes, type: 2, flags: 2,
 * id: 4) and fields: numbers of 4 bytes, texts and bytes behind their length. Interpreters write
 * them in their own languages (cells/wire.py, script/wire.mjs). What an interpreter sends is a
 * tenant's data: every length is checked, and the contents are passed on as bytes, never parsed. */

#include "base/str.h"

struct buf;
struct err;

enum frame_type {
    FRAME_RUN = 1, /* code, language, variables: "NAME=value" with a NUL behind each */
    FRAME_ENV,     /* variables as above, for good: of the user of a spare interpreter */
    FRAME_COPY,    /* MiB at most; one byte with the descriptor of a file follows: write all your
                    * memory there */
    FRAME_QUIESCE, /* 1: leave the working directory for "/", so that the root can be exchanged; 0:
                    * go back. Any other frame also leads back */
    /* from the interpreter */
    FRAME_READY = 128, /* version */
    FRAME_DISPLAY,     /* count, then that many times: MIME type, bytes */
    FRAME_ERROR,       /* name, message, traceback, module that is missing or "" */
    FRAME_DONE,        /* number of the run, 1 when it did not fail; 1 when variables are gone */
    FRAME_COPIED,      /* 1 when it did not fail, or why not */
    FRAME_QUIESCED,    /* answer to QUIESCE 1: 1 when it is at "/" and nothing runs in it */
};

enum {
    FRAME_HEAD = 12,
    FRAME_MAX = 64 << 20,
    FRAME_FLAG_MAIN = 1, /* of DISPLAY: the value of the last expression */
    FRAME_FLAG_LIVE = 1, /* of READY: it continues from another interpreter's state */
};

struct frame {
    uint32_t type, flags, id;
    struct str fields; /* what is left of them; points into what was read */
};

/* Reads only the head and the size of what follows; false while it is incomplete. */
bool frame_head(struct str bytes, struct frame *ret_frame, uint32_t *ret_size) MUST_USE;
/* Takes the first frame of `bytes`. Gives its whole size, or 0 while it is not all there.
 * TOO_LARGE when it says that it is longer than any may be. */
ssize_t frame_read(struct str bytes, struct frame *ret_frame, struct err *err) MUST_USE;
/* Takes the next field; false if the next field is not of that kind. */
bool frame_number(struct frame *frame, uint32_t *ret_number) MUST_USE;
bool frame_bytes(struct frame *frame, struct str *ret_bytes) MUST_USE;

/* Appends a frame of texts, or of numbers. */
void frame_write(struct buf *out, uint32_t type, uint32_t id, const struct str *texts,
                 size_t count);
void frame_write_numbers(struct buf *out, uint32_t type, uint32_t id, const uint32_t *numbers,
                         size_t count);
