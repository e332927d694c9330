#include "egress/http_head.h"

#include "base/buf.h"
#include "base/err.h"

/* RFC 9110 tokens. */
static bool is_token(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        bool is_alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!is_alnum && (c == '\0' || strchr("!#$%&'*+-.^_`|~", c) == NULL))
            return false;
    }
    return s.len > 0;
}

/* No control bytes but tabs; bytes above ASCII are opaque and pass. */
static bool is_text(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

size_t http_head_end(struct str bytes)
{
    size_t at = str_find(bytes, STR("\r\n\r\n"));
    return at < bytes.len ? at + 4 : 0;
}

static int read_field(struct str line, struct http_head *head, struct err *err)
{
    size_t colon = str_find_char(line, ':');
    struct str name = str_slice(line, 0, colon);
    if (colon == line.len || !is_token(name))
        return err_set(err, ERR_INVALID, "a header line is not NAME: VALUE");
    struct str value = str_trim(str_slice(line, colon + 1, line.len));
    if (!is_text(value))
        return err_set(err, ERR_INVALID, "a header holds control bytes");
    if (head->field_count == HTTP_FIELDS_MAX)
        return err_set(err, ERR_TOO_LARGE, "more than %d headers", HTTP_FIELDS_MAX);
    head->fields[head->field_count++] = (struct http_field){name, value};
    return 0;
}

/* Cuts one line, which must end with CR LF. */
static bool next_line(struct str *rest, struct str *ret_line)
{
    size_t end = str_find(*rest, STR("\r\n"));
    if (end >= rest->len)
        return false;
    *ret_line = str_slice(*rest, 0, end);
    *rest = str_slice(*rest, end + 2, rest->len);
    return true;
}

static int read_fields(struct str rest, struct http_head *head, struct err *err)
{
    struct str line;
    while (next_line(&rest, &line) && line.len > 0)
        if (read_field(line, head, err) < 0)
            return -1;
    return rest.len == 0 ? 0 : err_set(err, ERR_INVALID, "the head has no end");
}

static const struct http_field *find_next(const struct http_head *head, struct str name,
                                          const struct http_field *after)
{
    size_t from = after == NULL ? 0 : (size_t)(after - head->fields) + 1;
    for (size_t i = from; i < head->field_count; i++)
        if (str_eq_nocase(head->fields[i].name, name))
            return &head->fields[i];
    return NULL;
}

struct str http_find(const struct http_head *head, struct str name)
{
    const struct http_field *field = find_next(head, name, NULL);
    return field == NULL ? (struct str){0} : field->value;
}

static int check_once(const struct http_head *head, struct str name, struct err *err)
{
    const struct http_field *first = find_next(head, name, NULL);
    if (first != NULL && find_next(head, name, first) != NULL)
        return err_set(err, ERR_INVALID, "%.*s stands there twice", STR_ARG(name));
    return 0;
}

/* What the length fields say; the caller knows what holds without any. */
static int read_framing(struct http_head *head, enum http_framing without, struct err *err)
{
    if (check_once(head, STR("content-length"), err) < 0 ||
        check_once(head, STR("transfer-encoding"), err) < 0)
        return -1;
    struct str length = http_find(head, STR("content-length"));
    struct str coding = http_find(head, STR("transfer-encoding"));
    int64_t n = 0;
    head->framing = without;
    if (coding.ptr != NULL && (length.ptr != NULL || head->minor == 0))
        return err_set(err, ERR_INVALID, "Transfer-Encoding beside Content-Length or HTTP/1.0");
    if (coding.ptr != NULL && !str_eq_nocase(coding, STR("chunked")))
        return err_set(err, ERR_INVALID, "a Transfer-Encoding other than chunked");
    if (length.ptr != NULL &&
        (length.len == 0 || length.ptr[0] == '-' || !str_to_i64(length, 0, INT64_MAX, &n)))
        return err_set(err, ERR_INVALID, "Content-Length is not a number");
    if (coding.ptr != NULL)
        head->framing = HTTP_CHUNKED;
    else if (length.ptr != NULL)
        head->framing = n == 0 ? HTTP_NO_BODY : HTTP_LENGTH;
    head->length = (uint64_t)n;
    return 0;
}

static bool read_version(struct str text, int *ret_minor)
{
    *ret_minor = str_eq(text, STR("HTTP/1.1"));
    return *ret_minor == 1 || str_eq(text, STR("HTTP/1.0"));
}

int http_read_request(struct str head, struct http_head *ret_head, struct err *err)
{
    struct str rest = head, line;
    *ret_head = (struct http_head){0};
    if (!next_line(&rest, &line))
        return err_set(err, ERR_INVALID, "the head has no end");
    size_t first = str_find_char(line, ' ');
    struct str after = str_slice(line, first + 1, line.len);
    size_t second = str_find_char(after, ' ');
    ret_head->method = str_slice(line, 0, first);
    ret_head->target = str_slice(after, 0, second);
    if (!is_token(ret_head->method) || ret_head->target.len == 0 || !is_text(line) ||
        !read_version(str_slice(after, second + 1, after.len), &ret_head->minor))
        return err_set(err, ERR_INVALID, "the request line is not METHOD TARGET HTTP/1.1");
    if (read_fields(rest, ret_head, err) < 0 || check_once(ret_head, STR("host"), err) < 0)
        return -1;
    return read_framing(ret_head, HTTP_NO_BODY, err);
}

static bool has_no_body(int status, struct str method)
{
    return status < 200 || status == 204 || status == 304 || str_eq(method, STR("HEAD"));
}

int http_read_answer(struct str head, struct str method, struct http_head *ret_head,
                     struct err *err)
{
    struct str rest = head, line;
    int64_t status = 0;
    *ret_head = (struct http_head){0};
    if (!next_line(&rest, &line) || line.len < 12 ||
        !read_version(str_slice(line, 0, 8), &ret_head->minor) || line.ptr[8] != ' ' ||
        !str_to_i64(str_slice(line, 9, 12), 100, 599, &status) ||
        (line.len > 12 && line.ptr[12] != ' ') || !is_text(line))
        return err_set(err, ERR_INVALID, "the answer does not begin with HTTP/1.1 and a status");
    ret_head->status = (int)status;
    ret_head->reason = str_slice(line, 13, line.len);
    if (read_fields(rest, ret_head, err) < 0 || read_framing(ret_head, HTTP_UNTIL_END, err) < 0)
        return -1;
    if (has_no_body(ret_head->status, method))
        ret_head->framing = HTTP_NO_BODY;
    return 0;
}

bool http_list_has(struct str list, struct str word)
{
    struct str part;
    while (str_split(&list, ',', &part))
        if (str_eq_nocase(str_trim(part), word))
            return true;
    return false;
}

bool http_is_hop_field(const struct http_head *head, struct str name)
{
    static const char *const known[] = {"connection",
                                        "keep-alive",
                                        "proxy-connection",
                                        "proxy-authenticate",
                                        "proxy-authorization",
                                        "te",
                                        "trailer",
                                        "upgrade",
                                        "proxy-authentication-info"};
    for (size_t i = 0; i < countof(known); i++)
        if (str_eq_nocase(name, str_of(known[i])))
            return true;
    /* The framing is not the sender's to name as its own affair. */
    if (str_eq_nocase(name, STR("transfer-encoding")) ||
        str_eq_nocase(name, STR("content-length")) || str_eq_nocase(name, STR("host")))
        return false;
    for (const struct http_field *field = find_next(head, STR("connection"), NULL); field != NULL;
         field = find_next(head, STR("connection"), field))
        if (http_list_has(field->value, name))
            return true;
    return false;
}

/* Bodies. */

void http_body_begin(struct http_body *body, const struct http_head *head)
{
    *body = (struct http_body){.framing = head->framing, .left = head->length};
    body->is_done = head->framing == HTTP_NO_BODY;
    if (head->framing != HTTP_LENGTH)
        body->left = 0;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
        return (c | 0x20) - 'a' + 10;
    return -1;
}

/* One byte of "1a;name=value CR LF". */
static bool size_byte(struct http_body *body, char c)
{
    int digit = hex_value(c);
    if (body->saw_cr) {
        if (c != '\n')
            return false;
        body->chunk = body->left == 0 ? HTTP_CHUNK_TRAILER : HTTP_CHUNK_DATA;
        body->line = 0;
        body->saw_cr = body->saw_digit = body->in_extension = false;
        body->at_line_start = true;
        return true;
    }
    if (++body->line > HTTP_CHUNK_LINE_MAX)
        return false;
    if (c == '\r') {
        body->saw_cr = true;
        return body->saw_digit;
    }
    if (body->in_extension)
        return (unsigned char)c >= 0x20 && c != 0x7f;
    if (c == ';') {
        body->in_extension = true;
        return body->saw_digit;
    }
    if (digit < 0 || body->left > UINT64_MAX >> 8)
        return false;
    body->saw_digit = true;
    body->left = body->left << 4 | (uint64_t)digit;
    return true;
}

/* CR LF behind the data of a chunk. */
static bool end_byte(struct http_body *body, char c)
{
    if (!body->saw_cr) {
        body->saw_cr = true;
        return c == '\r';
    }
    body->saw_cr = false;
    body->chunk = HTTP_CHUNK_SIZE;
    return c == '\n';
}

/* Lines up to an empty one. */
static bool trailer_byte(struct http_body *body, char c)
{
    if (++body->line > HTTP_TRAILER_MAX)
        return false;
    if (body->saw_cr) {
        body->saw_cr = false;
        body->is_done = body->at_line_start;
        body->at_line_start = true;
        return c == '\n';
    }
    if (c == '\r') {
        body->saw_cr = true;
        return true;
    }
    body->at_line_start = false;
    return (unsigned char)c >= 0x20 || c == '\t';
}

static bool chunk_byte(struct http_body *body, char c)
{
    switch (body->chunk) {
    case HTTP_CHUNK_SIZE:
        return size_byte(body, c);
    case HTTP_CHUNK_END:
        return end_byte(body, c);
    default:
        return trailer_byte(body, c);
    }
}

/* Data of a length or a chunk, in one step. */
static size_t take_data(struct http_body *body, size_t available)
{
    size_t count = (size_t)MIN((uint64_t)available, body->left);
    body->left -= count;
    if (body->left == 0 && body->framing == HTTP_LENGTH)
        body->is_done = true;
    else if (body->left == 0)
        body->chunk = HTTP_CHUNK_END;
    return count;
}

int http_body_take(struct http_body *body, struct str bytes, size_t *ret_used, struct err *err)
{
    size_t at = 0;
    while (at < bytes.len && !body->is_done) {
        bool is_chunked = body->framing == HTTP_CHUNKED;
        if (body->framing == HTTP_UNTIL_END)
            at = bytes.len;
        else if (!is_chunked || body->chunk == HTTP_CHUNK_DATA)
            at += take_data(body, bytes.len - at);
        else if (!chunk_byte(body, bytes.ptr[at++]))
            return err_set(err, ERR_INVALID, "the body is not chunked as it says");
    }
    *ret_used = at;
    return 0;
}
