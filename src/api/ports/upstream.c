#include "api/ports/upstream.h"

#include "base/err.h"
#include "io/http_words.h"

void upstream_done(struct upstream *upstream)
{
    buf_done(&upstream->line);
    arena_done(&upstream->arena);
}

bool upstream_has_head(const struct upstream *upstream)
{
    return upstream->state != UPSTREAM_HEAD && upstream->state != UPSTREAM_BAD;
}

static bool upstream_refuse(struct upstream *upstream, const char *why)
{
    upstream->state = UPSTREAM_BAD;
    upstream->why = why;
    return false;
}

/* ---- the head ------------------------------------------------------------------------------ */

/* "HTTP/1.1 200 OK"; the reason is ignored, and may be missing with its space. */
static bool take_status(struct upstream *upstream, struct str line)
{
    upstream->is_http10 = str_starts(line, STR("HTTP/1.0 "));
    if (!upstream->is_http10 && !str_starts(line, STR("HTTP/1.1 ")))
        return upstream_refuse(upstream, "its response does not begin with HTTP/1.1 or HTTP/1.0");
    struct str rest = str_slice(line, 9, line.len);
    if (rest.len < 3 || !char_is_digit(rest.ptr[0]) || !char_is_digit(rest.ptr[1]) ||
        !char_is_digit(rest.ptr[2]) || (rest.len > 3 && rest.ptr[3] != ' '))
        return upstream_refuse(upstream, "its response has no status of three digits");
    upstream->status = (rest.ptr[0] - '0') * 100 + (rest.ptr[1] - '0') * 10 + (rest.ptr[2] - '0');
    if (upstream->status < 100 || upstream->status > 599)
        return upstream_refuse(upstream,
                               "its response has a status that is not between 100 and 599");
    return true;
}

static bool take_length(struct upstream *upstream, struct str value)
{
    if (upstream->has_length)
        return upstream_refuse(upstream, "its response has Content-Length twice");
    if (value.len == 0 || !char_is_digit(value.ptr[0]) ||
        !str_to_i64(value, 0, INT64_MAX, &upstream->length))
        return upstream_refuse(upstream,
                               "its response has a Content-Length that is not a plain number");
    upstream->has_length = true;
    return true;
}

static bool take_coding(struct upstream *upstream, struct str value)
{
    if (upstream->is_chunked || upstream->is_http10 || !str_eq_nocase(value, STR("chunked")))
        return upstream_refuse(upstream, "its response has a Transfer-Encoding other than chunked");
    upstream->is_chunked = true;
    return true;
}

static struct str copy_value(struct upstream *upstream, struct str raw)
{
    struct str value = str_trim(raw);
    char *copy = arena_alloc(&upstream->arena, value.len + 1);
    for (size_t i = 0; i < value.len; i++)
        copy[i] = (char)(value.ptr[i] == '\t' ? ' ' : value.ptr[i]);
    copy[value.len] = '\0';
    return str_n(copy, value.len);
}

static bool take_header(struct upstream *upstream, struct str line)
{
    if (line.ptr[0] == ' ' || line.ptr[0] == '\t')
        return upstream_refuse(upstream, "its response has a folded header line");
    size_t colon = str_find_char(line, ':');
    struct str name = str_slice(line, 0, colon);
    if (colon == line.len || !http_is_token(name))
        return upstream_refuse(upstream, "its response has a header line that is not NAME: VALUE");
    if (upstream->header_count == UPSTREAM_HEADERS_MAX)
        return upstream_refuse(upstream, "its response has more than 100 header lines");
    struct upstream_header *header = &upstream->headers[upstream->header_count++];
    header->name = arena_dup(&upstream->arena, name);
    header->value = copy_value(upstream, str_slice(line, colon + 1, line.len));
    if (str_eq_nocase(name, STR("Content-Length")))
        return take_length(upstream, header->value);
    if (str_eq_nocase(name, STR("Transfer-Encoding")))
        return take_coding(upstream, header->value);
    return true;
}

static bool begin_again(struct upstream *upstream)
{
    if (++upstream->interims > UPSTREAM_INTERIM_MAX)
        return upstream_refuse(upstream, "it sends too many interim responses");
    upstream->status = 0;
    upstream->header_count = 0;
    upstream->has_length = upstream->is_chunked = false;
    return true;
}

