#include "egress/keys/http1.h"

#include "io/http_words.h"

enum { SKIPPED_MAX = 16 << 10 /* extensions and trailers of one body */ };

/* --- Heads --- */

void http1_head_done(struct http1_head *head)
{
    buf_done(&head->bytes);
    vec_done(&head->fields);
}

void http1_head_reset(struct http1_head *head)
{
    buf_clear(&head->bytes);
    head->fields.len = 0;
    head->line_start = 0;
    head->had_cr = false;
    head->first = (struct str){0};
}

static enum http1_step bad(struct http1_head *head, const char *why)
{
    head->why = why;
    return HTTP1_BAD;
}

static enum http1_step too_large(struct http1_head *head, const char *why)
{
    head->is_too_large = true;
    return bad(head, why);
}

static enum http1_step take_field(struct http1_head *head, struct str line)
{
    size_t colon = str_find_char(line, ':');
    struct str name = str_slice(line, 0, colon);
    if (line.ptr[0] == ' ' || line.ptr[0] == '\t')
        return bad(head, "a header line is folded");
    if (colon == line.len || !http_is_token(name))
        return bad(head, "a header line is not NAME: VALUE");
    if (head->fields.len == head->fields_max)
        return too_large(head, "too many header lines");
    *vec_push(&head->fields) =
        (struct http1_field){name, str_trim(str_slice(line, colon + 1, line.len))};
    return HTTP1_MORE;
}

/* The buffer does not move any more, so views into it hold. */
static enum http1_step take_lines(struct http1_head *head)
{
    struct str rest = buf_str(&head->bytes);
    for (bool is_first = true; rest.len > 2; is_first = false) {
        size_t end = str_find_char(rest, '\n');
        struct str line = str_slice(rest, 0, end - 1);
        rest = str_slice(rest, end + 1, rest.len);
        if (is_first)
            head->first = line;
        else if (take_field(head, line) == HTTP1_BAD)
            return HTTP1_BAD;
    }
    return HTTP1_DONE;
}

static enum http1_step http1_end_line(struct http1_head *head)
{
    size_t len = head->bytes.len - head->line_start;
    bool is_empty = len == 2, is_first = head->line_start == 0;
    head->line_start = head->bytes.len;
    if (!is_empty)
        return HTTP1_MORE;
    return is_first ? bad(head, "a message begins with an empty line") : take_lines(head);
}

static enum http1_step feed_byte(struct http1_head *head, char c)
{
    bool had_cr = head->had_cr;
    head->had_cr = c == '\r';
    if (had_cr != (c == '\n'))
        return bad(head, "a line does not end with CR LF");
    if (((unsigned char)c < 0x20 && c != '\t' && c != '\r' && c != '\n') || c == 0x7f)
        return bad(head, "the head contains a control character");
    if (head->bytes.len >= head->bytes_max)
        return too_large(head, "the head is too long");
    buf_put_char(&head->bytes, c);
    return c == '\n' ? http1_end_line(head) : HTTP1_MORE;
}

enum http1_step http1_head_feed(struct http1_head *head, struct str bytes, size_t *ret_used)
{
    enum http1_step step = HTTP1_MORE;
    size_t i = 0;
    while (i < bytes.len && step == HTTP1_MORE)
        step = feed_byte(head, bytes.ptr[i++]);
    *ret_used = i;
    return step;
}

const struct http1_field *http1_find(const struct http1_head *head, const char *name)
{
    VEC_EACH (field, &head->fields)
        if (str_eq_nocase(field->name, str_of(name)))
            return field;
    return NULL;
}

bool http1_has_word(const struct http1_head *head, const char *name, const char *word)
{
    VEC_EACH (field, &head->fields) {
        struct str rest = field->value, item;
        if (!str_eq_nocase(field->name, str_of(name)))
            continue;
        while (str_split(&rest, ',', &item))
            if (str_eq_nocase(str_trim(item), str_of(word)))
                return true;
    }
    return false;
}

/* --- Bodies --- */

static bool read_length(struct str value, uint64_t *ret_length)
{
    int64_t length;
    bool is_plain = value.len > 0 && value.len <= 18;
    for (size_t i = 0; i < value.len; i++)
        is_plain = is_plain && char_is_digit(value.ptr[i]);
    if (!is_plain || !str_to_i64(value, 0, INT64_MAX, &length))
        return false;
    *ret_length = (uint64_t)length;
    return true;
}

