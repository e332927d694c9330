#include "runtime/hints.h"

#include "base/err.h"
#include "base/format/json.h"

static int set_number(const char *name, double n, double limit, bool *ret_has, double *ret_n,
                      struct err *err)
{
    if (!(n >= -limit && n <= limit))
        return err_set(err, ERR_INVALID, "hint %s must be a number from %g to %g, got %g", name,
                       -limit, limit, n);
    *ret_has = true;
    *ret_n = n;
    return 0;
}

static int set_coordinate(struct hints *hints, struct str key, double n, struct err *err)
{
    if (str_eq(key, STR("latitude")))
        return set_number("latitude", n, 90, &hints->has_latitude, &hints->latitude, err);
    return set_number("longitude", n, 180, &hints->has_longitude, &hints->longitude, err);
}

static int set_text(const char *name, struct str value, char out[HINT_TEXT_SIZE], struct err *err)
{
    value = str_trim(value);
    bool good = value.len > 0 && value.len < HINT_TEXT_SIZE && str_is_utf8(value);
    for (size_t i = 0; i < value.len && good; i++)
        good = (unsigned char)value.ptr[i] >= 0x20 && value.ptr[i] != 0x7f;
    if (!good)
        return err_set(err, ERR_INVALID, "hint %s must be one line of 1 to %d bytes", name,
                       HINT_TEXT_SIZE - 1);
    return str_to_cstr(value, out, HINT_TEXT_SIZE, err);
}

static bool is_coordinate(struct str key)
{
    return str_eq(key, STR("latitude")) || str_eq(key, STR("longitude"));
}

static int set_named_text(struct hints *hints, struct str key, struct str value, struct err *err)
{
    if (str_eq(key, STR("city")))
        return set_text("city", value, hints->city, err);
    if (str_eq(key, STR("country")))
        return set_text("country", value, hints->country, err);
    return err_set(err, ERR_INVALID,
                   "unknown hint '%.*s'; the hints are latitude, longitude, city and country",
                   STR_ARG(str_slice(key, 0, 40)));
}

int hints_set(struct hints *hints, struct str key, struct str value, struct err *err)
{
    double n;
    if (!is_coordinate(key))
        return set_named_text(hints, key, value, err);
    if (!str_to_f64(str_trim(value), &n))
        return err_set(err, ERR_INVALID, "hint %.*s must be a number, got '%.*s'", STR_ARG(key),
                       STR_ARG(str_slice(value, 0, 40)));
    return set_coordinate(hints, key, n, err);
}

static int read_member(struct hints *hints, struct str key, const struct json_t *value,
                       struct err *err)
{
    double n;
    struct str text;
    if (json_kind(value) == JSON_KIND_NULL)
        return 0;
    if (is_coordinate(key) && json_to_f64(value, &n))
        return set_coordinate(hints, key, n, err);
    if (json_to_str(value, &text))
        return hints_set(hints, key, text, err); /* numbers as text are common in headers */
    return err_set(err, ERR_INVALID, "hint '%.*s' must be %s", STR_ARG(str_slice(key, 0, 40)),
                   is_coordinate(key) ? "a number" : "a string");
}

int hints_read(const struct json_t *object, struct hints *hints, struct err *err)
{
    struct hints read = *hints;
    void *iter = NULL;
    struct str key;
    struct json_t *value;
    if (json_kind(object) != JSON_KIND_OBJECT)
        return err_set(err, ERR_INVALID, "hints must be an object");
    while (json_next((struct json_t *)object, &iter, &key, &value))
        if (read_member(&read, key, value, err) < 0)
            return -1;
    *hints = read;
    return 0;
}

static void put_coordinate(struct json_out *out, const char *key, bool has, double n)
{
    json_key(out, key);
    if (has)
        json_put_f64(out, n);
    else
        json_put_null(out);
}

void hints_put_json(const struct hints *hints, struct json_out *out)
{
    json_begin_object(out);
    put_coordinate(out, "latitude", hints->has_latitude, hints->latitude);
    put_coordinate(out, "longitude", hints->has_longitude, hints->longitude);
    json_key(out, "city"), json_put_cstr(out, hints->city[0] == '\0' ? NULL : hints->city);
    json_key(out, "country"), json_put_cstr(out, hints->country[0] == '\0' ? NULL : hints->country);
    json_end_object(out);
}

void hints_put_warnings(const struct hints *hints, bool are_used, struct json_out *out)
{
    const struct {
        const char *name;
        bool is_there;
    } parts[] = {
        {"latitude", hints->has_latitude},
        {"longitude", hints->has_longitude},
        {"city", hints->city[0] != '\0'},
        {"country", hints->country[0] != '\0'},
    };
    AUTO_BUF struct buf missing = {0}, warning = {0};
    size_t count = 0;
    for (size_t i = 0; i < countof(parts); i++)
        if (!parts[i].is_there)
            buf_printf(&missing, "%s%s", count++ > 0 ? ", " : "", parts[i].name);
    if (count == countof(parts))
        buf_put_cstr(&warning, "no location hints were given; api.getWeather needs coordinates");
    else if (count > 0)
        buf_printf(&warning, "location hints are incomplete: %s missing%s", buf_cstr(&missing),
                   hints_has_place(hints) ? "" : "; api.getWeather needs coordinates");
    json_begin_array(out);
    if (are_used && warning.len > 0)
        json_put_str(out, buf_str(&warning));
    json_end_array(out);
}
