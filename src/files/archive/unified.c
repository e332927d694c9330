#include "files/archive/unified.h"

#include "base/buf.h"
#include "base/vec.h"

/* Where the texts differ in more lines than this, the differing part is shown as one change: the
 * search takes memory in proportion to the square. */
enum { EDITS_MAX = 1000, AROUND = 3 };

typedef VEC(struct str) text_lines;

/* A run of lines that differ: [from, from_end) became [to, to_end). */
struct change {
    size_t from, from_end, to, to_end;
};
typedef VEC(struct change) text_changes;

static void split(struct str text, text_lines *lines)
{
    while (text.len > 0) {
        size_t end = str_find_char(text, '\n');
        size_t len = MIN(end + 1, text.len);
        *vec_push(lines) = str_slice(text, 0, len);
        text = str_slice(text, len, text.len);
    }
}

static void add_change(text_changes *changes, size_t from, size_t to, bool is_removal)
{
    struct change *last = changes->len > 0 ? vec_last(changes) : NULL;
    /* They are found from the end on. */
    if (last == NULL || last->from != from + is_removal || last->to != to + !is_removal) {
        last = vec_push(changes);
        *last = (struct change){from + is_removal, from + is_removal, to + !is_removal,
                                to + !is_removal};
    }
    last->from -= is_removal;
    last->to -= !is_removal;
}

/* Myers: the shortest script, found by the furthest reaching paths of 0, 1, 2... edits. `trace`
 * keeps the paths of each number. -1: there are more than EDITS_MAX. */
static int unified_search(const text_lines *a, const text_lines *b, size_t skip, size_t a_len,
                          size_t b_len, int *trace)
{
    int n = (int)a_len, m = (int)b_len, max = MIN(n + m, (int)EDITS_MAX);
    int width = 2 * EDITS_MAX + 3;
    for (int d = 0; d <= max; d++) {
        int *v = trace + (size_t)d * (size_t)width + EDITS_MAX + 1;
        const int *before = v - width;
        for (int k = -d; k <= d; k += 2) {
            int x = d == 0                                                 ? 0
                    : k == -d || (k != d && before[k - 1] < before[k + 1]) ? before[k + 1]
                                                                           : before[k - 1] + 1;
            while (x < n && x - k < m &&
                   str_eq(a->ptr[skip + (size_t)x], b->ptr[skip + (size_t)(x - k)]))
                x++;
            v[k] = x;
            if (x >= n && x - k >= m)
                return d;
        }
    }
    return -1;
}

/* The way back through the trace. */
static void collect(const int *trace, int edits, size_t skip, size_t a_len, size_t b_len,
                    text_changes *changes)
{
    int x = (int)a_len, y = (int)b_len, width = 2 * EDITS_MAX + 3;
    for (int d = edits; d > 0; d--) {
        const int *before = trace + (size_t)(d - 1) * (size_t)width + EDITS_MAX + 1;
        int k = x - y;
        bool is_removal = !(k == -d || (k != d && before[k - 1] < before[k + 1]));
        int old_k = is_removal ? k - 1 : k + 1;
        int old_x = before[old_k], old_y = old_x - old_k;
        add_change(changes, skip + (size_t)old_x, skip + (size_t)old_y, is_removal);
        x = old_x;
        y = old_y;
    }
}

static void find_changes(const text_lines *a, const text_lines *b, text_changes *changes)
{
    size_t skip = 0, tail = 0;
    while (skip < a->len && skip < b->len && str_eq(a->ptr[skip], b->ptr[skip]))
        skip++;
    while (tail < a->len - skip && tail < b->len - skip &&
           str_eq(a->ptr[a->len - 1 - tail], b->ptr[b->len - 1 - tail]))
        tail++;
    size_t a_len = a->len - skip - tail, b_len = b->len - skip - tail;
    if (a_len + b_len == 0)
        return;
    size_t rows = MIN(a_len + b_len, (size_t)EDITS_MAX) + 1;
    AUTO_MEM int *trace = mem_alloc(rows * (2 * EDITS_MAX + 3) * sizeof *trace);
    int edits = unified_search(a, b, skip, a_len, b_len, trace);
    if (edits >= 0)
        collect(trace, edits, skip, a_len, b_len, changes);
    else
        *vec_push(changes) = (struct change){skip, skip + a_len, skip, skip + b_len};
}

/* --- Writing --- */

static void unified_put_line(char sign, struct str line, struct buf *out)
{
    buf_put_char(out, sign);
    buf_put(out, line);
    if (line.len == 0 || line.ptr[line.len - 1] != '\n')
        buf_put_cstr(out, "\n\\ No newline at end of file\n");
}

static void put_range(size_t start, size_t count, struct buf *out)
{
    buf_printf(out, "%zu", count == 0 ? start : start + 1);
    if (count != 1)
        buf_printf(out, ",%zu", count);
}

static struct str line_at(const text_lines *lines, size_t number)
{
    assert(lines->ptr != NULL && number < lines->len);
    return lines->ptr[number];
}

/* Changes from `first` down to `last` (they are in reverse order) make one hunk. */
static void put_hunk(const text_lines *a, const text_lines *b, const text_changes *changes,
                     size_t first, size_t last, struct buf *out)
{
    const struct change *head = &changes->ptr[first], *end = &changes->ptr[last];
    size_t before = MIN(head->from, (size_t)AROUND);
    size_t after = MIN(a->len - end->from_end, (size_t)AROUND);
    buf_put_cstr(out, "@@ -");
    put_range(head->from - before, end->from_end + after - (head->from - before), out);
    buf_put_cstr(out, " +");
    put_range(head->to - before, end->to_end + after - (head->to - before), out);
    buf_put_cstr(out, " @@\n");
    size_t at = head->from - before;
    for (size_t i = first + 1; i-- > last;) {
        const struct change *change = &changes->ptr[i];
        for (; at < change->from; at++)
            unified_put_line(' ', line_at(a, at), out);
        for (; at < change->from_end; at++)
            unified_put_line('-', line_at(a, at), out);
        for (size_t to = change->to; to < change->to_end; to++)
            unified_put_line('+', line_at(b, to), out);
    }
    for (; at < end->from_end + after; at++)
        unified_put_line(' ', line_at(a, at), out);
}

bool unified_diff(struct str from, struct str to, size_t limit, struct buf *out)
{
    text_lines a = {0}, b = {0};
    text_changes changes = {0};
    size_t start = out->len;
    bool is_whole = true;
    split(from, &a);
    split(to, &b);
    find_changes(&a, &b, &changes);
    for (size_t first = changes.len; first > 0 && is_whole;) {
        size_t last = first - 1;
        while (last > 0 &&
               changes.ptr[last - 1].from - changes.ptr[last].from_end <= 2 * (size_t)AROUND)
            last--;
        AUTO_BUF struct buf hunk = {0};
        put_hunk(&a, &b, &changes, first - 1, last, &hunk);
        is_whole = out->len - start + hunk.len <= limit;
        if (is_whole)
            buf_put(out, buf_str(&hunk));
        first = last;
    }
    vec_done(&a);
    vec_done(&b);
    vec_done(&changes);
    return is_whole;
}
