/* Composing JSON text straight into a buffer. */

#include <math.h>

#include "base/format/json.h"

static void new_line(struct json_out *out)
{
    if (!out->pretty)
        return;
    buf_put_char(out->buf, '\n');
    for (int i = 0; i < out->depth; i++)
        buf_put_cstr(out->buf, "  ");
}

/* The separator before a value or a key: a comma, a line break, or nothing after a key. */
static void separate(struct json_out *out)
{
    if (out->keyed) {
        out->keyed = false;
        return;
    }
    if (out->filled)
        buf_put_char(out->buf, ',');
    if (out->depth > 0)
        new_line(out);
    out->filled = true;
}

static void json_out_begin(struct json_out *out, char open)
{
    separate(out);
    buf_put_char(out->buf, open);
    out->depth++;
    out->filled = false;
}

static void json_out_end(struct json_out *out, char close)
{
    assert(out->depth > 0 && !out->keyed);
    out->depth--;
    if (out->filled)
        new_line(out);
    buf_put_char(out->buf, close);
    out->filled = true;
}

void json_begin_object(struct json_out *out)
{
    json_out_begin(out, '{');
}

void json_end_object(struct json_out *out)
{
    json_out_end(out, '}');
}

void json_begin_array(struct json_out *out)
{
    json_out_begin(out, '[');
}

void json_end_array(struct json_out *out)
{
    json_out_end(out, ']');
}

static void put_escaped(struct buf *buf, unsigned char c)
{
    static const char digits[] = "0123456789abcdef";
    switch (c) {
    case '"':
        buf_put_cstr(buf, "\\\"");
        break;
    case '\\':
        buf_put_cstr(buf, "\\\\");
        break;
    case '\n':
        buf_put_cstr(buf, "\\n");
        break;
    case '\r':
        buf_put_cstr(buf, "\\r");
        break;
    case '\t':
        buf_put_cstr(buf, "\\t");
        break;
    case '\b':
        buf_put_cstr(buf, "\\b");
        break;
    case '\f':
        buf_put_cstr(buf, "\\f");
        break;
    default: /* without printf: an answer may be full of them */
        buf_put(buf, str_n((char[]){'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]}, 6));
    }
}

/* What JSON wants escaped and nothing else: a text that was read is then never longer when it is
 * written again, so that what echoes it stays below the limit of its buffer. */
static bool is_escaped(unsigned char c)
{
    return c < 0x20 || c == '"' || c == '\\';
}

/* Bytes from `i` on that can stand as they are; 0 when the first must be escaped or replaced. */
static size_t plain_bytes(struct str s, size_t i)
{
    unsigned char c = (unsigned char)s.ptr[i];
    if (c < 0x80)
        return !is_escaped(c);
    return str_utf8_len(str_slice(s, i, s.len));
}

static void put_quoted(struct buf *buf, struct str s)
{
    buf_put_char(buf, '"');
    size_t plain = 0; /* start of the run that needs no escaping */
    for (size_t i = 0; i < s.len;) {
        size_t bytes = plain_bytes(s, i);
        if (bytes > 0) {
            i += bytes;
            continue;
        }
        unsigned char c = (unsigned char)s.ptr[i];
        buf_put(buf, str_slice(s, plain, i));
        if (is_escaped(c))
            put_escaped(buf, c);
        else
            buf_put_cstr(buf, "\xef\xbf\xbd");
        plain = ++i;
    }
    buf_put(buf, str_slice(s, plain, s.len));
    buf_put_char(buf, '"');
}

void json_key_str(struct json_out *out, struct str key)
{
    assert(out->depth > 0 && !out->keyed);
    separate(out);
    put_quoted(out->buf, key);
    buf_put_cstr(out->buf, out->pretty ? ": " : ":");
    out->keyed = true;
}

void json_key(struct json_out *out, const char *key)
{
    json_key_str(out, str_of(key));
}

void json_put_str(struct json_out *out, struct str s)
{
    separate(out);
    put_quoted(out->buf, s);
}

void json_put_cstr(struct json_out *out, const char *text)
{
    if (text == NULL)
        json_put_null(out);
    else
        json_put_str(out, str_of(text));
}

void json_put_i64(struct json_out *out, int64_t n)
{
    separate(out);
    buf_printf(out->buf, "%lld", (long long)n);
}

void json_put_f64(struct json_out *out, double n)
{
    if (!isfinite(n)) {
        json_put_null(out);
        return;
    }
    separate(out);
    /* The shortest of the two that reads back the same. */
    char text[32];
    (void)snprintf(text, sizeof text, "%.15g", n);
    if (strtod(text, NULL) != n)
        (void)snprintf(text, sizeof text, "%.17g", n);
    /* "-0" would be read back as an integer, which has no sign to keep. */
    buf_put_cstr(out->buf, n == 0 && signbit(n) ? "-0.0" : text);
}

void json_put_bool(struct json_out *out, bool flag)
{
    separate(out);
    buf_put_cstr(out->buf, flag ? "true" : "false");
}

void json_put_null(struct json_out *out)
{
    separate(out);
    buf_put_cstr(out->buf, "null");
}

static void json_out_put_members(struct json_out *out, const struct json_t *object)
{
    json_begin_object(out);
    void *iter = NULL;
    struct str key;
    struct json_t *value;
    while (json_next((struct json_t *)object, &iter, &key, &value)) {
        json_key_str(out, key);
        json_put_value(out, value);
    }
    json_end_object(out);
}

static void put_elements(struct json_out *out, const struct json_t *array)
{
    json_begin_array(out);
    for (size_t i = 0; i < json_len(array); i++)
        json_put_value(out, json_at(array, i));
    json_end_array(out);
}

/* Recursion is bounded: json_parse takes nothing deeper than JSON_DEPTH_MAX. */
void json_put_value(struct json_out *out, const struct json_t *value)
{
    struct str s;
    int64_t n;
    double f;
    bool flag;
    if (json_to_str(value, &s))
        json_put_str(out, s);
    else if (json_kind(value) == JSON_KIND_INT && json_to_i64(value, &n))
        json_put_i64(out, n);
    else if (json_to_f64(value, &f))
        json_put_f64(out, f);
    else if (json_to_bool(value, &flag))
        json_put_bool(out, flag);
    else if (json_kind(value) == JSON_KIND_OBJECT)
        json_out_put_members(out, value);
    else if (json_kind(value) == JSON_KIND_ARRAY)
        put_elements(out, value);
    else
        json_put_null(out);
}

void json_put_texts(struct json_out *out, const struct str *texts, size_t count)
{
    json_begin_array(out);
    for (size_t i = 0; i < count; i++)
        json_put_str(out, texts[i]);
    json_end_array(out);
}
