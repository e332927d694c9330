/* The public toml-test suite (tests/toml-test): every valid document must give exactly the tagged
 * JSON beside it, every invalid one must be refused with line and column. */

#include "test.h"

#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/format/json.h"
#include "base/format/toml.h"

enum { VALID_CASES = 210, INVALID_CASES = 499 };

static int case_count, failure_count;

static void fail_case(const char *path, const char *why)
{
    print_error("%s: %s\n", path + sizeof TOML_TEST_DIR, why);
    failure_count++;
}

static void read_file(const char *path, struct buf *buf)
{
    struct err err = {0};
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    CHECK_OK(buf_read_all(buf, fd, &err));
}

/* jansson's keys cannot hold a NUL. On both sides it is written as U+F8F0, which no case uses. */
static void replace_nul_escapes(struct buf *json)
{
    for (size_t i = 0; i + 6 <= json->len; i++) {
        if (json->ptr[i] != '\\')
            continue;
        if (memcmp(json->ptr + i, "\\u0000", 6) == 0)
            memcpy(json->ptr + i, "\\uF8F0", 6);
        i++; /* an escaped backslash is no beginning */
    }
}

static struct str replace_nuls(struct arena *arena, struct str s)
{
    AUTO_BUF struct buf out = {0};
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '\0')
            buf_put_cstr(&out, "\xef\xa3\xb0");
        else
            buf_put_char(&out, s.ptr[i]);
    }
    return arena_dup(arena, buf_str(&out));
}

static const char *type_name(enum toml_kind kind)
{
    static const char *const names[] = {"string",   "integer",        "float",      "bool",
                                        "datetime", "datetime-local", "date-local", "time-local",
                                        "array",    "table"};
    return names[kind];
}

static bool float_matches(double real, struct str expected)
{
    double n;
    if (str_ends(expected, STR("nan")))
        return isnan(real);
    if (str_ends(expected, STR("inf")))
        return isinf(real) && (real < 0) == str_starts(expected, STR("-"));
    return str_to_f64(expected, &n) && n == real && signbit(n) == signbit(real);
}

/* A time in one way of writing: fraction without trailing zeros, Z for no offset. */
static struct str time_text(struct arena *arena, const struct toml_value *value)
{
    const struct toml_time *t = &value->time;
    AUTO_BUF struct buf out = {0};
    if (value->kind != TOML_LOCAL_TIME)
        buf_printf(&out, "%04d-%02d-%02d", t->year, t->month, t->day);
    if (value->kind == TOML_DATETIME || value->kind == TOML_LOCAL_DATETIME)
        buf_put_char(&out, 'T');
    if (value->kind != TOML_LOCAL_DATE) {
        buf_printf(&out, "%02d:%02d:%02d.%09d", t->hour, t->minute, t->second, t->nanosecond);
        while (out.ptr[out.len - 1] == '0')
            out.len--;
        if (out.ptr[out.len - 1] == '.')
            out.len--;
    }
    if (value->kind == TOML_DATETIME && t->offset_minutes == 0)
        buf_put_char(&out, 'Z');
    else if (value->kind == TOML_DATETIME)
        buf_printf(&out, "%c%02d:%02d", t->offset_minutes < 0 ? '-' : '+',
                   abs(t->offset_minutes) / 60, abs(t->offset_minutes) % 60);
    return arena_dup(arena, buf_str(&out));
}

/* The expected text in that same writing. */
static struct str normal_time(struct arena *arena, struct str text)
{
    size_t point = str_find_char(text, '.');
    if (point == text.len)
        return text;
    size_t end = point + 1;
    while (end < text.len && text.ptr[end] >= '0' && text.ptr[end] <= '9')
        end++;
    size_t cut = MIN(end, point + 10);
    while (text.ptr[cut - 1] == '0')
        cut--;
    if (cut == point + 1)
        cut = point;
    return arena_printf(arena, "%.*s%.*s", STR_ARG(str_slice(text, 0, cut)),
                        STR_ARG(str_slice(text, end, text.len)));
}

