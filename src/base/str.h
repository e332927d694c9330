#pragma once

/* A view of bytes: pointer and length, nothing owned, not NUL-terminated. */

#include "base/base.h"

struct err;

struct str {
    const char *ptr;
    size_t len;
};

/* A view of a string literal. */
#define STR(literal) ((struct str){"" literal, sizeof(literal) - 1})
/* For printf: "%.*s", STR_ARG(s). */
#define STR_ARG(s) ((int)((s).len > 0x7fffffff ? 0x7fffffff : (s).len)), ((s).ptr ? (s).ptr : "")

static inline struct str str_of(const char *cstr)
{
    return (struct str){cstr, cstr == NULL ? 0 : strlen(cstr)};
}
static inline struct str str_n(const char *ptr, size_t len)
{
    return (struct str){ptr, len};
}

bool str_eq(struct str a, struct str b);
bool str_eq_nocase(struct str a, struct str b); /* ASCII only */
int str_cmp(struct str a, struct str b);
bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
/* Index of the first `c`, or s.len. */
size_t str_find_char(struct str s, char c);
/* Index of the first `needle`, or s.len. */
size_t str_find(struct str s, struct str needle);
struct str str_slice(struct str s, size_t from, size_t to); /* clamped */
struct str str_trim(struct str s);                          /* blanks, tabs, CR, LF */

/* Cuts `*rest` at the first `sep` and gives the part before it; false when nothing is left. */
bool str_split(struct str *rest, char sep, struct str *ret_part);

/* The whole of `s` as a number, no blanks, no sign but '-'. False when it is not one or is
 * outside [min, max]; there is no default. */
bool str_to_i64(struct str s, int64_t min, int64_t max, int64_t *ret_n) MUST_USE;
bool str_to_f64(struct str s, double *ret_n) MUST_USE; /* finite, JSON-like or TOML-like */
/* One to 15 hexadecimal digits in either case, and nothing else. */
bool str_to_hex(struct str s, uint64_t *ret_n) MUST_USE;
/* Lower-case hexadecimal digits and nothing else; also true for "". */
bool str_is_hex(struct str s);
int char_hex(int c); /* the value of a hexadecimal digit; -1 for another character */

/* ASCII only, whatever the locale; any int, and a char of either sign, may be asked about. */
static inline bool char_is_digit(int c)
{
    return c >= '0' && c <= '9';
}
static inline bool char_is_alnum(int c)
{
    return char_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* RFC 3629: no overlong forms, no surrogates, nothing past U+10FFFF. */
bool str_is_utf8(struct str s);
/* Bytes of the UTF-8 sequence that `s` begins with; 0 when it is not valid. */
size_t str_utf8_len(struct str s);

/* Writes `s` with a NUL behind it. INVALID when it holds a NUL, TOO_LARGE when it does not fit. */
int str_to_cstr(struct str s, char *out, size_t out_size, struct err *err) MUST_USE;

/* How many single edits (insert, delete, replace, swap of neighbours) lead from a to b. */
size_t str_distance(struct str a, struct str b);

/* Remembers the candidate nearest to a mistyped word, for "did you mean": start with {.word = w}.
 */
struct nearest {
    struct str word;
    struct str best; /* empty while nothing is near enough */
    size_t distance;
};
void nearest_offer(struct nearest *nearest, struct str candidate);
