/* The TOML document: lines, headers, keys, tables and arrays. Strings are in toml_string.c, other
 * scalars in toml_scalar.c. */

#include "base/format/toml.h"

#include <stdarg.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/format/toml_internal.h"

/* A dotted key, part by part. */
struct key {
    struct str parts[TOML_KEY_PARTS_MAX];
    struct toml_place places[TOML_KEY_PARTS_MAX];
    size_t count;
};

static int parse_value(struct toml_parser *p, int depth, struct toml_value **ret_value);

struct toml_place toml_place_of(struct toml_parser *p, size_t at)
{
    if (p->mark_at < p->line_start || p->mark_at > at) {
        p->mark_at = p->line_start;
        p->mark_column = 1;
    }
    for (; p->mark_at < at; p->mark_at++)
        if (((unsigned char)p->text.ptr[p->mark_at] & 0xc0) != 0x80)
            p->mark_column++;
    return (struct toml_place){p->line, p->mark_column};
}

PRINTF_LIKE(3, 0)
static int fail_va(struct toml_parser *p, struct toml_place place, const char *fmt, va_list args)
{
    char what[ERR_MSG_MAX];
    (void)vsnprintf(what, sizeof what, fmt, args);
    return err_set(p->err, ERR_INVALID, "line %d, column %d: %s", place.line, place.column, what);
}

int toml_fail_at(struct toml_parser *p, struct toml_place place, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)fail_va(p, place, fmt, args);
    va_end(args);
    return -1;
}

int toml_fail(struct toml_parser *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)fail_va(p, toml_place_of(p, p->at), fmt, args);
    va_end(args);
    return -1;
}

int toml_fail_unexpected(struct toml_parser *p, const char *where)
{
    int c = toml_peek(p);
    if (c < 0)
        return toml_fail(p, "unexpected end of the file %s", where);
    if (c == '\n' || toml_sees(p, STR("\r\n")))
        return toml_fail(p, "unexpected end of the line %s", where);
    if (c < 0x20 || c == 0x7f)
        return toml_fail(p, "unexpected control character U+%04X %s", (unsigned)c, where);
    struct str rest = toml_rest(p);
    return toml_fail(p, "unexpected '%.*s' %s", STR_ARG(str_slice(rest, 0, str_utf8_len(rest))),
                     where);
}

bool toml_take_newline(struct toml_parser *p)
{
    if (toml_sees(p, STR("\r\n")))
        p->at++;
    else if (toml_peek(p) != '\n')
        return false;
    p->at++;
    p->line++;
    p->line_start = p->at;
    return true;
}

/* Keys. */

/* A key for a message: never longer than a glance, never more than one line. */
static struct str shown(struct toml_parser *p, struct str key)
{
    struct str head = str_slice(key, 0, 60);
    while (head.len < key.len && head.len > 0 && ((unsigned char)key.ptr[head.len] & 0xc0) == 0x80)
        head.len--; /* not in the middle of a character */
    AUTO_BUF struct buf text = {0};
    toml_put_key(&text, head);
    if (head.len < key.len)
        buf_put_cstr(&text, "...");
    return arena_dup(p->arena, buf_str(&text));
}

static void skip_blanks(struct toml_parser *p)
{
    while (toml_peek(p) == ' ' || toml_peek(p) == '\t')
        p->at++;
}

static int parse_key_part(struct toml_parser *p, struct str *ret_part)
{
    int c = toml_peek(p);
    if (c == '"' || c == '\'')
        return toml_parse_string(p, true, ret_part);
    size_t from = p->at;
    while (toml_is_bare(toml_peek(p)))
        p->at++;
    if (p->at == from)
        return toml_fail_unexpected(p, "where a key is expected");
    *ret_part = arena_dup(p->arena, str_slice(p->text, from, p->at));
    return 0;
}

