#pragma once

/* JSON in and out. Reading is strict (jansson, included only in json.c): no duplicate keys, valid
 * UTF-8, one value and nothing behind it, bounded size and depth. Writing composes text straight
 * into a buffer, without a tree. */

#include "base/buf.h"

struct err;
struct json_t; /* a parsed value; children belong to the value they were read from */

enum { JSON_SIZE_MAX = 16 << 20, JSON_DEPTH_MAX = 64 };

enum json_kind {
    JSON_KIND_NULL,
    JSON_KIND_BOOL,
    JSON_KIND_INT,
    JSON_KIND_FLOAT,
    JSON_KIND_STR,
    JSON_KIND_ARRAY,
    JSON_KIND_OBJECT,
};

/* INVALID with line and column, or TOO_LARGE. Any JSON value is taken, not only objects. */
int json_parse(struct str text, struct json_t **ret_value, struct err *err) MUST_USE;
struct json_t *json_free(struct json_t *value);
static inline void json_freep(struct json_t **p)
{
    *p = json_free(*p);
}
#define AUTO_JSON AUTO(json_freep)

enum json_kind json_kind(const struct json_t *value);
const char *json_kind_name(enum json_kind kind); /* "a string", "an object", ... */

/* Elements of an array or members of an object; 0 for the rest. */
size_t json_len(const struct json_t *value);
struct json_t *json_at(const struct json_t *array, size_t index);
struct json_t *json_get(const struct json_t *object, const char *key); /* NULL when absent */
/* Walks an object's members in their order: start with `*iter` NULL; false at the end. */
bool json_next(struct json_t *object, void **iter, struct str *ret_key, struct json_t **ret_value);

/* False when the value is of another kind; NULL is of none. An integer is a float too, and a number
 * without a fraction is an integer however it was written: 2, 2.0 and 2e0 are the same. Written as
 * a float it may be at most 2^53, which is as far as a float is exact. */
bool json_to_str(const struct json_t *value, struct str *ret_str) MUST_USE;
bool json_to_i64(const struct json_t *value, int64_t *ret_n) MUST_USE;
bool json_to_f64(const struct json_t *value, double *ret_n) MUST_USE;
bool json_to_bool(const struct json_t *value, bool *ret_flag) MUST_USE;

/* Writing. Begin and end must match; inside an object a key comes before each value.
 *
 *     struct json_out out = {.buf = &text};
 *     json_begin_object(&out);
 *     json_key(&out, "name"), json_put_str(&out, name);
 *     json_end_object(&out); */
struct json_out {
    struct buf *buf;
    bool pretty; /* two blanks a level */
    bool filled; /* the open container holds something */
    bool keyed;  /* a key waits for its value */
    int depth;
};

void json_begin_object(struct json_out *out);
void json_end_object(struct json_out *out);
void json_begin_array(struct json_out *out);
void json_end_array(struct json_out *out);
void json_key(struct json_out *out, const char *key);
void json_key_str(struct json_out *out, struct str key);
/* Bytes that are not UTF-8 become U+FFFD: the text stays valid JSON whatever comes. */
void json_put_str(struct json_out *out, struct str s);
void json_put_cstr(struct json_out *out, const char *text); /* NULL gives null */
void json_put_i64(struct json_out *out, int64_t n);
void json_put_f64(struct json_out *out, double n); /* NaN and infinities give null */
void json_put_bool(struct json_out *out, bool flag);
void json_put_null(struct json_out *out);
void json_put_value(struct json_out *out, const struct json_t *value);
void json_put_texts(struct json_out *out, const struct str *texts, size_t count); /* an array */
