/* The table of bridges for people and tools. Parameter types are made from the schemas that are
 * checked, so that a declaration cannot promise what a call refuses. */

#include "base/err.h"
#include "base/format/json.h"
#include "isolate/bridge/bridge_internal.h"

static struct str bridge_doc_text_of(const struct json_t *object, const char *key)
{
    struct str text;
    return json_to_str(json_get(object, key), &text) ? text : STR("");
}

static void put_type(const struct json_t *schema, struct buf *out);

static bool is_required(const struct json_t *schema, struct str name)
{
    const struct json_t *required = json_get(schema, "required");
    struct str item;
    for (size_t i = 0; required != NULL && i < json_len(required); i++)
        if (json_to_str(json_at(required, i), &item) && str_eq(item, name))
            return true;
    return false;
}

static void put_object_type(const struct json_t *schema, struct buf *out)
{
    struct json_t *properties = json_get(schema, "properties");
    const struct json_t *others = json_get(schema, "additionalProperties");
    void *iter = NULL;
    struct str key;
    struct json_t *member;
    const char *between = "{ ";
    while (properties != NULL && json_next(properties, &iter, &key, &member)) {
        buf_printf(out, "%s%.*s%s: ", between, STR_ARG(key), is_required(schema, key) ? "" : "?");
        put_type(member, out);
        between = "; ";
    }
    if (others != NULL && json_kind(others) == JSON_KIND_OBJECT) {
        buf_printf(out, "%s[name: string]: ", between);
        put_type(others, out);
        between = "; ";
    }
    buf_put_cstr(out, between[0] == '{' ? "{}" : " }");
}

static void put_type(const struct json_t *schema, struct buf *out)
{
    struct str type = bridge_doc_text_of(schema, "type");
    const struct json_t *choices = json_get(schema, "enum");
    if (choices != NULL) {
        for (size_t i = 0; i < json_len(choices); i++) {
            struct json_out json = {.buf = out};
            buf_put_cstr(out, i == 0 ? "" : " | ");
            json_put_value(&json, json_at(choices, i));
        }
    } else if (str_eq(type, STR("object"))) {
        put_object_type(schema, out);
    } else if (str_eq(type, STR("array"))) {
        const struct json_t *items = json_get(schema, "items");
        buf_put_cstr(out, "Array<");
        if (items == NULL)
            buf_put_cstr(out, "unknown");
        else
            put_type(items, out);
        buf_put_char(out, '>');
    } else {
        buf_put(out, str_eq(type, STR("integer")) ? STR("number") : type);
    }
}

/* "getWeather(place?: { latitude: number; longitude: number }): Promise<Weather>" */
static void put_signature(const struct bridge_row *row, struct buf *out)
{
    const struct bridge *bridge = row->bridge;
    buf_printf(out, "%s(", bridge->name);
    for (size_t i = 0; i < row->param_count; i++) {
        buf_printf(out, "%s%s%s: ", i > 0 ? ", " : "", bridge->params[i].name,
                   bridge->params[i].is_optional ? "?" : "");
        put_type(row->schemas[i], out);
    }
    buf_printf(out, "): Promise<%s>", bridge->returns);
}

void bridge_put_text(const struct bridge_set *set, struct buf *out)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct bridge_row *row = &set->rows[i];
        buf_printf(out, "%sapi.", i > 0 ? "\n" : "");
        put_signature(row, out);
        buf_printf(out, "\n    %s\n", row->bridge->description);
    }
}

static void put_json_row(const struct bridge_row *row, struct json_out *out)
{
    const struct bridge *bridge = row->bridge;
    AUTO_BUF struct buf signature = {0};
    put_signature(row, &signature);
    json_begin_object(out);
    json_key(out, "name"), json_put_cstr(out, bridge->name);
    json_key(out, "signature"), json_put_str(out, buf_str(&signature));
    json_key(out, "description"), json_put_cstr(out, bridge->description);
    json_key(out, "timeoutMs"), json_put_i64(out, bridge->timeout_ms);
    json_key(out, "parameters");
    json_begin_array(out);
    for (size_t i = 0; i < row->param_count; i++) {
        json_begin_object(out);
        json_key(out, "name"), json_put_cstr(out, bridge->params[i].name);
        json_key(out, "optional"), json_put_bool(out, bridge->params[i].is_optional);
        json_key(out, "schema"), json_put_value(out, row->schemas[i]);
        json_end_object(out);
    }
    json_end_array(out);
    json_key(out, "returns"), json_put_cstr(out, bridge->returns);
    json_key(out, "types"), json_put_cstr(out, bridge->types);
    json_key(out, "example"), json_put_cstr(out, bridge->example);
    json_end_object(out);
}

