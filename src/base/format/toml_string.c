/* The four kinds of TOML strings. */

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/format/toml_internal.h"

/* One string being read: its quote, whether it spans lines, and where it began. */
struct quoted {
    char quote; /* '"' knows escapes, '\'' does not */
    bool multi;
    struct toml_place start;
};

static void put_utf8(struct buf *buf, uint32_t c)
{
    if (c < 0x80) {
        buf_put_char(buf, (char)c);
        return;
    }
    if (c < 0x800) {
        buf_put_char(buf, (char)(0xc0 | c >> 6));
    } else if (c < 0x10000) {
        buf_put_char(buf, (char)(0xe0 | c >> 12));
        buf_put_char(buf, (char)(0x80 | (c >> 6 & 0x3f)));
    } else {
        buf_put_char(buf, (char)(0xf0 | c >> 18));
        buf_put_char(buf, (char)(0x80 | (c >> 12 & 0x3f)));
        buf_put_char(buf, (char)(0x80 | (c >> 6 & 0x3f)));
    }
    buf_put_char(buf, (char)(0x80 | (c & 0x3f)));
}

/* At the first digit of \uXXXX or \UXXXXXXXX. */
static int parse_unicode(struct toml_parser *p, int digits, struct buf *out)
{
    struct toml_place place = toml_place_of(p, p->at - 2);
    uint32_t c = 0;
    for (int i = 0; i < digits; i++, p->at++) {
        int digit = char_hex(toml_peek(p));
        if (digit < 0)
            return toml_fail(p, "\\%c needs %d hexadecimal digits", digits == 4 ? 'u' : 'U',
                             digits);
        c = c << 4 | (uint32_t)digit;
    }
    if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return toml_fail_at(p, place, "U+%04X is not a Unicode character", c);
    put_utf8(out, c);
    return 0;
}

/* Behind a backslash at the end of a line: everything blank up to the next text is dropped. */
static bool skip_line_ending(struct toml_parser *p)
{
    size_t at = p->at;
    while (toml_peek(p) == ' ' || toml_peek(p) == '\t')
        p->at++;
    if (!toml_take_newline(p)) {
        p->at = at;
        return false;
    }
    do {
        while (toml_peek(p) == ' ' || toml_peek(p) == '\t')
            p->at++;
    } while (toml_take_newline(p));
    return true;
}

/* Behind a backslash. */
static int parse_escape(struct toml_parser *p, bool multi, struct buf *out)
{
    static const char names[] = "btnfr\"\\", bytes[] = "\b\t\n\f\r\"\\";
    if (multi && skip_line_ending(p))
        return 0;
    int c = toml_peek(p);
    const char *name = c <= 0 ? NULL : strchr(names, c);
    if (name != NULL) {
        buf_put_char(out, bytes[name - names]);
        p->at++;
        return 0;
    }
    if (c == 'u' || c == 'U') {
        p->at++;
        return parse_unicode(p, c == 'u' ? 4 : 8, out);
    }
    return toml_fail_unexpected(p, "after '\\': known escapes are \\b \\t \\n \\f \\r \\\" \\\\ "
                                   "\\uXXXX \\UXXXXXXXX; a 'literal string' takes a \\ as it is");
}

static int fail_unclosed(struct toml_parser *p, const struct quoted *q)
{
    const char *fence =
        q->multi ? (q->quote == '"' ? "\"\"\"" : "'''") : (q->quote == '"' ? "\"" : "'");
    return toml_fail_at(p, q->start, "the string that begins here has no closing %s", fence);
}

/* At a quote of a multi-line string: up to two belong to the text, also right before the end.
 * Sets `*ret_end` when the string ends here. */
static int parse_quotes(struct toml_parser *p, const struct quoted *q, struct buf *out,
                        bool *ret_end)
{
    size_t count = 0;
    while (count < 6 && p->at + count < p->text.len && p->text.ptr[p->at + count] == q->quote)
        count++;
    if (count == 6)
        return toml_fail(p, "more than five quotes in a row in a multi-line string");
    p->at += count;
    for (size_t i = count < 3 ? 0 : 3; i < count; i++)
        buf_put_char(out, q->quote);
    *ret_end = count >= 3;
    return 0;
}

/* One line break or character of the text that is neither quote nor escape. */
static int parse_plain(struct toml_parser *p, const struct quoted *q, struct buf *out)
{
    size_t from = p->at;
    if (toml_peek(p) == '\n' || toml_sees(p, STR("\r\n"))) {
        if (!q->multi)
            return fail_unclosed(p, q);
        (void)toml_take_newline(p);
        buf_put(out, str_slice(p->text, from, p->at));
        return 0;
    }
    for (; p->at < p->text.len; p->at++) {
        int c = toml_peek(p);
        if (c == q->quote || (c == '\\' && q->quote == '"') || c == 0x7f || (c < 0x20 && c != '\t'))
            break;
    }
    if (p->at == from)
        return toml_fail_unexpected(p, "in a string: control characters are written as escapes");
    buf_put(out, str_slice(p->text, from, p->at));
    return 0;
}

/* One step of the body; sets `*ret_end` behind the closing quote. */
static int parse_step(struct toml_parser *p, const struct quoted *q, struct buf *out, bool *ret_end)
{
    int c = toml_peek(p);
    if (c < 0)
        return fail_unclosed(p, q);
    if (c == q->quote && q->multi)
        return parse_quotes(p, q, out, ret_end);
    if (c == q->quote) {
        p->at++;
        *ret_end = true;
        return 0;
    }
    if (c == '\\' && q->quote == '"') {
        p->at++;
        return parse_escape(p, q->multi, out);
    }
    return parse_plain(p, q, out);
}

int toml_parse_string(struct toml_parser *p, bool one_line, struct str *ret_str)
{
    struct quoted q = {.quote = p->text.ptr[p->at], .start = toml_place_of(p, p->at)};
    q.multi = toml_sees(p, q.quote == '"' ? STR("\"\"\"") : STR("'''"));
    if (q.multi && one_line)
        return toml_fail(p, "a key cannot be a multi-line string");
    p->at += q.multi ? 3 : 1;
    if (q.multi)
        (void)toml_take_newline(p); /* the one right behind the opening is not part of it */

    AUTO_BUF struct buf out = buf_with_limit(TOML_SIZE_MAX + 1);
    for (bool end = false; !end;)
        if (parse_step(p, &q, &out, &end) < 0)
            return -1;
    *ret_str = arena_dup(p->arena, buf_str(&out));
    return 0;
}
