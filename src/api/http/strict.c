#include "api/http/strict.h"

#include "base/err.h"
#include "io/http_words.h"

void strict_done(struct strict *strict)
{
    buf_done(&strict->line);
}

static bool strict_refuse(struct strict *strict, int status, const char *why)
{
    strict->state = STRICT_BAD;
    strict->status = status;
    strict->why = why;
    buf_done(&strict->line);
    return false;
}

static bool check_version(struct strict *strict, struct str version)
{
    strict->is_http10 = str_eq(version, STR("HTTP/1.0"));
    if (strict->is_http10 || str_eq(version, STR("HTTP/1.1")))
        return true;
    bool shaped = version.len == 8 && str_starts(version, STR("HTTP/")) && version.ptr[6] == '.';
    return shaped ? strict_refuse(strict, 505, "only HTTP/1.0 and HTTP/1.1 are supported")
                  : strict_refuse(strict, 400, "the request line is not METHOD PATH HTTP/1.1");
}

static bool check_request_line(struct strict *strict, struct str line)
{
    struct str rest = line, method, target, version;
    bool three = str_split(&rest, ' ', &method) && str_split(&rest, ' ', &target) &&
                 str_split(&rest, ' ', &version) && rest.len == 0;
    if (!three || !http_is_token(method) || method.len > 32 || !http_is_visible(target) ||
        str_ends(line, STR(" ")))
        return strict_refuse(strict, 400, "the request line is not METHOD PATH HTTP/1.1");
    if (!check_version(strict, version))
        return false;
    bool star = str_eq(target, STR("*")) && str_eq(method, STR("OPTIONS"));
    if (target.ptr[0] != '/' && !star)
        return strict_refuse(strict, 400, "the request's path must begin with '/'");
    return true;
}

/* One blank may stand before the value, none behind it: what decides about a body's length gets no
 * room for different readings. */
static struct str exact_value(struct str raw)
{
    return str_starts(raw, STR(" ")) ? str_slice(raw, 1, raw.len) : raw;
}

static bool check_length(struct strict *strict, struct str raw)
{
    struct str value = exact_value(raw);
    int64_t length;
    if (strict->has_length)
        return strict_refuse(strict, 400, "duplicate Content-Length header");
    if (value.len == 0 || value.ptr[0] == '-' || !str_to_i64(value, 0, INT64_MAX, &length))
        return strict_refuse(strict, 400, "Content-Length is not a plain number");
    strict->has_length = true;
    strict->left = (uint64_t)length;
    return true;
}

static bool check_coding(struct strict *strict, struct str raw)
{
    if (strict->has_chunked)
        return strict_refuse(strict, 400, "duplicate Transfer-Encoding header");
    if (strict->is_http10)
        return strict_refuse(strict, 400, "HTTP/1.0 has no Transfer-Encoding");
    if (!str_eq_nocase(exact_value(raw), STR("chunked")))
        return strict_refuse(strict, 400, "the only supported Transfer-Encoding is chunked");
    strict->has_chunked = true;
    return true;
}

static bool check_header(struct strict *strict, struct str line)
{
    if (line.ptr[0] == ' ' || line.ptr[0] == '\t')
        return strict_refuse(strict, 400, "a header line is folded");
    size_t colon = str_find_char(line, ':');
    struct str name = str_slice(line, 0, colon);
    if (colon == line.len || !http_is_token(name))
        return strict_refuse(strict, 400, "a header line is not NAME: VALUE");
    if (++strict->headers > STRICT_HEADERS_MAX)
        return strict_refuse(strict, 431, "more than 100 header lines");
    struct str raw = str_slice(line, colon + 1, line.len);
    if (str_eq_nocase(name, STR("Content-Length")))
        return check_length(strict, raw);
    if (str_eq_nocase(name, STR("Transfer-Encoding")))
        return check_coding(strict, raw);
    if (str_eq_nocase(name, STR("Host"))) {
        if (strict->has_host)
            return strict_refuse(strict, 400, "duplicate Host header");
        strict->has_host = true;
    }
    return true;
}

static bool end_head(struct strict *strict)
{
    if (strict->has_length && strict->has_chunked)
        return strict_refuse(strict, 400, "both Content-Length and Transfer-Encoding are given");
    if (!strict->has_host)
        return strict_refuse(strict, 400, "the Host header is missing");
    strict->requests++;
    strict->body_seen = 0;
    buf_done(&strict->line);
    if (strict->has_chunked)
        strict->state = STRICT_CHUNK_SIZE;
    else
        strict->state = strict->left > 0 ? STRICT_BODY : STRICT_BETWEEN;
    return true;
}

