/* What a server answers, as tables and blocks for people. */

#include "cli/remote.h"
#include "cli/span.h"

enum { CELL_MAX = 48 };

static const struct json_t *member_of(const struct json_t *object, const char *path)
{
    struct str rest = str_of(path), part;
    while (object != NULL && str_split(&rest, '.', &part)) {
        char name[64];
        (void)snprintf(name, sizeof name, "%.*s", STR_ARG(part));
        object = json_kind(object) == JSON_KIND_OBJECT ? json_get(object, name) : NULL;
    }
    return object;
}

/* The last column has no other behind it, so it is never cut. */
static void put_text(struct str text, bool is_last, struct buf *out)
{
    size_t end = is_last ? text.len : MIN(text.len, (size_t)CELL_MAX);
    while (end < text.len && end > 0 && ((unsigned char)text.ptr[end] & 0xc0) == 0x80)
        end--; /* not within a character */
    cli_put_plain(out, str_slice(text, 0, end));
}

static void put_one(const struct json_t *value, bool is_last, struct buf *out)
{
    struct str text;
    struct json_out json = {.buf = out};
    if (json_to_str(value, &text))
        put_text(text, is_last, out);
    else
        json_put_value(&json, value);
}

static void put_pairs(const struct json_t *object, bool is_last, struct buf *out)
{
    void *iter = NULL;
    struct str key;
    struct json_t *value;
    for (size_t i = 0; json_next((struct json_t *)object, &iter, &key, &value); i++) {
        buf_put_cstr(out, i == 0 ? "" : ",");
        cli_put_plain(out, key);
        buf_put_char(out, '=');
        put_one(value, is_last, out);
    }
}

static bool remote_table_put_number(const struct json_t *value, enum remote_form form,
                                    struct buf *out)
{
    int64_t n;
    if (form == REMOTE_AS_IS || !json_to_i64(value, &n))
        return false;
    if (form == REMOTE_SIZE)
        buf_printf(out, "%lld MiB", (long long)n);
    else if (n <= 0)
        buf_put_cstr(out, "none");
    else
        span_put_exact(n, out);
    return true;
}

static void put_cell(const struct json_t *value, enum remote_form form, bool is_last,
                     struct buf *out)
{
    enum json_kind kind = value == NULL ? JSON_KIND_NULL : json_kind(value);
    bool has_items = kind == JSON_KIND_ARRAY || kind == JSON_KIND_OBJECT;
    if (kind == JSON_KIND_NULL || (has_items && json_len(value) == 0))
        buf_put_char(out, '-');
    else if (kind == JSON_KIND_OBJECT)
        put_pairs(value, is_last, out);
    else if (kind == JSON_KIND_ARRAY)
        for (size_t i = 0; i < json_len(value); i++) {
            buf_put_cstr(out, i == 0 ? "" : ",");
            put_one(json_at(value, i), is_last, out);
        }
    else if (!remote_table_put_number(value, form, out))
        put_one(value, is_last, out);
}

static void put_row(const struct json_t *row, const struct remote_column *columns,
                    const size_t *widths, struct buf *out)
{
    for (size_t i = 0; columns[i].member != NULL; i++) {
        AUTO_BUF struct buf cell = {0};
        bool is_last = columns[i + 1].member == NULL;
        if (row == NULL)
            buf_put_cstr(&cell, columns[i].head);
        else
            put_cell(member_of(row, columns[i].member), columns[i].form, is_last, &cell);
        buf_printf(out, "%-*s%s", is_last ? 0 : (int)widths[i], buf_cstr(&cell),
                   is_last ? "\n" : "  ");
    }
}

void remote_put_table(const struct json_t *rows, const struct remote_column *columns,
                      struct buf *out)
{
    size_t widths[16] = {0};
    bool is_list = json_kind(rows) == JSON_KIND_ARRAY;
    bool has_head = columns[0].head != NULL;
    size_t count = is_list ? json_len(rows) : 1;
    for (size_t i = 0; columns[i].member != NULL; i++) {
        widths[i] = has_head ? strlen(columns[i].head) : 0;
        for (size_t k = 0; k < count; k++) {
            AUTO_BUF struct buf cell = {0};
            put_cell(member_of(is_list ? json_at(rows, k) : rows, columns[i].member),
                     columns[i].form, false, &cell);
            widths[i] = MAX(widths[i], cell.len);
        }
    }
    if (has_head)
        put_row(NULL, columns, widths, out);
    for (size_t k = 0; k < count; k++)
        put_row(is_list ? json_at(rows, k) : rows, columns, widths, out);
}

void remote_put_block(const struct json_t *object, const struct remote_column *columns,
                      struct buf *out)
{
    int width = 0;
    for (size_t i = 0; columns[i].member != NULL; i++)
        width = MAX(width, (int)strlen(columns[i].head) + 1);
    for (size_t i = 0; columns[i].member != NULL; i++) {
        AUTO_BUF struct buf cell = {0}, head = {0};
        put_cell(member_of(object, columns[i].member), columns[i].form, true, &cell);
        if (str_eq(buf_str(&cell), STR("-")))
            continue;
        buf_printf(&head, "%s:", columns[i].head);
        buf_printf(out, "%-*s %s\n", width, buf_cstr(&head), buf_cstr(&cell));
    }
}

void remote_put_lines(const struct json_t *texts, struct buf *out)
{
    for (size_t i = 0; texts != NULL && i < json_len(texts); i++) {
        struct str text;
        if (!json_to_str(json_at(texts, i), &text))
            continue;
        cli_put_plain(out, text);
        buf_put_char(out, '\n');
    }
}
