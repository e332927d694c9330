#pragma once

/* HTTP/1 messages taken apart, strictly: two readers that disagree about where a message ends let
 * an attacker hide one message inside another (request smuggling). CRLF line ends, no folded lines,
 * no control bytes, one way to give the length of a body. What is forwarded is rewritten from the
 * parsed parts, never passed through. Pure: no input or output, no clock. */

#include "base/buf.h"
#include "base/vec.h"

enum http1_step {
    HTTP1_MORE, /* all bytes were taken, more are needed */
    HTTP1_DONE,
    HTTP1_BAD, /* `why` says what is wrong */
};

struct http1_field {
    struct str name, value; /* the value without blanks around it */
};

/* A head as it comes in. All-zero but for the limits is a valid start. */
struct http1_head {
    size_t bytes_max, fields_max;
    struct buf bytes; /* lines, each with its CRLF */
    size_t line_start;
    bool had_cr;
    bool is_too_large; /* when BAD: because of a limit */
    const char *why;
    /* Once DONE; the views are good until the reset. */
    struct str first; /* the request or status line */
    VEC(struct http1_field) fields;
};

void http1_head_done(struct http1_head *head);
void http1_head_reset(struct http1_head *head);
/* Takes bytes up to the end of the head and no further. */
enum http1_step http1_head_feed(struct http1_head *head, struct str bytes, size_t *ret_used);
/* The first field of that name, or NULL. */
const struct http1_field *http1_find(const struct http1_head *head, const char *name);
/* One of the comma-separated words of all fields of that name, in any case. */
bool http1_has_word(const struct http1_head *head, const char *name, const char *word);

enum http1_framing {
    HTTP1_EMPTY,
    HTTP1_LENGTH,
    HTTP1_CHUNKED,
    HTTP1_UNTIL_CLOSE, /* answers only */
};

/* A body as it comes in. */
struct http1_body {
    enum http1_framing framing;
    uint64_t left; /* of the body or the chunk */
    enum { CHUNK_SIZE, CHUNK_DATA, CHUNK_END, CHUNK_TRAILER, CHUNK_LAST } state;
    bool is_lenient; /* chunk extensions and trailers are read over, as answers may have them */
    char line[24];   /* of a chunk's size */
    size_t line_len, skipped;
    bool had_cr, in_extension;
    const char *why;
};

/* What the head says about its body: fills `framing` and `left`. False, with `why`, for a length
 * that is given twice, in two ways or not as a number. Without any it is EMPTY. */
bool http1_read_framing(const struct http1_head *head, bool is_http10, struct http1_body *body,
                        const char **ret_why) MUST_USE;
/* Takes bytes up to the end of the body; `*ret_data` is a part of the body within them, maybe
 * empty. MORE with bytes left means: call again. A body until the close is never DONE. */
enum http1_step http1_body_feed(struct http1_body *body, struct str bytes, size_t *ret_used,
                                struct str *ret_data);