static bool check_chunk_size(struct strict *strict, struct str line)
{
    uint64_t size = 0;
    if (!str_to_hex(line, &size))
        return strict_refuse(strict, 400, "a chunk's size is not a plain hexadecimal number");
    strict->left = size;
    strict->body_seen += size;
    if (strict->body_max > 0 && strict->body_seen > strict->body_max)
        return strict_refuse(strict, 413, "the request's body is too large");
    strict->state = size > 0 ? STRICT_CHUNK_DATA : STRICT_LAST_END;
    return true;
}

static bool strict_end_line(struct strict *strict)
{
    struct str line = buf_str(&strict->line);
    switch (strict->state) {
    case STRICT_LINE:
        strict->state = STRICT_HEADERS;
        return check_request_line(strict, line);
    case STRICT_HEADERS:
        return line.len == 0 ? end_head(strict) : check_header(strict, line);
    case STRICT_CHUNK_SIZE:
        return check_chunk_size(strict, line);
    case STRICT_CHUNK_END:
        strict->state = STRICT_CHUNK_SIZE;
        return line.len == 0 || strict_refuse(strict, 400, "a chunk is longer than its size says");
    case STRICT_LAST_END:
        strict->state = STRICT_BETWEEN;
        return line.len == 0 || strict_refuse(strict, 400, "trailers are not accepted");
    default:
        assert(false); /* a state without lines */
        return false;
    }
}

static bool line_has_room(struct strict *strict)
{
    switch (strict->state) {
    case STRICT_LINE:
        return strict->line.len < STRICT_LINE_MAX ||
               strict_refuse(strict, 414, "the request line is longer than 8 KiB");
    case STRICT_HEADERS:
        return ++strict->head_bytes <= STRICT_HEAD_MAX ||
               strict_refuse(strict, 431, "the headers are longer than 16 KiB");
    default:
        return strict->line.len < 32 || strict_refuse(strict, 400, "malformed chunk framing");
    }
}

static bool feed_line_byte(struct strict *strict, char c)
{
    bool had_cr = strict->had_cr;
    strict->had_cr = c == '\r';
    if (had_cr != (c == '\n'))
        return strict_refuse(strict, 400, "a line does not end with CR LF");
    if (!line_has_room(strict))
        return false;
    if (c == '\r')
        return true;
    if (c == '\n') {
        bool good = strict_end_line(strict);
        buf_clear(&strict->line);
        return good;
    }
    if (((unsigned char)c < 0x20 && c != '\t') || c == 0x7f)
        return strict_refuse(strict, 400, "control character in the headers");
    buf_put_char(&strict->line, c);
    return true;
}

static void begin_request(struct strict *strict)
{
    strict->state = STRICT_LINE;
    strict->had_cr = false;
    strict->head_bytes = strict->headers = 0;
    strict->has_length = strict->has_chunked = strict->has_host = false;
    strict->left = 0;
}

/* Bytes of a body need no look at each. Gives how many were passed over. */
static size_t skip_body(struct strict *strict, size_t available)
{
    size_t count = strict->left < available ? (size_t)strict->left : available;
    strict->left -= count;
    if (strict->state == STRICT_BODY)
        strict->body_seen += count;
    if (strict->left == 0)
        strict->state = strict->state == STRICT_BODY ? STRICT_BETWEEN : STRICT_CHUNK_END;
    return count;
}

bool strict_feed(struct strict *strict, struct str bytes, size_t *ret_good)
{
    size_t i = 0;
    *ret_good = 0;
    while (i < bytes.len && strict->state != STRICT_BAD) {
        switch (strict->state) {
        case STRICT_PASS:
            i = bytes.len;
            break;
        case STRICT_BODY:
        case STRICT_CHUNK_DATA:
            i += skip_body(strict, bytes.len - i);
            break;
        case STRICT_BETWEEN:
            begin_request(strict);
            /* fall through */
        default:
            (void)feed_line_byte(strict, bytes.ptr[i++]);
        }
        if (strict->state == STRICT_BETWEEN)
            *ret_good = i; /* a whole request may go on even if the next one is bad */
    }
    if (strict->state == STRICT_BAD)
        return false;
    *ret_good = bytes.len;
    return true;
}

bool strict_in_head(const struct strict *strict)
{
    return strict->state == STRICT_LINE || strict->state == STRICT_HEADERS;
}

bool strict_in_body(const struct strict *strict)
{
    return strict->state >= STRICT_BODY && strict->state <= STRICT_LAST_END;
}
