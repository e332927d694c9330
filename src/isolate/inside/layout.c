#include "isolate/inside/layout.h"

#include <math.h>

#include "base/arena.h"
#include "base/buf.h"

enum { COLUMNS_MAX = 12, SEPARATOR = 2, COLUMNS_FROM = 7 };

void layout_push(struct layout_list *list, struct arena *arena, struct str item)
{
    if (list->len == list->cap) {
        size_t cap = list->cap == 0 ? 8 : list->cap * 2;
        struct str *items = arena_array(arena, struct str, cap);
        if (list->len > 0)
            memcpy(items, list->items, list->len * sizeof *items);
        list->items = items;
        list->cap = cap;
    }
    list->items[list->len++] = item;
}

size_t layout_length(struct str text)
{
    size_t length = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if ((c & 0xc0) != 0x80)
            length += c >= 0xf0 ? 2 : 1;
    }
    return length;
}

bool layout_is_name(struct str key)
{
    for (size_t i = 0; i < key.len; i++) {
        char c = key.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(i > 0 && char_is_digit(c)))
            return false;
    }
    return key.len > 0;
}

static bool layout_holds(struct str text, struct str part)
{
    return str_find(text, part) < text.len;
}

static void put_escaped(struct buf *out, unsigned char c)
{
    static const char letters[] = "btnvfr"; /* from 8 on */
    if (c >= 8 && c <= 13)
        buf_printf(out, "\\%c", letters[c - 8]);
    else
        buf_printf(out, "\\x%02X", c);
}

struct str layout_quote(struct arena *arena, struct str text)
{
    char quote = '\'';
    if (layout_holds(text, STR("'"))) {
        if (!layout_holds(text, STR("\"")))
            quote = '"';
        else if (!layout_holds(text, STR("`")) && !layout_holds(text, STR("${")))
            quote = '`';
    }
    AUTO_BUF struct buf out = {0};
    buf_put_char(&out, quote);
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        unsigned char next = i + 1 < text.len ? (unsigned char)text.ptr[i + 1] : 0;
        if (c == (unsigned char)quote || c == '\\') {
            buf_put_char(&out, '\\');
            buf_put_char(&out, (char)c);
        } else if (c < 32 || c == 127) {
            put_escaped(&out, c);
        } else if (c == 0xc2 && next < 0xa0) { /* U+0080 to U+009F */
            buf_printf(&out, "\\x%02X", next);
            i++;
        } else if (c == 0xed && next >= 0xa0 && i + 2 < text.len) { /* a lone surrogate */
            unsigned unit = 0xd000u | (unsigned)(next & 0x3f) << 6 | (text.ptr[i + 2] & 0x3f);
            buf_printf(&out, "\\u%04x", unit);
            i += 2;
        } else {
            buf_put_char(&out, (char)c);
        }
    }
    buf_put_char(&out, quote);
    return arena_dup(arena, buf_str(&out));
}

struct str layout_well_formed(struct arena *arena, struct str text)
{
    static const unsigned char replacement[] = {0xef, 0xbf, 0xbd};
    if (str_is_utf8(text))
        return text;
    struct str copy = arena_dup(arena, text);
    char *at = (char *)(uintptr_t)copy.ptr;
    for (size_t i = 0; i + 2 < copy.len; i++)
        if ((unsigned char)at[i] == 0xed && (unsigned char)at[i + 1] >= 0xa0)
            memcpy(at + i, replacement, sizeof replacement);
    return copy;
}

struct str layout_indent(struct arena *arena, struct str text, size_t indent)
{
    if (indent == 0 || !layout_holds(text, STR("\n")))
        return text;
    AUTO_BUF struct buf out = {0};
    for (size_t i = 0; i < text.len; i++) {
        buf_put_char(&out, text.ptr[i]);
        for (size_t n = 0; text.ptr[i] == '\n' && n < indent; n++)
            buf_put_char(&out, ' ');
    }
    return arena_dup(arena, buf_str(&out));
}

/* --- Columns: as Node decides them --- */

struct columns {
    size_t count;   /* entries that take part */
    size_t columns; /* 1 or less: leave it */
    size_t width[COLUMNS_MAX];
};

