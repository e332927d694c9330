#pragma once

/* TOML 1.0, read strictly: what the specification refuses is refused, with line and column.
 *
 * The tree belongs to the arena it was parsed into and does not point into the text. Every value
 * and every key remembers where it stood, so that a later check can name the place. Size and
 * nesting are bounded; columns count characters, not bytes. */

#include "base/str.h"

struct arena;
struct buf;
struct err;

enum {
    TOML_SIZE_MAX = 4 << 20,
    TOML_DEPTH_MAX = 64, /* tables and arrays inside each other; the root is level 0 */
    TOML_KEY_PARTS_MAX = 32,
};

enum toml_kind {
    TOML_STR,
    TOML_INT,
    TOML_FLOAT,
    TOML_BOOL,
    TOML_DATETIME, /* with an offset from UTC */
    TOML_LOCAL_DATETIME,
    TOML_LOCAL_DATE,
    TOML_LOCAL_TIME,
    TOML_ARRAY,
    TOML_TABLE,
};

struct toml_place {
    int line, column; /* both from 1; 0 for a table that nothing but the file itself defines */
};

/* Fields that the kind does not have are 0. A second may be 60, as RFC 3339 allows. */
struct toml_time {
    int year, month, day;
    int hour, minute, second, nanosecond; /* finer digits are cut, as the specification says */
    int offset_minutes;
};

struct toml_array;
struct toml_table;

struct toml_value {
    enum toml_kind kind;
    struct toml_place place;
    union {
        struct str str; /* NUL-terminated too; may hold NULs (\u0000) */
        int64_t integer;
        double real; /* may be nan or an infinity */
        bool flag;
        struct toml_time time;
        struct toml_array *array;
        struct toml_table *table;
    };
};

struct toml_array {
    struct toml_value **items;
    size_t len, cap;
    bool of_tables; /* grown by [[header]] */
};

struct toml_entry {
    struct str key; /* NUL-terminated too */
    struct toml_place place;
    struct toml_value *value;
    struct toml_entry *next; /* in the order of the file */
    uint64_t hash;
};

struct toml_table {
    struct toml_entry *first, *last;
    size_t len;
    struct toml_entry **slots; /* open addressing; for toml_find */
    size_t slot_count;
    int depth;
    int origin; /* how it came to be; the parser's */
};

/* INVALID ("line L, column C: what is wrong") or TOO_LARGE. */
int toml_parse(struct str text, struct arena *arena, struct toml_table **ret_table,
               struct err *err) MUST_USE;

/* NULL when absent. */
const struct toml_entry *toml_find(const struct toml_table *table, struct str key);
const struct toml_value *toml_get(const struct toml_table *table, struct str key);
#define TOML_EACH(entry, table)                                                                    \
    for (const struct toml_entry *entry = (table)->first; entry != NULL; entry = entry->next)

const char *toml_kind_name(enum toml_kind kind); /* "a string", "a table", ... */
/* The key as it is written in a file: bare where it can be, else quoted with everything escaped
 * that would break a line. */
void toml_put_key(struct buf *buf, struct str key);