/* Blanks around the parts and behind the key are taken. */
static int parse_key(struct toml_parser *p, struct key *key)
{
    for (;;) {
        skip_blanks(p);
        if (key->count == TOML_KEY_PARTS_MAX)
            return toml_fail(p, "a key of more than %d parts", TOML_KEY_PARTS_MAX);
        key->places[key->count] = toml_place_of(p, p->at);
        if (parse_key_part(p, &key->parts[key->count]) < 0)
            return -1;
        key->count++;
        skip_blanks(p);
        if (toml_peek(p) != '.')
            return 0;
        p->at++;
    }
}

/* The table that dotted keys lead to from `table`, all parts but the last. */
static int walk_dotted(struct toml_parser *p, struct toml_table *table, const struct key *key,
                       struct toml_table **ret_table)
{
    for (size_t i = 0; i + 1 < key->count; i++) {
        const struct toml_entry *entry = toml_find(table, key->parts[i]);
        struct toml_value *value;
        if (entry != NULL) {
            value = entry->value;
            if (value->kind != TOML_TABLE || value->table->origin != TOML_DOTTED)
                return toml_fail_at(p, key->places[i],
                                    "%.*s is already defined in line %d and cannot be extended",
                                    STR_ARG(shown(p, key->parts[i])), entry->place.line);
        } else {
            if (toml_table_new(p, TOML_DOTTED, table->depth + 1, key->places[i], &value) < 0)
                return -1;
            toml_table_add(p->arena, table, key->parts[i], key->places[i], value);
        }
        table = value->table;
    }
    *ret_table = table;
    return 0;
}

/* key = value, into `table`. */
static int parse_pair(struct toml_parser *p, struct toml_table *table)
{
    struct key key = {.count = 0};
    if (parse_key(p, &key) < 0)
        return -1;
    if (toml_peek(p) != '=')
        return toml_fail_unexpected(p, "after a key: expected '='");
    p->at++;
    skip_blanks(p);

    struct toml_table *into = NULL;
    if (walk_dotted(p, table, &key, &into) < 0)
        return -1;
    assert(into != NULL);
    struct str last = key.parts[key.count - 1];
    struct toml_place place = key.places[key.count - 1];
    const struct toml_entry *twin = toml_find(into, last);
    if (twin != NULL)
        return toml_fail_at(p, place, "%.*s is already defined in line %d", STR_ARG(shown(p, last)),
                            twin->place.line);
    struct toml_value *value;
    if (parse_value(p, into->depth, &value) < 0)
        return -1;
    toml_table_add(p->arena, into, last, place, value);
    return 0;
}

/* Values. */

static int parse_comment(struct toml_parser *p)
{
    if (toml_peek(p) != '#')
        return 0;
    for (; p->at < p->text.len; p->at++) {
        int c = toml_peek(p);
        if (c == '\n' || toml_sees(p, STR("\r\n")))
            return 0;
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return toml_fail_unexpected(p, "in a comment");
    }
    return 0;
}

/* Blanks, comments and line breaks, as they may stand between the items of an array. */
static int skip_lines(struct toml_parser *p)
{
    do {
        skip_blanks(p);
        if (parse_comment(p) < 0)
            return -1;
    } while (toml_take_newline(p));
    return 0;
}

static int parse_array(struct toml_parser *p, int depth, struct toml_value *array)
{
    if (depth > TOML_DEPTH_MAX)
        return toml_fail(p, "nested deeper than %d levels", TOML_DEPTH_MAX);
    array->kind = TOML_ARRAY;
    array->array = arena_new(p->arena, struct toml_array);
    p->at++;
    for (;;) {
        if (skip_lines(p) < 0)
            return -1;
        if (toml_peek(p) == ']')
            break;
        struct toml_value *item;
        if (toml_peek(p) < 0)
            return toml_fail_at(p, array->place, "the array that begins here has no closing ']'");
        if (parse_value(p, depth, &item) < 0)
            return -1;
        toml_array_push(p->arena, array->array, item);
        if (skip_lines(p) < 0)
            return -1;
        if (toml_peek(p) == ',')
            p->at++;
        else if (toml_peek(p) != ']')
            return toml_fail_unexpected(p, "in an array: expected ',' or ']'");
    }
    p->at++;
    return 0;
}

