/* Reading: strictly, with jansson. Writing is in json_out.c. */

#include "base/format/json.h"

#include <jansson.h>

#include "base/err.h"

/* What jansson allocates for a value, at most; measured. A short text can make a large tree: an
 * empty object is two bytes and a quarter of a KiB. */
enum {
    COST_OBJECT = 240,
    COST_ARRAY = 140,
    COST_STRING = 92, /* a key, too */
    COST_VALUE = 40,
    MEMORY_MAX = 64 << 20, /* of a tree, the bytes of its strings apart */
};

static size_t cost_of(char c)
{
    return c == '{' ? COST_OBJECT : c == '[' ? COST_ARRAY : c == ',' ? COST_VALUE : 0;
}

/* jansson recurses up to 2,048 levels; ours ends earlier, before it has allocated anything. So it
 * is with the memory that it would take. */
static int check_size(struct str text, struct err *err)
{
    int depth = 0;
    bool in_string = false;
    size_t cost = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
            continue;
        }
        in_string = c == '"';
        depth += (c == '[' || c == '{') - (c == ']' || c == '}');
        cost += in_string ? COST_STRING : cost_of(c);
        if (depth > JSON_DEPTH_MAX)
            return err_set(err, ERR_INVALID, "JSON nested deeper than %d levels", JSON_DEPTH_MAX);
        if (cost > MEMORY_MAX)
            return err_set(err, ERR_TOO_LARGE, "the JSON has too many values; send fewer at once");
    }
    return 0;
}

/* jansson quotes what it stumbled over; a message is one line, whatever that was. */
static void hide_controls(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

/* The parser's advice is for its caller, not for our user. */
static void hide_advice(char *text)
{
    static const char advice[] = " without JSON_ALLOW_NUL";
    char *found = strstr(text, advice);
    if (found != NULL)
        memmove(found, found + sizeof advice - 1, strlen(found + sizeof advice - 1) + 1);
}

int json_parse(struct str text, struct json_t **ret_value, struct err *err)
{
    if (text.len > JSON_SIZE_MAX)
        return err_set(err, ERR_TOO_LARGE, "the JSON has more than %d bytes", JSON_SIZE_MAX);
    if (check_size(text, err) < 0)
        return -1;
    json_error_t why;
    size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
    struct json_t *value = json_loadb(text.len == 0 ? "" : text.ptr, text.len, flags, &why);
    if (value == NULL) {
        hide_controls(why.text);
        hide_advice(why.text);
        return err_set(err, ERR_INVALID, "JSON, line %d, column %d: %s", why.line, why.column,
                       why.text);
    }
    *ret_value = value;
    return 0;
}

struct json_t *json_free(struct json_t *value)
{
    json_decref(value);
    return NULL;
}

enum json_kind json_kind(const struct json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return JSON_KIND_OBJECT;
    case JSON_ARRAY:
        return JSON_KIND_ARRAY;
    case JSON_STRING:
        return JSON_KIND_STR;
    case JSON_INTEGER:
        return JSON_KIND_INT;
    case JSON_REAL:
        return JSON_KIND_FLOAT;
    case JSON_TRUE:
    case JSON_FALSE:
        return JSON_KIND_BOOL;
    case JSON_NULL:
        break;
    }
    return JSON_KIND_NULL;
}

const char *json_kind_name(enum json_kind kind)
{
    static const char *const names[] = {
        [JSON_KIND_NULL] = "null",        [JSON_KIND_BOOL] = "a boolean",
        [JSON_KIND_INT] = "an integer",   [JSON_KIND_FLOAT] = "a number",
        [JSON_KIND_STR] = "a string",     [JSON_KIND_ARRAY] = "an array",
        [JSON_KIND_OBJECT] = "an object",
    };
    return names[kind];
}

size_t json_len(const struct json_t *value)
{
    return json_is_array(value) ? json_array_size(value) : json_object_size(value);
}

struct json_t *json_at(const struct json_t *array, size_t index)
{
    return json_array_get(array, index);
}

struct json_t *json_get(const struct json_t *object, const char *key)
{
    return json_object_get(object, key);
}

bool json_next(struct json_t *object, void **iter, struct str *ret_key, struct json_t **ret_value)
{
    *iter = *iter == NULL ? json_object_iter(object) : json_object_iter_next(object, *iter);
    if (*iter == NULL)
        return false;
    *ret_key = str_of(json_object_iter_key(*iter));
    *ret_value = json_object_iter_value(*iter);
    return true;
}

bool json_to_str(const struct json_t *value, struct str *ret_str)
{
    if (!json_is_string(value))
        return false;
    *ret_str = str_n(json_string_value(value), json_string_length(value));
    return true;
}

bool json_to_i64(const struct json_t *value, int64_t *ret_n)
{
    if (json_is_integer(value)) {
        *ret_n = json_integer_value(value);
        return true;
    }
    /* Above 2^53 a double cannot say which integer was written. */
    const double exact_max = 9007199254740992.0;
    double n = json_is_real(value) ? json_real_value(value) : 0.5;
    if (!(n >= -exact_max && n <= exact_max) || (double)(int64_t)n != n)
        return false;
    *ret_n = (int64_t)n;
    return true;
}

bool json_to_f64(const struct json_t *value, double *ret_n)
{
    if (!json_is_number(value))
        return false;
    *ret_n = json_number_value(value);
    return true;
}

bool json_to_bool(const struct json_t *value, bool *ret_flag)
{
    if (!json_is_boolean(value))
        return false;
    *ret_flag = json_is_true(value);
    return true;
}
