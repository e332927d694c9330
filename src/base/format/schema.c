#include "base/format/schema.h"

#include "base/err.h"
#include "base/format/json.h"

enum { SHOWN_MAX = 40 };

static const char *const type_names[] = {"null",   "boolean", "integer", "number",
                                         "string", "array",   "object"};
static const char *const type_words[] = {"null",     "a boolean", "an integer", "a number",
                                         "a string", "an array",  "an object"};

static struct str text_of(const struct json_t *object, const char *key)
{
    struct str text = {0};
    return json_to_str(json_get(object, key), &text) ? text : (struct str){0};
}

static bool number_of(const struct json_t *object, const char *key, double *ret_n)
{
    return json_to_f64(json_get(object, key), ret_n);
}

/* Checking the schema itself. */

static bool is_type(const struct json_t *value)
{
    struct str name;
    if (!json_to_str(value, &name))
        return false;
    for (size_t i = 0; i < countof(type_names); i++)
        if (str_eq(name, str_of(type_names[i])))
            return true;
    return false;
}

static bool is_number(const struct json_t *value)
{
    double n;
    return json_to_f64(value, &n);
}

static bool is_count(const struct json_t *value)
{
    int64_t n;
    return json_to_i64(value, &n) && n >= 0;
}

static bool is_names(const struct json_t *value)
{
    struct str name;
    if (json_kind(value) != JSON_KIND_ARRAY)
        return false;
    for (size_t i = 0; i < json_len(value); i++)
        if (!json_to_str(json_at(value, i), &name))
            return false;
    return true;
}

static bool is_choices(const struct json_t *value)
{
    return is_names(value) && json_len(value) > 0;
}

static bool is_anything(UNUSED const struct json_t *value)
{
    return true;
}

static const struct {
    const char *key;
    bool (*is_good)(const struct json_t *value);
} keywords[] = {
    {"type", is_type},         {"minimum", is_number},
    {"maximum", is_number},    {"minLength", is_count},
    {"maxLength", is_count},   {"minItems", is_count},
    {"maxItems", is_count},    {"required", is_names},
    {"enum", is_choices},      {"description", is_anything},
    {"title", is_anything},    {"default", is_anything},
    {"examples", is_anything}, {"writeOnly", is_anything},
};

/* Schemas of which one must fit. */
static int check_branches(const struct json_t *value, struct err *err)
{
    if (json_kind(value) != JSON_KIND_ARRAY || json_len(value) == 0)
        return err_set(err, ERR_INVALID, "schema: anyOf must be an array of schemas");
    for (size_t i = 0; i < json_len(value); i++)
        if (schema_check_schema(json_at(value, i), err) < 0)
            return -1;
    return 0;
}

static int check_keyword(struct str key, struct json_t *value, struct err *err)
{
    bool flag;
    void *iter = NULL;
    struct str name;
    struct json_t *member;
    if (str_eq(key, STR("items")) ||
        (str_eq(key, STR("additionalProperties")) && !json_to_bool(value, &flag)))
        return schema_check_schema(value, err);
    if (str_eq(key, STR("additionalProperties")))
        return 0;
    if (str_eq(key, STR("anyOf")))
        return check_branches(value, err);
    if (str_eq(key, STR("properties"))) {
        if (json_kind(value) != JSON_KIND_OBJECT)
            return err_set(err, ERR_INVALID, "schema: properties must be an object");
        while (json_next(value, &iter, &name, &member))
            if (schema_check_schema(member, err) < 0)
                return -1;
        return 0;
    }
    for (size_t i = 0; i < countof(keywords); i++) {
        if (!str_eq(key, str_of(keywords[i].key)))
            continue;
        if (keywords[i].is_good(value))
            return 0;
        return err_set(err, ERR_INVALID, "schema: '%s' is not supported with this value",
                       keywords[i].key);
    }
    return err_set(err, ERR_INVALID, "schema: unsupported keyword '%.*s'",
                   STR_ARG(str_slice(key, 0, SHOWN_MAX)));
}

int schema_check_schema(const struct json_t *schema, struct err *err)
{
    void *iter = NULL;
    struct str key;
    struct json_t *value;
    if (json_kind(schema) != JSON_KIND_OBJECT)
        return err_set(err, ERR_INVALID, "schema: must be an object");
    if (json_get(schema, "type") == NULL && json_get(schema, "anyOf") == NULL)
        return err_set(err, ERR_INVALID, "schema: 'type' is missing");
    while (json_next((struct json_t *)schema, &iter, &key, &value))
        if (check_keyword(key, value, err) < 0)
            return -1;
    return 0;
}