/* On one line and without a comma before the brace: TOML 1.0. */
static int parse_inline_table(struct toml_parser *p, struct toml_table *table)
{
    p->at++;
    skip_blanks(p);
    if (toml_peek(p) == '}') {
        p->at++;
        return 0;
    }
    for (;;) {
        if (parse_pair(p, table) < 0)
            return -1;
        skip_blanks(p);
        int c = toml_peek(p);
        if (c != ',' && c != '}')
            return toml_fail_unexpected(p, "in an inline table: expected ',' or '}'");
        p->at++;
        if (c == '}')
            return 0;
    }
}

/* Inside a closed inline table nothing is open any more, also what dotted keys made there. */
static int parse_value(struct toml_parser *p, int depth, struct toml_value **ret_value)
{
    int c = toml_peek(p);
    struct toml_place place = toml_place_of(p, p->at);
    if (c == '{') {
        if (toml_table_new(p, TOML_INLINE, depth + 1, place, ret_value) < 0)
            return -1;
        return parse_inline_table(p, (*ret_value)->table);
    }
    struct toml_value *value = arena_new(p->arena, struct toml_value);
    value->place = place;
    *ret_value = value;
    if (c == '[')
        return parse_array(p, depth + 1, value);
    if (c == '"' || c == '\'') {
        value->kind = TOML_STR;
        return toml_parse_string(p, false, &value->str);
    }
    return toml_parse_scalar(p, value);
}

/* Headers. */

static int fail_taken(struct toml_parser *p, const struct key *key, size_t part,
                      const struct toml_entry *entry)
{
    return toml_fail_at(p, key->places[part], "%.*s is already defined in line %d",
                        STR_ARG(shown(p, key->parts[part])), entry->place.line);
}

/* The table in which the header's last part lives. */
static int walk_header(struct toml_parser *p, struct toml_table *table, const struct key *key,
                       struct toml_table **ret_table)
{
    for (size_t i = 0; i + 1 < key->count; i++) {
        const struct toml_entry *entry = toml_find(table, key->parts[i]);
        struct toml_value *value = entry == NULL ? NULL : entry->value;
        if (value == NULL) {
            if (toml_table_new(p, TOML_IMPLICIT, table->depth + 1, key->places[i], &value) < 0)
                return -1;
            toml_table_add(p->arena, table, key->parts[i], key->places[i], value);
        } else if (value->kind == TOML_ARRAY && value->array->of_tables) {
            value = value->array->items[value->array->len - 1];
        } else if (value->kind != TOML_TABLE || value->table->origin == TOML_INLINE) {
            return fail_taken(p, key, i, entry);
        }
        table = value->table;
    }
    *ret_table = table;
    return 0;
}

/* [key]: gives the table that the following lines fill. */
static int open_table(struct toml_parser *p, struct toml_table *parent, const struct key *key,
                      struct toml_table **ret_table)
{
    assert(parent != NULL);
    size_t last = key->count - 1;
    const struct toml_entry *entry = toml_find(parent, key->parts[last]);
    struct toml_value *value = entry == NULL ? NULL : entry->value;
    if (value == NULL) {
        if (toml_table_new(p, TOML_HEADER, parent->depth + 1, key->places[last], &value) < 0)
            return -1;
        toml_table_add(p->arena, parent, key->parts[last], key->places[last], value);
    } else if (value->kind != TOML_TABLE || value->table->origin != TOML_IMPLICIT) {
        return fail_taken(p, key, last, entry);
    }
    value->place = key->places[last];
    value->table->origin = TOML_HEADER;
    *ret_table = value->table;
    return 0;
}

