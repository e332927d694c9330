#pragma once

/* What the parts of the TOML parser share: toml.c (document), toml_string.c, toml_scalar.c
 * and toml_tree.c (what they build). */

#include "base/format/toml.h"

/* The position of the reader. `line_start` is the offset of the current line; the mark remembers a
 * column already counted on it, so that a long line is counted once and not per value. */
struct toml_parser {
    struct str text;
    size_t at;
    int line;
    size_t line_start;
    size_t mark_at;
    int mark_column;
    struct arena *arena;
    struct err *err;
};

/* How a table came to be decides what may still be added to it:
 *   TOML_IMPLICIT  named on the way to [a.b]; [a] may define it once, sub-tables may join
 *   TOML_HEADER    defined by [a] or [[a]]; keys below the header, sub-tables by later headers
 *   TOML_DOTTED    made by `a.b = 1`; more dotted keys of the section, sub-tables by headers
 *   TOML_INLINE    { ... }; complete at its closing brace */
enum toml_origin { TOML_IMPLICIT, TOML_HEADER, TOML_DOTTED, TOML_INLINE };

/* The next byte, or -1 at the end. */
static inline int toml_peek(const struct toml_parser *p)
{
    return p->at < p->text.len ? (unsigned char)p->text.ptr[p->at] : -1;
}
static inline struct str toml_rest(const struct toml_parser *p)
{
    return str_slice(p->text, p->at, p->text.len);
}
static inline bool toml_sees(const struct toml_parser *p, struct str word)
{
    return str_starts(toml_rest(p), word);
}

/* The place of an offset on the current line. */
struct toml_place toml_place_of(struct toml_parser *p, size_t at);
/* Each returns -1 with "line L, column C: ..." set. */
int toml_fail(struct toml_parser *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
int toml_fail_at(struct toml_parser *p, struct toml_place place, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
/* "unexpected 'x' <where>" for the next byte, whatever it is. */
int toml_fail_unexpected(struct toml_parser *p, const char *where);

/* Takes LF or CRLF; false when neither is next. */
bool toml_take_newline(struct toml_parser *p);

/* At an opening quote: a string of any of the four kinds, or of the two on one line. */
int toml_parse_string(struct toml_parser *p, bool one_line, struct str *ret_str) MUST_USE;
/* At anything that is neither string, array nor table. */
int toml_parse_scalar(struct toml_parser *p, struct toml_value *value) MUST_USE;

static inline bool toml_is_bare(int c)
{
    return char_is_alnum(c) || c == '_' || c == '-';
}

/* Fails past TOML_DEPTH_MAX. */
int toml_table_new(struct toml_parser *p, enum toml_origin origin, int depth,
                   struct toml_place place, struct toml_value **ret_value) MUST_USE;
/* The key must be absent. */
void toml_table_add(struct arena *arena, struct toml_table *table, struct str key,
                    struct toml_place place, struct toml_value *value);
void toml_array_push(struct arena *arena, struct toml_array *array, struct toml_value *item);