/* Words for messages. */

static void schema_put_number(double n, struct buf *out)
{
    struct json_out json = {.buf = out};
    json_put_f64(&json, n);
}

static void put_choices(const struct json_t *choices, struct buf *out)
{
    if (json_len(choices) > 1)
        buf_put_cstr(out, "one of ");
    for (size_t i = 0; i < json_len(choices); i++) {
        struct json_out json = {.buf = out};
        if (i > 0)
            buf_put_cstr(out, ", ");
        json_put_value(&json, json_at(choices, i));
    }
}

static void put_wanted(const struct json_t *schema, struct buf *out);

static void put_branches(const struct json_t *branches, struct buf *out)
{
    for (size_t i = 0; i < json_len(branches); i++) {
        if (i > 0)
            buf_put_cstr(out, " or ");
        put_wanted(json_at(branches, i), out);
    }
}

/* "a number from -90 to 90" */
static void put_wanted(const struct json_t *schema, struct buf *out)
{
    struct str type = text_of(schema, "type");
    double min, max;
    if (json_get(schema, "anyOf") != NULL) {
        put_branches(json_get(schema, "anyOf"), out);
        return;
    }
    if (json_get(schema, "enum") != NULL) {
        put_choices(json_get(schema, "enum"), out);
        return;
    }
    for (size_t i = 0; i < countof(type_names); i++)
        if (str_eq(type, str_of(type_names[i])))
            buf_put_cstr(out, type_words[i]);
    bool has_min = number_of(schema, "minimum", &min), has_max = number_of(schema, "maximum", &max);
    if (has_min)
        buf_put_cstr(out, has_max ? " from " : " of at least ");
    if (has_min)
        schema_put_number(min, out);
    if (has_max)
        buf_put_cstr(out, has_min ? " to " : " of at most ");
    if (has_max)
        schema_put_number(max, out);
}

static void put_got(const struct json_t *value, struct buf *out)
{
    struct json_out json = {.buf = out};
    struct str text;
    enum json_kind kind = json_kind(value);
    if (json_to_str(value, &text)) {
        size_t len = 0, next;
        while (len < MIN(text.len, (size_t)SHOWN_MAX) &&
               (next = str_utf8_len(str_slice(text, len, text.len))) > 0)
            len += next;
        json_put_str(&json, str_slice(text, 0, len));
        if (len < text.len)
            buf_put_cstr(out, "...");
    } else if (kind == JSON_KIND_ARRAY || kind == JSON_KIND_OBJECT) {
        buf_put_cstr(out, json_kind_name(kind));
    } else {
        json_put_value(&json, value);
    }
}

/* Checking a value. `path` grows on the way in and is cut back on the way out. */

struct schema_place {
    struct buf path;
    bool is_hidden; /* below "writeOnly": the value may be a secret and is not repeated */
    struct err *err;
};

static const char *here(const struct schema_place *place)
{
    return place->path.len == 0 ? "the value" : buf_cstr(&place->path);
}

static int unwanted(struct schema_place *place, const struct json_t *schema,
                    const struct json_t *value)
{
    AUTO_BUF struct buf wanted = {0}, got = {0};
    put_wanted(schema, &wanted);
    if (place->is_hidden)
        buf_put_cstr(&got, json_kind_name(json_kind(value)));
    else
        put_got(value, &got);
    return err_set(place->err, ERR_INVALID, "%.100s must be %s, got %s", here(place),
                   buf_cstr(&wanted), buf_cstr(&got));
}

static bool has_type(struct str type, const struct json_t *value)
{
    int64_t n;
    switch (json_kind(value)) {
    case JSON_KIND_NULL:
        return str_eq(type, STR("null"));
    case JSON_KIND_BOOL:
        return str_eq(type, STR("boolean"));
    case JSON_KIND_INT:
        return str_eq(type, STR("number")) || str_eq(type, STR("integer"));
    case JSON_KIND_FLOAT: /* an integer if, and only if, the handlers read it as one */
        return str_eq(type, STR("number")) ||
               (str_eq(type, STR("integer")) && json_to_i64(value, &n));
    case JSON_KIND_STR:
        return str_eq(type, STR("string"));
    case JSON_KIND_ARRAY:
        return str_eq(type, STR("array"));
    case JSON_KIND_OBJECT:
        return str_eq(type, STR("object"));
    }
    return false;
}

