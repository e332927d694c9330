#include "base/excerpt.h"

/* With a comma between thousands. */
static void put_count(struct buf *out, uint64_t n)
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            buf_put_char(out, ',');
        buf_put_char(out, digits[i]);
    }
}

void excerpt_mark(uint64_t bytes, int64_t lines, const char *what, struct buf *out)
{
    buf_put_cstr(out, "... ");
    put_count(out, bytes);
    buf_put_cstr(out, bytes == 1 ? " byte" : " bytes");
    if (lines >= 0) {
        buf_put_cstr(out, " (");
        put_count(out, (uint64_t)lines);
        buf_put_cstr(out, lines == 1 ? " line)" : " lines)");
    }
    buf_printf(out, " %s ...\n", what);
}

uint64_t excerpt_count_lines(struct str bytes)
{
    uint64_t count = 0;
    const char *at = bytes.ptr, *end = bytes.ptr + bytes.len;
    while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL)
        count++, at++;
    return count;
}

void excerpt_done(struct excerpt *excerpt)
{
    buf_done(&excerpt->head);
    buf_done(&excerpt->tail);
}

void excerpt_put(struct excerpt *excerpt, struct str bytes, size_t max)
{
    size_t half = max / 2, room = half - MIN(half, excerpt->head.len);
    struct buf *tail = &excerpt->tail;
    excerpt->max = max;
    buf_put(&excerpt->head, str_slice(bytes, 0, room));
    buf_put(tail, str_slice(bytes, MIN(room, bytes.len), bytes.len));
    if (tail->len <= 2 * half)
        return;
    size_t extra = tail->len - half;
    excerpt->cut += extra;
    excerpt->cut_lines += excerpt_count_lines(str_slice(buf_str(tail), 0, extra));
    buf_consume(tail, extra);
}

static bool is_inner_byte(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* `end`, or before the character that it cuts: the text may itself have been cut there. */
static size_t end_of_character(struct str text, size_t end)
{
    size_t start = end;
    while (start > 0 && end - start < 3 && is_inner_byte(text.ptr[start - 1]))
        start--;
    if (start == 0)
        return end;
    unsigned char first = (unsigned char)text.ptr[--start];
    size_t len = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
    return end - start < len ? start : end;
}

/* The first `max` bytes, to the end of a line if that costs less than half of them, else to the end
 * of a character. */
static struct str first_of(struct str text, size_t max)
{
    size_t end = MIN(max, text.len);
    const char *last = end == 0 ? NULL : memrchr(text.ptr, '\n', end);
    if (last != NULL && (size_t)(last - text.ptr) + 1 >= end / 2)
        return str_slice(text, 0, (size_t)(last - text.ptr) + 1);
    return str_slice(text, 0, end_of_character(text, end));
}

/* The last `max` bytes, the same way. */
static struct str last_of(struct str text, size_t max)
{
    size_t start = text.len - MIN(max, text.len);
    size_t line_end = str_find_char(str_slice(text, start, text.len), '\n');
    if (line_end + 1 <= (text.len - start) / 2)
        return str_slice(text, start + line_end + 1, text.len);
    while (start < text.len && is_inner_byte(text.ptr[start]))
        start++;
    return str_slice(text, start, text.len);
}

struct excerpt_view excerpt_view(const struct excerpt *excerpt, size_t max)
{
    struct str head = buf_str(&excerpt->head), tail = buf_str(&excerpt->tail);
    struct excerpt_view view = {head, tail, excerpt->cut, excerpt->cut_lines};
    size_t limit = max == 0 ? excerpt->max : max;
    if (excerpt->cut == 0 && head.len + tail.len <= limit)
        return view;
    view.head = first_of(head, limit / 2);
    struct str rest = str_slice(head, view.head.len, head.len);
    view.tail = last_of(tail.len > 0 ? tail : rest, limit / 2);
    if (tail.len == 0)
        rest = str_slice(rest, 0, rest.len - view.tail.len);
    struct str before = str_slice(tail, 0, tail.len - MIN(tail.len, view.tail.len));
    view.cut += rest.len + before.len;
    view.lines += excerpt_count_lines(rest) + excerpt_count_lines(before);
    return view;
}

void excerpt_view_put(const struct excerpt_view *view, const char *what, struct buf *out)
{
    buf_put(out, view->head);
    if (view->cut > 0) {
        if (view->head.len > 0 && view->head.ptr[view->head.len - 1] != '\n')
            buf_put_char(out, '\n');
        excerpt_mark(view->cut, (int64_t)view->lines, what, out);
    }
    buf_put(out, view->tail);
}
