#pragma once

/* Judges the bytes of one HTTP/1 connection before the HTTP library sees them.
 *
 * Two readers that disagree about where a request ends let an attacker hide one request inside
 * another. So only the one plain spelling of HTTP/1.0 and 1.1 passes: CRLF line ends, one blank
 * where one belongs, no folded lines, one way to give the length of a body, no chunk extensions, no
 * trailers, no absolute URLs. Everything else is refused with a status and a reason. Pure: no
 * input or output, no clock. */

#include "base/buf.h"

enum {
    STRICT_LINE_MAX = 8 << 10,  /* the request line; more is 414 */
    STRICT_HEAD_MAX = 16 << 10, /* all header lines together; more is 431 */
    STRICT_HEADERS_MAX = 100,   /* more is 431 */
};

/* State of the connection. BETWEEN: no byte of the next request yet. LINE, HEADERS: a head is
 * coming in. BODY and the CHUNK states: its body. PASS: another protocol has taken over, nothing is
 * judged. BAD: refused, for good. */
enum strict_state {
    STRICT_BETWEEN,
    STRICT_LINE,
    STRICT_HEADERS,
    STRICT_BODY,
    STRICT_CHUNK_SIZE,
    STRICT_CHUNK_DATA,
    STRICT_CHUNK_END,
    STRICT_LAST_END,
    STRICT_PASS,
    STRICT_BAD,
};

struct strict {
    enum strict_state state;
    struct buf line;   /* of the line that is coming in */
    bool had_cr;       /* its last byte was a CR */
    size_t head_bytes; /* of header lines */
    size_t headers;    /* lines */
    bool is_http10;
    bool has_length, has_chunked, has_host;
    uint64_t left;      /* of the body or chunk */
    uint64_t body_seen; /* bytes of this request's body */
    uint64_t body_max;  /* chunked bodies past this are 413; 0: no limit */
    uint64_t requests;  /* heads that passed */
    int status;         /* once BAD: what to answer */
    const char *why;
};

void strict_done(struct strict *strict);

/* Judges `bytes`. True when all of them may go on. False: the first `*ret_good` bytes belong to
 * requests that are sound and complete, or to the sound start of one; what follows must not
 * be read, and `status` and `why` are set. */
bool strict_feed(struct strict *strict, struct str bytes, size_t *ret_good) MUST_USE;

bool strict_in_head(const struct strict *strict);
bool strict_in_body(const struct strict *strict);