static bool is_in_range(const struct json_t *schema, const struct json_t *value)
{
    double n, bound;
    if (!json_to_f64(value, &n))
        return true;
    if (number_of(schema, "minimum", &bound) && n < bound)
        return false;
    return !(number_of(schema, "maximum", &bound) && n > bound);
}

static bool is_chosen(const struct json_t *schema, const struct json_t *value)
{
    const struct json_t *choices = json_get(schema, "enum");
    struct str text, choice;
    if (choices == NULL)
        return true;
    for (size_t i = 0; i < json_len(choices); i++)
        if (json_to_str(value, &text) && json_to_str(json_at(choices, i), &choice) &&
            str_eq(text, choice))
            return true;
    return false;
}

static int check_count(struct schema_place *place, const struct json_t *schema, size_t count,
                       const char *min_key, const char *max_key, const char *unit)
{
    int64_t bound;
    if (json_to_i64(json_get(schema, max_key), &bound) && count > (uint64_t)bound)
        return err_set(place->err, ERR_INVALID, "%.100s must have at most %lld %s, got %zu",
                       here(place), (long long)bound, unit, count);
    if (json_to_i64(json_get(schema, min_key), &bound) && count < (uint64_t)bound)
        return err_set(place->err, ERR_INVALID, "%.100s must have at least %lld %s, got %zu",
                       here(place), (long long)bound, unit, count);
    return 0;
}

static size_t count_chars(struct str text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += ((unsigned char)text.ptr[i] & 0xc0) != 0x80;
    return count;
}

static int check_value(struct schema_place *place, const struct json_t *schema,
                       struct json_t *value);

static int check_member(struct schema_place *place, const struct json_t *schema, struct str key,
                        struct json_t *value)
{
    size_t len = place->path.len;
    if (len > 0)
        buf_put_char(&place->path, '.');
    buf_put(&place->path, str_slice(key, 0, SHOWN_MAX));
    int result = check_value(place, schema, value);
    while (place->path.len > len)
        place->path.ptr[--place->path.len] = '\0';
    return result;
}

/* Words that other programs use for the same: too far from ours for nearest_offer. */
static struct str find_synonym(const struct json_t *properties, struct str key)
{
    static const struct {
        const char *theirs, *ours;
    } rows[] = {
        {"labels", "metadata"}, {"tags", "metadata"},   {"cmd", "command"},
        {"cmd", "argv"},        {"args", "argv"},       {"timeout", "timeoutMs"},
        {"idle", "idleMs"},     {"ttl", "ttlMs"},       {"workdir", "cwd"},
        {"dir", "path"},        {"environment", "env"}, {"envs", "env"},
        {"memory", "limits"},   {"memoryMb", "limits"}, {"cpus", "limits"},
        {"lang", "language"},   {"source", "code"},     {"template", "runtime"},
        {"image", "runtime"},
    };
    for (size_t i = 0; properties != NULL && i < countof(rows); i++)
        if (str_eq(key, str_of(rows[i].theirs)) && json_get(properties, rows[i].ours) != NULL)
            return str_of(rows[i].ours);
    return (struct str){0};
}

static int unknown_member(struct schema_place *place, struct json_t *properties, struct str key)
{
    struct nearest nearest = {.word = key};
    if (place->is_hidden)
        return err_set(place->err, ERR_INVALID, "%.100s has an unknown property", here(place));
    void *iter = NULL;
    struct str name;
    struct json_t *member;
    while (properties != NULL && json_next(properties, &iter, &name, &member))
        nearest_offer(&nearest, name);
    struct str synonym = find_synonym(properties, key);
    if (synonym.len > 0)
        nearest.best = synonym;
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    if (place->path.len == 0)
        buf_put_cstr(&text, "unknown property ");
    else
        buf_printf(&text, "%.100s: unknown property ", here(place));
    json_put_str(&out, str_slice(key, 0, SHOWN_MAX));
    if (nearest.best.len > 0)
        buf_printf(&text, "; did you mean '%.*s'?", STR_ARG(nearest.best));
    return err_set(place->err, ERR_INVALID, "%s", buf_cstr(&text));
}

