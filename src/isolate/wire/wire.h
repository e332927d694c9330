#pragma once

/* Messages between a worker and its creator: frames on a stream socket.
 *
 * A frame is a head of 12 bytes (length of the body, type, isolate) and a body of fields. Neither
 * end trusts the other: lengths are checked before memory is allocated, fields before they are
 * used, and an invalid frame ends the connection. */

#include "base/buf.h"
#include "isolate/inside/isolate.h"

struct err;

enum isolate_wire_type {
    /* To the worker. Isolate 0 in RUN is a fresh one that ends with the run. */
    WIRE_RUN = 1,
    WIRE_OPEN,   /* limits -> OPENED */
    WIRE_PAUSE,  /* -> BYTES */
    WIRE_RESUME, /* limits, bytes -> OPENED */
    WIRE_ANSWER, /* to a BRIDGE */
    /* From it. */
    WIRE_READY = 64, /* locked, waiting */
    WIRE_CONSOLE,    /* while running */
    WIRE_BRIDGE,     /* while running */
    WIRE_DONE,       /* the result of a RUN */
    WIRE_OPENED,
    WIRE_BYTES,
    WIRE_FAILED, /* an err instead of what was asked */
    WIRE_CANCEL, /* while running: a BRIDGE needs no answer any more */
};

enum { WIRE_HEAD = 12, WIRE_BODY_MAX = 64 << 20, WIRE_MODULES_MAX = 256 };

struct isolate_wire_frame {
    enum isolate_wire_type type;
    uint32_t isolate;
    struct str body;
};

/* Writing: begin, fields, end. */
void isolate_wire_begin(struct buf *out, enum isolate_wire_type type, uint32_t isolate);
void isolate_wire_put_u32(struct buf *out, uint32_t n);
void isolate_wire_put_u64(struct buf *out, uint64_t n);
void isolate_wire_put_str(struct buf *out, struct str text);
void isolate_wire_end(struct buf *out); /* of the one frame in the buffer */

/* Reading: takes one whole frame from the front of `in`. 1, 0 when more bytes are needed, -1 when
 * the bytes are no frame (INVALID, TOO_LARGE). The body is borrowed from `in`; consume
 * WIRE_HEAD + body.len when done. */
int isolate_wire_take(const struct buf *in, struct isolate_wire_frame *ret_frame, struct err *err);
/* Takes fields from the front of `*body`; false if they are missing. */
bool isolate_wire_get_u32(struct str *body, uint32_t *ret_n) MUST_USE;
bool isolate_wire_get_str(struct str *body, struct str *ret_text) MUST_USE;

void isolate_wire_put_limits(struct buf *out, const struct isolate_limits *limits);
bool isolate_wire_get_limits(struct str *body, struct isolate_limits *ret_limits) MUST_USE;
void isolate_wire_put_call(struct buf *out, const struct isolate_call *call);
/* Modules go to `modules`, which has room for WIRE_MODULES_MAX; `file` is a copy in `file_room`. */
bool isolate_wire_get_call(struct str *body, struct isolate_call *ret_call,
                           struct isolate_module *modules, char *file_room,
                           size_t file_size) MUST_USE;
void isolate_wire_put_result(struct buf *out, const struct isolate_result *result);
bool isolate_wire_get_result(struct str *body, struct isolate_result *ret_result) MUST_USE;

/* Whole frames over a socket. `in` keeps what was read too far. TIMEOUT after `ms` (-1: never),
 * UNAVAILABLE when the other side has closed. */
int isolate_wire_send(int fd, struct buf *frame, struct err *err) MUST_USE;
int isolate_wire_receive(int fd, struct buf *in, int64_t ms, struct isolate_wire_frame *ret_frame,
                         struct err *err) MUST_USE;