/* [[key]]: adds one table to the array and gives it. */
static int open_array_item(struct toml_parser *p, struct toml_table *parent, const struct key *key,
                           struct toml_table **ret_table)
{
    size_t last = key->count - 1;
    const struct toml_entry *entry = toml_find(parent, key->parts[last]);
    struct toml_value *value = entry == NULL ? NULL : entry->value;
    if (value == NULL) {
        value = arena_new(p->arena, struct toml_value);
        *value = (struct toml_value){.kind = TOML_ARRAY, .place = key->places[last]};
        value->array = arena_new(p->arena, struct toml_array);
        value->array->of_tables = true;
        toml_table_add(p->arena, parent, key->parts[last], key->places[last], value);
    } else if (value->kind != TOML_ARRAY || !value->array->of_tables) {
        return fail_taken(p, key, last, entry);
    }
    struct toml_value *item;
    /* The array is a level too. */
    if (toml_table_new(p, TOML_HEADER, parent->depth + 2, key->places[last], &item) < 0)
        return -1;
    toml_array_push(p->arena, value->array, item);
    *ret_table = item->table;
    return 0;
}

static int parse_header(struct toml_parser *p, struct toml_table *root,
                        struct toml_table **ret_table)
{
    bool is_array = toml_sees(p, STR("[["));
    p->at += is_array ? 2 : 1;
    struct key key = {.count = 0};
    if (parse_key(p, &key) < 0)
        return -1;
    if (!toml_sees(p, is_array ? STR("]]") : STR("]")))
        return toml_fail_unexpected(p, is_array ? "in a header: expected ']]'"
                                                : "in a header: expected ']'");
    p->at += is_array ? 2 : 1;
    struct toml_table *parent = NULL;
    if (walk_header(p, root, &key, &parent) < 0)
        return -1;
    return is_array ? open_array_item(p, parent, &key, ret_table)
                    : open_table(p, parent, &key, ret_table);
}

/* One line: nothing, a header or a pair, then perhaps a comment. */
static int parse_line(struct toml_parser *p, struct toml_table *root, struct toml_table **table)
{
    skip_blanks(p);
    int c = toml_peek(p);
    bool is_empty = c < 0 || c == '#' || c == '\n' || c == '\r';
    if (!is_empty && c == '[' && parse_header(p, root, table) < 0)
        return -1;
    if (!is_empty && c != '[' && parse_pair(p, *table) < 0)
        return -1;
    skip_blanks(p);
    if (parse_comment(p) < 0)
        return -1;
    if (toml_peek(p) >= 0 && !toml_take_newline(p))
        return toml_fail_unexpected(p, "where the line should end");
    return 0;
}

/* Everything behind this may count on whole characters. */
static int check_utf8(struct toml_parser *p)
{
    for (size_t at = 0, len; at < p->text.len; at += len) {
        len = str_utf8_len(str_slice(p->text, at, p->text.len));
        if (len == 0)
            return toml_fail_at(p, toml_place_of(p, at), "not UTF-8: byte 0x%02X",
                                (unsigned)(unsigned char)p->text.ptr[at]);
        if (p->text.ptr[at] == '\n') {
            p->line++;
            p->line_start = at + 1;
        }
    }
    p->line = 1;
    p->line_start = 0;
    p->mark_at = 0;
    p->mark_column = 1;
    return 0;
}

int toml_parse(struct str text, struct arena *arena, struct toml_table **ret_table, struct err *err)
{
    if (text.len > TOML_SIZE_MAX)
        return err_set(err, ERR_TOO_LARGE, "the TOML has more than %d bytes", TOML_SIZE_MAX);
    if (str_starts(text, STR("\xef\xbb\xbf")))
        text = str_slice(text, 3, text.len);
    struct toml_parser p = {.text = text, .line = 1, .mark_column = 1, .arena = arena, .err = err};
    struct toml_table *root = arena_new(arena, struct toml_table);
    root->origin = TOML_HEADER;
    struct toml_table *table = root;
    if (check_utf8(&p) < 0)
        return -1;
    while (p.at < p.text.len)
        if (parse_line(&p, root, &table) < 0)
            return -1;
    *ret_table = root;
    return 0;
}