static struct columns choose_columns(struct layout_list entries, const struct layout_box *box)
{
    struct columns plan = {.count = entries.len - (box->has_more ? 1 : 0)};
    size_t total = 0, longest = 0;
    for (size_t i = 0; i < plan.count; i++) {
        size_t length = layout_length(entries.items[i]);
        total += length + SEPARATOR;
        longest = MAX(longest, length);
    }
    double most = (double)(longest + SEPARATOR);
    if (most * 3 + (double)box->indent >= LAYOUT_WIDTH ||
        ((double)total / most <= 5 && longest > 6))
        return plan;
    double bias = sqrt(most - (double)total / (double)entries.len);
    double biased = fmax(most - 3 - bias, 1);
    double columns = fmin(round(sqrt(2.5 * biased * (double)plan.count) / biased),
                          floor((double)(LAYOUT_WIDTH - box->indent) / most));
    plan.columns = (size_t)fmax(fmin(columns, COLUMNS_MAX), 0);
    for (size_t i = 0; i < plan.columns; i++)
        for (size_t j = i; j < plan.count; j += plan.columns)
            plan.width[i] = MAX(plan.width[i], layout_length(entries.items[j]) + SEPARATOR);
    return plan;
}

static void put_blanks(struct buf *out, size_t have, size_t want)
{
    for (; have < want; have++)
        buf_put_char(out, ' ');
}

static struct str one_row(struct arena *arena, struct layout_list entries, size_t from, size_t to,
                          const struct columns *plan, bool right)
{
    AUTO_BUF struct buf out = {0};
    for (size_t i = from; i < to; i++) {
        bool last = i + 1 == to;
        size_t want = plan->width[i - from] - (last ? SEPARATOR : 0);
        size_t have = layout_length(entries.items[i]) + (last ? 0 : SEPARATOR);
        if (right)
            put_blanks(&out, have, want);
        buf_put(&out, entries.items[i]);
        if (!last)
            buf_put_cstr(&out, ", ");
        if (!right && !last)
            put_blanks(&out, have, want);
    }
    return arena_dup(arena, buf_str(&out));
}

static struct layout_list in_columns(struct arena *arena, struct layout_list entries,
                                     const struct layout_box *box)
{
    struct columns plan = choose_columns(entries, box);
    if (plan.columns <= 1)
        return entries;
    struct layout_list rows = {0};
    for (size_t i = 0; i < plan.count; i += plan.columns)
        layout_push(
            &rows, arena,
            one_row(arena, entries, i, MIN(i + plan.columns, plan.count), &plan, box->is_numeric));
    if (box->has_more)
        layout_push(&rows, arena, entries.items[plan.count]);
    return rows;
}

static bool fits_flat(struct layout_list entries, const struct layout_box *box)
{
    size_t start =
        entries.len + box->indent + layout_length(box->open) + layout_length(box->base) + 10;
    size_t total = entries.len + start;
    if (total + entries.len > LAYOUT_WIDTH)
        return false;
    for (size_t i = 0; i < entries.len; i++) {
        total += layout_length(entries.items[i]);
        if (total > LAYOUT_WIDTH || layout_holds(entries.items[i], STR("\n")))
            return false;
    }
    return !layout_holds(box->base, STR("\n"));
}

struct str layout_join(struct arena *arena, struct layout_list entries,
                       const struct layout_box *box)
{
    size_t before = entries.len;
    if (box->is_array && entries.len >= COLUMNS_FROM)
        entries = in_columns(arena, entries, box);
    bool flat = box->may_be_flat && entries.len == before && fits_flat(entries, box);
    AUTO_BUF struct buf out = {0};
    if (box->base.len > 0) {
        buf_put(&out, box->base);
        buf_put_char(&out, ' ');
    }
    buf_put(&out, box->open);
    for (size_t i = 0; i < entries.len; i++) {
        if (i > 0)
            buf_put_char(&out, ',');
        buf_put_char(&out, flat ? ' ' : '\n');
        put_blanks(&out, 0, flat ? 0 : box->indent + 2);
        buf_put(&out, entries.items[i]);
    }
    buf_put_char(&out, flat ? ' ' : '\n');
    put_blanks(&out, 0, flat ? 0 : box->indent);
    buf_put(&out, box->close);
    return arena_dup(arena, buf_str(&out));
}