void bridge_put_json(const struct bridge_set *set, struct buf *out)
{
    struct json_out json = {.buf = out, .pretty = true};
    json_begin_object(&json);
    json_key(&json, "bridges");
    json_begin_array(&json);
    for (size_t i = 0; i < set->count; i++)
        put_json_row(&set->rows[i], &json);
    json_end_array(&json);
    json_end_object(&json);
    buf_put_char(out, '\n');
}

static void put_param_docs(const struct bridge_row *row, struct buf *out)
{
    for (size_t i = 0; i < row->param_count; i++) {
        struct str about = bridge_doc_text_of(row->schemas[i], "description");
        if (about.len > 0)
            buf_printf(out, "     * @param %s %.*s\n", row->bridge->params[i].name, STR_ARG(about));
    }
}

void bridge_put_dts(const struct bridge_set *set, struct buf *out)
{
    buf_put_cstr(out, "// What code in an isolate may call. Made by: sandglass bridges --dts\n\n");
    for (size_t i = 0; i < set->count; i++)
        if (set->rows[i].bridge->types != NULL)
            buf_printf(out, "%s\n\n", set->rows[i].bridge->types);
    buf_put_cstr(out, "declare const api: {\n");
    for (size_t i = 0; i < set->count; i++) {
        const struct bridge_row *row = &set->rows[i];
        buf_printf(out, "    /**\n     * %s\n", row->bridge->description);
        put_param_docs(row, out);
        buf_put_cstr(out, "     */\n    ");
        put_signature(row, out);
        buf_put_cstr(out, ";\n");
    }
    buf_put_cstr(out, "};\n");
}

static void put_member_rows(struct json_t *schema, const char *prefix, struct buf *out)
{
    struct json_t *properties = json_get(schema, "properties");
    void *iter = NULL;
    struct str key;
    struct json_t *member;
    while (properties != NULL && json_next(properties, &iter, &key, &member)) {
        AUTO_BUF struct buf type = {0};
        put_type(member, &type);
        buf_printf(out, "| `%s%.*s` | `", prefix, STR_ARG(key));
        for (size_t i = 0; i < type.len; i++) /* '|' would end the cell */
            buf_printf(out, type.ptr[i] == '|' ? "\\%c" : "%c", type.ptr[i]);
        buf_printf(out, "`%s | %.*s |\n", is_required(schema, key) ? ", required" : "",
                   STR_ARG(bridge_doc_text_of(member, "description")));
    }
}

static void put_docs_row(const struct bridge_row *row, struct buf *out)
{
    const struct bridge *bridge = row->bridge;
    buf_printf(out, "\n## api.%s\n\n```ts\n", bridge->name);
    put_signature(row, out);
    buf_printf(out, "\n```\n\n%s\n\nTime limit: %lld ms, or the remaining time of the run.\n",
               bridge->description, (long long)bridge->timeout_ms);
    if (row->param_count > 0)
        buf_put_cstr(out, "\n| argument | type | meaning |\n|---|---|---|\n");
    for (size_t i = 0; i < row->param_count; i++) {
        char prefix[BRIDGE_NAME_MAX + 2];
        struct str type = bridge_doc_text_of(row->schemas[i], "type");
        (void)snprintf(prefix, sizeof prefix, "%s.", bridge->params[i].name);
        buf_printf(out, "| `%s` | `%.*s`%s | %.*s |\n", bridge->params[i].name, STR_ARG(type),
                   bridge->params[i].is_optional ? "" : ", required",
                   STR_ARG(bridge_doc_text_of(row->schemas[i], "description")));
        put_member_rows(row->schemas[i], prefix, out);
    }
    if (bridge->types != NULL)
        buf_printf(out, "\n```ts\n%s\n```\n", bridge->types);
    if (bridge->example != NULL)
        buf_printf(out, "\n```js\n%s\n```\n", bridge->example);
}

void bridge_put_docs(const struct bridge_set *set, struct buf *out)
{
    buf_put_cstr(
        out,
        "# Bridges\n\n"
        "Functions of the host that code in an isolate may call, as `api.NAME(...)`. "
        "Each returns a promise;\narguments and results are JSON. Arguments are checked before "
        "anything happens: a mistake is a `TypeError` that\nsays what is wrong. "
        "Generated by `sandglass bridges docs`.\n\n"
        "`sandglass bridges` lists them, `--dts` prints TypeScript declarations, `--json` "
        "everything for programs,\nand `sandglass bridges call NAME ARGUMENTS` tries one.\n\n"
        "A bridge is one file and one row: a `struct bridge` (`src/isolate/bridge/bridge.h`) in "
        "`src/runtime/bridge_NAME.c`,\nnamed in `src/runtime/bridges.c`.\n");
    for (size_t i = 0; i < set->count; i++)
        put_docs_row(&set->rows[i], out);
}