static bool scalar_matches(struct arena *arena, const struct toml_value *value, struct json_t *json)
{
    struct str type, text;
    int64_t n;
    if (json_len(json) != 2 || !json_to_str(json_get(json, "type"), &type) ||
        !json_to_str(json_get(json, "value"), &text) ||
        !str_eq(type, str_of(type_name(value->kind))))
        return false;
    switch (value->kind) {
    case TOML_STR:
        return str_eq(replace_nuls(arena, value->str), text);
    case TOML_INT:
        return str_to_i64(text, INT64_MIN, INT64_MAX, &n) && n == value->integer;
    case TOML_FLOAT:
        return float_matches(value->real, text);
    case TOML_BOOL:
        return str_eq(text, value->flag ? STR("true") : STR("false"));
    default:
        return str_eq(time_text(arena, value), normal_time(arena, text));
    }
}

static bool matches(struct arena *arena, const struct toml_value *value, struct json_t *json);

static bool table_matches(struct arena *arena, const struct toml_table *table, struct json_t *json)
{
    if (json_kind(json) != JSON_KIND_OBJECT || json_len(json) != table->len)
        return false;
    TOML_EACH (entry, table) {
        struct json_t *expected = json_get(json, replace_nuls(arena, entry->key).ptr);
        if (expected == NULL || !matches(arena, entry->value, expected) ||
            toml_get(table, entry->key) != entry->value)
            return false;
    }
    return true;
}

static bool matches(struct arena *arena, const struct toml_value *value, struct json_t *json)
{
    if (value->place.line < 1 || value->place.column < 1)
        return false;
    if (value->kind == TOML_TABLE)
        return table_matches(arena, value->table, json);
    if (value->kind != TOML_ARRAY)
        return scalar_matches(arena, value, json);
    if (json_kind(json) != JSON_KIND_ARRAY || json_len(json) != value->array->len)
        return false;
    for (size_t i = 0; i < value->array->len; i++)
        if (!matches(arena, value->array->items[i], json_at(json, i)))
            return false;
    return true;
}

static int check_valid(const char *path, UNUSED const struct stat *st, int type)
{
    size_t len = strlen(path);
    if (type != FTW_F || !str_ends(str_of(path), STR(".toml")))
        return 0;
    case_count++;
    struct err err = {0};
    AUTO_ARENA struct arena arena = {0};
    AUTO_BUF struct buf text = {0}, expected = {0};
    read_file(path, &text);
    struct str json_path = arena_printf(&arena, "%.*s.json", (int)(len - 5), path);
    read_file(json_path.ptr, &expected);
    replace_nul_escapes(&expected);
    AUTO_JSON struct json_t *json = NULL;
    CHECK_OK(json_parse(buf_str(&expected), &json, &err));

    struct toml_table *table = NULL;
    if (toml_parse(buf_str(&text), &arena, &table, &err) < 0)
        fail_case(path, err.msg);
    else if (!table_matches(&arena, table, json))
        fail_case(path, "another value than the JSON says");
    return 0;
}

static int check_invalid(const char *path, UNUSED const struct stat *st, int type)
{
    if (type != FTW_F || !str_ends(str_of(path), STR(".toml")))
        return 0;
    case_count++;
    struct err err = {0};
    AUTO_ARENA struct arena arena = {0};
    AUTO_BUF struct buf text = {0};
    read_file(path, &text);
    struct toml_table *table = NULL;
    int line, column, read = 0;
    if (toml_parse(buf_str(&text), &arena, &table, &err) == 0)
        fail_case(path, "accepted");
    else if (err.code != ERR_INVALID || table != NULL || !str_is_utf8(str_of(err.msg)) ||
             sscanf(err.msg, "line %d, column %d: %n", &line, &column, &read) != 2 || read == 0)
        fail_case(path, err.msg);
    return 0;
}

/* Walks all of them before it fails, so that the list is complete. */
static void run_cases(const char *dir, __ftw_func_t check, int expected)
{
    case_count = failure_count = 0;
    CHECK_INT(ftw(dir, check, 16), 0);
    print_message("# %d of %d cases right\n", case_count - failure_count, expected);
    CHECK_INT(case_count, expected);
    CHECK_INT(failure_count, 0);
}

TEST(toml_suite_valid)
{
    run_cases(TOML_TEST_DIR "/valid", check_valid, VALID_CASES);
}

TEST(toml_suite_invalid)
{
    run_cases(TOML_TEST_DIR "/invalid", check_invalid, INVALID_CASES);
}
