#pragma once

/* Heads of HTTP/1 messages, read strictly, and where their bodies end.
 *
 * Whatever two readers could understand differently is refused: bare line feeds, folded lines,
 * blanks before a colon, two lengths, a length beside a coding. What passes has one meaning. */

#include "base/str.h"

struct buf;
struct err;

enum {
    HTTP_HEAD_MAX = 64 << 10,
    HTTP_FIELDS_MAX = 128,
    HTTP_CHUNK_LINE_MAX = 256,
    HTTP_TRAILER_MAX = 8 << 10,
};

struct http_field {
    struct str name, value;
};

enum http_framing { HTTP_NO_BODY, HTTP_LENGTH, HTTP_CHUNKED, HTTP_UNTIL_END };

struct http_head {
    struct str method, target; /* of a request */
    int status;                /* of an answer */
    struct str reason;
    int minor; /* HTTP/1.minor */
    struct http_field fields[HTTP_FIELDS_MAX];
    size_t field_count;
    enum http_framing framing;
    uint64_t length; /* with HTTP_LENGTH */
};

/* Index behind the empty line that ends a head; 0 while it is not there. */
size_t http_head_end(struct str bytes);

/* `head` ends with the empty line; the strings stay in it. INVALID with what is wrong. */
int http_read_request(struct str head, struct http_head *ret_head, struct err *err) MUST_USE;
/* The answer to a request with this method. */
int http_read_answer(struct str head, struct str method, struct http_head *ret_head,
                     struct err *err) MUST_USE;

/* The only field of this name; empty with a NULL `ptr` when there is none. */
struct str http_find(const struct http_head *head, struct str name);
/* Whether a list like "keep-alive, Upgrade" holds this word. */
bool http_list_has(struct str list, struct str word);
/* Fields that concern one connection alone and are not passed on: those that everybody knows and
 * those that Connection names. */
bool http_is_hop_field(const struct http_head *head, struct str name);

/* Follows a body through its bytes. */
struct http_body {
    enum http_framing framing;
    uint64_t left; /* of the length or of the chunk */
    enum { HTTP_CHUNK_SIZE, HTTP_CHUNK_DATA, HTTP_CHUNK_END, HTTP_CHUNK_TRAILER } chunk;
    size_t line; /* bytes of the line so far, or of all trailers */
    bool saw_digit, in_extension, saw_cr, at_line_start;
    bool is_done;
};
void http_body_begin(struct http_body *body, const struct http_head *head);
/* How many of the bytes belong to the body, framing included; sets is_done behind the last. INVALID
 * when they are no chunks. */
int http_body_take(struct http_body *body, struct str bytes, size_t *ret_used,
                   struct err *err) MUST_USE;