static int check_required(struct schema_place *place, const struct json_t *schema,
                          const struct json_t *value)
{
    const struct json_t *required = json_get(schema, "required");
    for (size_t i = 0; required != NULL && i < json_len(required); i++) {
        struct str name;
        if (!json_to_str(json_at(required, i), &name) || json_get(value, name.ptr) != NULL)
            continue;
        AUTO_BUF struct buf wanted = {0};
        const struct json_t *properties = json_get(schema, "properties");
        const struct json_t *member = properties == NULL ? NULL : json_get(properties, name.ptr);
        if (member != NULL)
            put_wanted(member, &wanted);
        return err_set(place->err, ERR_INVALID, "%.100s%s%.*s is missing%s%s",
                       buf_cstr(&place->path), place->path.len > 0 ? "." : "", STR_ARG(name),
                       wanted.len > 0 ? "; it must be " : "", buf_cstr(&wanted));
    }
    return 0;
}

static int check_object(struct schema_place *place, const struct json_t *schema,
                        struct json_t *value)
{
    struct json_t *properties = json_get(schema, "properties");
    const struct json_t *others = json_get(schema, "additionalProperties");
    void *iter = NULL;
    struct str key;
    struct json_t *member;
    bool flag = true;
    while (json_next(value, &iter, &key, &member)) {
        const struct json_t *known = properties == NULL ? NULL : json_get(properties, key.ptr);
        if (known == NULL && others == NULL)
            continue;
        if (known == NULL && json_to_bool(others, &flag)) {
            if (!flag)
                return unknown_member(place, properties, key);
        } else if (check_member(place, known != NULL ? known : others, key, member) < 0) {
            return -1;
        }
    }
    return check_required(place, schema, value);
}

static int check_array(struct schema_place *place, const struct json_t *schema,
                       struct json_t *value)
{
    const struct json_t *items = json_get(schema, "items");
    if (check_count(place, schema, json_len(value), "minItems", "maxItems", "items") < 0)
        return -1;
    for (size_t i = 0; items != NULL && i < json_len(value); i++) {
        size_t len = place->path.len;
        buf_printf(&place->path, "[%zu]", i);
        int result = check_value(place, items, json_at(value, i));
        while (place->path.len > len)
            place->path.ptr[--place->path.len] = '\0';
        if (result < 0)
            return -1;
    }
    return 0;
}

static bool fits_any(const struct schema_place *place, const struct json_t *branches,
                     struct json_t *value)
{
    for (size_t i = 0; i < json_len(branches); i++) {
        struct err ignored = {0};
        struct schema_place inner = {.is_hidden = place->is_hidden, .err = &ignored};
        bool fits = check_value(&inner, json_at(branches, i), value) == 0;
        buf_done(&inner.path);
        if (fits)
            return true;
    }
    return false;
}

static int check_shown(struct schema_place *place, const struct json_t *schema,
                       struct json_t *value)
{
    struct str text;
    const struct json_t *branches = json_get(schema, "anyOf");
    if (branches != NULL)
        return fits_any(place, branches, value) ? 0 : unwanted(place, schema, value);
    if (!has_type(text_of(schema, "type"), value) || !is_in_range(schema, value) ||
        !is_chosen(schema, value))
        return unwanted(place, schema, value);
    if (json_to_str(value, &text))
        return check_count(place, schema, count_chars(text), "minLength", "maxLength",
                           "characters");
    if (json_kind(value) == JSON_KIND_OBJECT)
        return check_object(place, schema, value);
    if (json_kind(value) == JSON_KIND_ARRAY)
        return check_array(place, schema, value);
    return 0;
}

static int check_value(struct schema_place *place, const struct json_t *schema,
                       struct json_t *value)
{
    bool was_hidden = place->is_hidden, hides = false;
    if (json_to_bool(json_get(schema, "writeOnly"), &hides) && hides)
        place->is_hidden = true;
    int result = check_shown(place, schema, value);
    place->is_hidden = was_hidden;
    return result;
}

int schema_check(const struct json_t *schema, const struct json_t *value, const char *path,
                 struct err *err)
{
    struct schema_place place = {.err = err};
    buf_put_cstr(&place.path, path);
    int result = check_value(&place, schema, (struct json_t *)value);
    buf_done(&place.path);
    return result;
}

void schema_put_type(const struct json_t *schema, struct buf *out)
{
    const struct json_t *branches = json_get(schema, "anyOf");
    struct str text = {0};
    if (json_to_str(json_get(schema, "type"), &text))
        buf_put(out, text);
    for (size_t i = 0; branches != NULL && i < json_len(branches); i++) {
        const struct json_t *choices = json_get(json_at(branches, i), "enum");
        buf_put_cstr(out, i == 0 ? "" : " or ");
        if (choices != NULL && json_to_str(json_at(choices, 0), &text))
            buf_printf(out, "`\"%.*s\"`", STR_ARG(text));
        else
            schema_put_type(json_at(branches, i), out);
    }
}
