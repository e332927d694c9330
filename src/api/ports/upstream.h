#pragma once

/* Reads the response of a server inside a sandbox strictly.
 *
 * The bytes are hostile, and the response is forwarded over a connection that other requests also
 * use. So no bytes are passed through unparsed: status, headers and body are extracted one by one,
 * and the HTTP library frames them again. Ambiguous input is refused: line ends other than CR LF,
 * two lengths, a length with chunks, folded lines, control bytes, chunk extensions. Interim
 * responses (1xx) are skipped and trailers dropped. Pure: no input or output, no clock. */

#include "base/arena.h"
#include "base/buf.h"

enum {
    UPSTREAM_LINE_MAX = 16 << 10,
    UPSTREAM_HEAD_MAX = 32 << 10, /* all lines of a head, or all trailers: fits our own answer */
    UPSTREAM_HEADERS_MAX = 100,
    UPSTREAM_INTERIM_MAX = 8,
};

/* HEAD: the status line and headers come in. SIZED: `left` bytes of body. TO_END: body until the
 * connection ends. The CHUNK states, TRAILERS: a chunked body. SWITCHED: another protocol, what
 * follows is not read here. DONE: complete. BAD: refused, `why` says for what. Moves: end_line. */
enum upstream_state {
    UPSTREAM_HEAD,
    UPSTREAM_SIZED,
    UPSTREAM_TO_END,
    UPSTREAM_CHUNK_SIZE,
    UPSTREAM_CHUNK_DATA,
    UPSTREAM_CHUNK_END,
    UPSTREAM_TRAILERS,
    UPSTREAM_SWITCHED,
    UPSTREAM_DONE,
    UPSTREAM_BAD,
};

struct upstream_header {
    struct str name, value; /* value without blanks around it; tabs are blanks */
};

struct upstream {
    bool is_head_request, may_switch; /* the caller's: the method was HEAD; an upgrade was asked */

    enum upstream_state state;
    int status; /* 0 until its line is there */
    struct upstream_header headers[UPSTREAM_HEADERS_MAX];
    size_t header_count;
    bool has_length;
    int64_t length; /* as the header said, also where no body follows */
    uint64_t left;
    const char *why;

    struct arena arena;
    struct buf line;
    bool had_cr, is_http10, is_chunked;
    size_t head_bytes, interims;
};

void upstream_done(struct upstream *upstream);

/* Takes bytes from the front of `in`. True: `ret_body` is a piece of the body, part of what was in
 * `in`, or empty; call again while `in` is not empty and there is more to do. It comes back as soon
 * as the head is complete. False: BAD. */
bool upstream_feed(struct upstream *upstream, struct str *in, struct str *ret_body) MUST_USE;
/* The connection has ended: true when the answer is complete, DONE then. */
bool upstream_end(struct upstream *upstream) MUST_USE;

bool upstream_has_head(const struct upstream *upstream);