bool http1_read_framing(const struct http1_head *head, bool is_http10, struct http1_body *body,
                        const char **ret_why)
{
    bool has_length = false, has_coding = false;
    uint64_t length = 0;
    const char *why = NULL;
    VEC_EACH (field, &head->fields) {
        if (str_eq_nocase(field->name, STR("Content-Length"))) {
            if (has_length)
                why = "Content-Length is given twice";
            else if (!read_length(field->value, &length))
                why = "Content-Length is not a plain number";
            has_length = true;
        } else if (str_eq_nocase(field->name, STR("Transfer-Encoding"))) {
            if (has_coding)
                why = "Transfer-Encoding is given twice";
            else if (is_http10 || !str_eq_nocase(field->value, STR("chunked")))
                why = "the only supported Transfer-Encoding is chunked, and HTTP/1.0 has none";
            has_coding = true;
        }
    }
    if (has_length && has_coding)
        why = "both Content-Length and Transfer-Encoding are given";
    *ret_why = why;
    *body = (struct http1_body){.framing = has_coding   ? HTTP1_CHUNKED
                                           : has_length ? HTTP1_LENGTH
                                                        : HTTP1_EMPTY,
                                .left = length};
    return why == NULL;
}

static enum http1_step body_bad(struct http1_body *body, const char *why)
{
    body->why = why;
    return HTTP1_BAD;
}

static enum http1_step end_size(struct http1_body *body)
{
    uint64_t size = 0;
    if (!str_to_hex(str_n(body->line, body->line_len), &size))
        return body_bad(body, "a chunk's size is not a plain hexadecimal number");
    body->left = size;
    body->state = size > 0 ? CHUNK_DATA : CHUNK_LAST;
    body->line_len = 0;
    body->in_extension = false;
    return HTTP1_MORE;
}

static enum http1_step end_frame_line(struct http1_body *body)
{
    bool is_empty = body->line_len == 0;
    switch (body->state) {
    case CHUNK_SIZE:
        return end_size(body);
    case CHUNK_END:
        body->state = CHUNK_SIZE;
        return is_empty ? HTTP1_MORE : body_bad(body, "a chunk is longer than its size says");
    default: /* CHUNK_LAST, CHUNK_TRAILER */
        body->state = CHUNK_TRAILER;
        body->line_len = 0;
        if (is_empty)
            return HTTP1_DONE;
        return body->is_lenient ? HTTP1_MORE : body_bad(body, "trailers are not accepted");
    }
}

/* Sizes are kept; extensions and trailers only counted. */
static enum http1_step http1_keep(struct http1_body *body, char c)
{
    bool is_size = body->state == CHUNK_SIZE && !body->in_extension;
    if (is_size && body->is_lenient && (c == ';' || c == ' ' || c == '\t')) {
        body->in_extension = true;
        return HTTP1_MORE;
    }
    if (is_size) {
        if (body->line_len == sizeof body->line)
            return body_bad(body, "a chunk's frame is malformed");
        body->line[body->line_len++] = c;
        return HTTP1_MORE;
    }
    if (body->state != CHUNK_SIZE)
        body->line_len = 1; /* not empty */
    return ++body->skipped <= SKIPPED_MAX ? HTTP1_MORE
                                          : body_bad(body, "a chunk's frame is malformed");
}

static enum http1_step feed_frame_byte(struct http1_body *body, char c)
{
    bool had_cr = body->had_cr;
    body->had_cr = c == '\r';
    if (had_cr != (c == '\n') || (unsigned char)c == 0)
        return body_bad(body, "a chunk's frame does not end with CR LF");
    if (c == '\r')
        return HTTP1_MORE;
    return c == '\n' ? end_frame_line(body) : http1_keep(body, c);
}

static enum http1_step feed_chunked(struct http1_body *body, struct str bytes, size_t *ret_used,
                                    struct str *ret_data)
{
    enum http1_step step = HTTP1_MORE;
    size_t i = 0;
    while (i < bytes.len && step == HTTP1_MORE && body->state != CHUNK_DATA)
        step = feed_frame_byte(body, bytes.ptr[i++]);
    if (step == HTTP1_MORE && body->state == CHUNK_DATA) {
        size_t count = (size_t)MIN(body->left, (uint64_t)(bytes.len - i));
        *ret_data = str_slice(bytes, i, i + count);
        i += count;
        body->left -= count;
        if (body->left == 0)
            body->state = CHUNK_END;
    }
    *ret_used = i;
    return step;
}

enum http1_step http1_body_feed(struct http1_body *body, struct str bytes, size_t *ret_used,
                                struct str *ret_data)
{
    *ret_used = 0;
    *ret_data = (struct str){0};
    switch (body->framing) {
    case HTTP1_EMPTY:
        return HTTP1_DONE;
    case HTTP1_LENGTH: {
        size_t count = (size_t)MIN(body->left, (uint64_t)bytes.len);
        *ret_data = str_slice(bytes, 0, count);
        *ret_used = count;
        body->left -= count;
        return body->left == 0 ? HTTP1_DONE : HTTP1_MORE;
    }
    case HTTP1_UNTIL_CLOSE:
        *ret_data = bytes;
        *ret_used = bytes.len;
        return HTTP1_MORE;
    default:
        return feed_chunked(body, bytes, ret_used, ret_data);
    }
}