static bool end_head(struct upstream *upstream)
{
    int status = upstream->status;
    if (upstream->has_length && upstream->is_chunked)
        return upstream_refuse(upstream,
                               "its response has both Content-Length and Transfer-Encoding");
    if (status == 101) {
        if (!upstream->may_switch)
            return upstream_refuse(upstream, "it switched protocols without an upgrade request");
        upstream->state = UPSTREAM_SWITCHED;
        return true;
    }
    if (status < 200)
        return begin_again(upstream);
    upstream->left = upstream->has_length ? (uint64_t)upstream->length : 0;
    if (upstream->is_head_request || status == 204 || status == 304)
        upstream->state = UPSTREAM_DONE;
    else if (upstream->is_chunked)
        upstream->state = UPSTREAM_CHUNK_SIZE;
    else if (upstream->has_length)
        upstream->state = upstream->left > 0 ? UPSTREAM_SIZED : UPSTREAM_DONE;
    else
        upstream->state = UPSTREAM_TO_END;
    return true;
}

/* ---- chunks -------------------------------------------------------------------------------- */

static bool take_chunk_size(struct upstream *upstream, struct str line)
{
    uint64_t size = 0;
    if (!str_to_hex(line, &size))
        return upstream_refuse(upstream,
                               "its response has a chunk whose size is not a plain number");
    upstream->left = size;
    upstream->head_bytes = 0;
    upstream->state = size > 0 ? UPSTREAM_CHUNK_DATA : UPSTREAM_TRAILERS;
    return true;
}

/* ---- lines --------------------------------------------------------------------------------- */

static bool upstream_end_line(struct upstream *upstream)
{
    struct str line = buf_str(&upstream->line);
    switch (upstream->state) {
    case UPSTREAM_HEAD:
        if (upstream->status == 0)
            return take_status(upstream, line);
        return line.len == 0 ? end_head(upstream) : take_header(upstream, line);
    case UPSTREAM_CHUNK_SIZE:
        return take_chunk_size(upstream, line);
    case UPSTREAM_CHUNK_END:
        upstream->state = UPSTREAM_CHUNK_SIZE;
        return line.len == 0 ||
               upstream_refuse(upstream, "its response has a chunk longer than its size");
    case UPSTREAM_TRAILERS:
        if (line.len == 0)
            upstream->state = UPSTREAM_DONE;
        return true;
    default:
        assert(false); /* a state without lines */
        return false;
    }
}

static bool take_line_byte(struct upstream *upstream, char c)
{
    bool had_cr = upstream->had_cr;
    upstream->had_cr = c == '\r';
    if (had_cr != (c == '\n'))
        return upstream_refuse(upstream, "its response has a line that does not end with CR LF");
    if (upstream->line.len >= UPSTREAM_LINE_MAX || ++upstream->head_bytes > UPSTREAM_HEAD_MAX)
        return upstream_refuse(
            upstream, "its response has headers longer than 64 KiB, or a line over 16 KiB");
    if (c == '\r')
        return true;
    if (c == '\n') {
        bool good = upstream_end_line(upstream);
        buf_clear(&upstream->line);
        return good;
    }
    if (((unsigned char)c < 0x20 && c != '\t') || c == 0x7f)
        return upstream_refuse(upstream, "its response has a control character in its headers");
    buf_put_char(&upstream->line, c);
    return true;
}

/* A piece of the body, unchanged. */
static struct str take_body(struct upstream *upstream, struct str *in)
{
    size_t count = in->len;
    if (upstream->state != UPSTREAM_TO_END) {
        count = upstream->left < in->len ? (size_t)upstream->left : in->len;
        upstream->left -= count;
    }
    struct str piece = str_slice(*in, 0, count);
    *in = str_slice(*in, count, in->len);
    if (upstream->left == 0 && upstream->state == UPSTREAM_SIZED)
        upstream->state = UPSTREAM_DONE;
    else if (upstream->left == 0 && upstream->state == UPSTREAM_CHUNK_DATA)
        upstream->state = UPSTREAM_CHUNK_END;
    return piece;
}

bool upstream_feed(struct upstream *upstream, struct str *in, struct str *ret_body)
{
    *ret_body = (struct str){0};
    bool was_head = upstream->state == UPSTREAM_HEAD;
    while (in->len > 0) {
        switch (upstream->state) {
        case UPSTREAM_BAD:
            return false;
        case UPSTREAM_DONE:
        case UPSTREAM_SWITCHED:
            return true;
        case UPSTREAM_SIZED:
        case UPSTREAM_TO_END:
        case UPSTREAM_CHUNK_DATA:
            *ret_body = take_body(upstream, in);
            return true;
        default:
            if (!take_line_byte(upstream, in->ptr[0]))
                return false;
            *in = str_slice(*in, 1, in->len);
        }
        if (was_head && upstream->state != UPSTREAM_HEAD)
            return true;
    }
    return upstream->state != UPSTREAM_BAD;
}

bool upstream_end(struct upstream *upstream)
{
    if (upstream->state == UPSTREAM_TO_END)
        upstream->state = UPSTREAM_DONE;
    return upstream->state == UPSTREAM_DONE;
}
