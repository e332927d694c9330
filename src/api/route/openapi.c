#include "api/route/openapi.h"

#include "api/route/route.h"
#include "api/route/shapes.h"
#include "base/err.h"
#include "base/format/json.h"

static const char *const any_methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};

void openapi_put_path(const char *pattern, struct buf *out)
{
    for (const char *c = pattern; *c != '\0'; c++) {
        if (c[0] == '.' && str_starts(str_of(c), STR("...}")))
            c += 3;
        buf_put_char(out, *c);
    }
}

static void openapi_put_text(struct json_out *out, const char *key, const char *text)
{
    json_key(out, key), json_put_cstr(out, text);
}

static void put_parsed(struct json_out *out, const char *text)
{
    struct err err;
    AUTO_JSON struct json_t *value = NULL;
    int parsed = json_parse(str_of(text), &value, &err);
    assert(parsed == 0); /* ours: a test walks them all */
    json_put_value(out, value);
}

static void put_ref(struct json_out *out, const char *where, const char *name)
{
    char text[128];
    (void)snprintf(text, sizeof text, "#/components/%s/%s", where, name);
    json_begin_object(out);
    openapi_put_text(out, "$ref", text);
    json_end_object(out);
}

static void put_schema(struct json_out *out, const char *schema)
{
    json_key(out, "schema");
    if (schema == NULL)
        json_begin_object(out), json_end_object(out);
    else if (schema[0] == '{')
        put_parsed(out, schema);
    else
        put_ref(out, "schemas", schema);
}

static void put_content(struct json_out *out, const char *type, const char *schema)
{
    json_key(out, type);
    json_begin_object(out);
    put_schema(out, schema);
    json_end_object(out);
}

/* ---- one operation ------------------------------------------------------------------------- */

/* "postSandboxesIdPause" */
static void put_operation_id(struct json_out *out, const char *method, const char *pattern)
{
    AUTO_BUF struct buf id = {0};
    bool upper = false;
    for (const char *c = method; *c != '\0'; c++)
        buf_put_char(&id, (char)(*c | 0x20));
    struct str rest = str_of(pattern);
    if (str_starts(rest, STR("/v1/")))
        rest = str_slice(rest, 4, rest.len);
    upper = true;
    for (size_t i = 0; i < rest.len; i++) {
        char c = rest.ptr[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool is_digit = char_is_digit(c);
        if (is_letter || is_digit)
            buf_put_char(&id, upper && c >= 'a' && c <= 'z' ? (char)(c - 32) : c);
        upper = !is_letter && !is_digit;
    }
    json_key(out, "operationId"), json_put_str(out, buf_str(&id));
}

static void put_parameter(struct json_out *out, const char *name, const char *where,
                          const char *schema, const char *help)
{
    json_begin_object(out);
    openapi_put_text(out, "name", name);
    openapi_put_text(out, "in", where);
    if (strcmp(where, "path") == 0)
        json_key(out, "required"), json_put_bool(out, true);
    if (help != NULL)
        openapi_put_text(out, "description", help);
    put_schema(out, schema);
    json_end_object(out);
}

static void put_path_parameters(struct json_out *out, const char *pattern)
{
    struct str rest = str_of(pattern), segment;
    while (str_split(&rest, '/', &segment)) {
        if (!str_starts(segment, STR("{")))
            continue;
        char name[64];
        size_t end = str_ends(segment, STR("...}")) ? segment.len - 4 : segment.len - 1;
        (void)snprintf(name, sizeof name, "%.*s", STR_ARG(str_slice(segment, 1, end)));
        bool is_port = strcmp(name, "port") == 0;
        put_parameter(out, name, "path",
                      is_port ? JSON({"type" : "integer", "minimum" : 1, "maximum" : 65535})
                              : JSON({"type" : "string"}),
                      NULL);
    }
}

static void put_parameters(struct json_out *out, const struct route *row)
{
    json_key(out, "parameters");
    json_begin_array(out);
    put_path_parameters(out, row->pattern);
    for (const struct route_query *query = row->query; query != NULL && query->name != NULL;
         query++)
        put_parameter(out, query->name, "query", query->schema, query->help);
    if (row->is_create)
        put_parameter(out, "Idempotency-Key", "header",
                      JSON({"type" : "string", "maxLength" : 255}),
                      "Repeating a request with the same key does not create a second object");
    if (row->gives == FORM_EVENTS)
        put_parameter(out, "Last-Event-ID", "header", JSON({"type" : "string"}),
                      "Resume after this event: the id of the last event received");
    json_end_array(out);
}

static void put_request_body(struct json_out *out, const struct route *row)
{
    bool is_bytes = row->takes == FORM_BYTES;
    if (row->request == NULL && !is_bytes)
        return;
    json_key(out, "requestBody");
    json_begin_object(out);
    bool required = is_bytes || json_get(row->schema, "required") != NULL;
    json_key(out, "required"), json_put_bool(out, required);
    json_key(out, "content");
    json_begin_object(out);
    if (is_bytes)
        put_content(out, "application/octet-stream", NULL);
    else
        put_content(out, "application/json", row->request);
    json_end_object(out);
    json_end_object(out);
}

static void put_success(struct json_out *out, const struct route *row)
{
    char status[8];
    bool is_socket = row->gives == FORM_SOCKET;
    (void)snprintf(status, sizeof status, "%d",
                   is_socket ? 101 : (row->status == 0 ? 200 : row->status));
    json_key(out, status);
    json_begin_object(out);
    openapi_put_text(out, "description", is_socket ? "A WebSocket" : row->summary);
    bool has_body = row->gives != FORM_NONE && !is_socket && row->gives != FORM_PROXY;
    if (has_body) {
        json_key(out, "content");
        json_begin_object(out);
        if (row->gives == FORM_JSON || row->gives == FORM_EITHER)
            put_content(out, "application/json", row->response);
        if (row->gives == FORM_TEXT)
            put_content(out, "text/plain", JSON({"type" : "string"}));
        if (row->gives == FORM_BYTES)
            put_content(out, "application/octet-stream", NULL);
        if (row->gives == FORM_EVENTS || row->gives == FORM_EITHER) {
            put_content(out, "text/event-stream", JSON({"type" : "string"}));
            put_content(out, "application/x-ndjson", "Event");
        }
        json_end_object(out);
    }
    json_end_object(out);
}

/* What any request with a token may meet, and what a body may. */
static uint64_t all_errors(const struct route *row)
{
    uint64_t errors = row->errors | E(INVALID) | E(MISDIRECTED) | E(FORBIDDEN) | E(INTERNAL);
    if (row->scope != SCOPE_OPEN)
        errors |= E(UNAUTHORIZED) | E(LIMIT) | E(UNAVAILABLE);
    if (row->request != NULL)
        errors |= E(MEDIA_TYPE) | E(TOO_LARGE);
    return errors;
}

static void put_errors(struct json_out *out, const struct route *row)
{
    uint64_t errors = all_errors(row);
    for (int status = 400; status < 600; status++) {
        AUTO_BUF struct buf codes = {0};
        for (enum err_code code = 0; code < ERR_COUNT; code++)
            if ((errors & (UINT64_C(1) << code)) != 0 && err_http_status(code) == status)
                buf_printf(&codes, "%s`%s`", codes.len > 0 ? " or " : "", err_wire_name(code));
        if (codes.len == 0)
            continue;
        char text[8];
        (void)snprintf(text, sizeof text, "%d", status);
        json_key(out, text);
        json_begin_object(out);
        json_key(out, "description"), json_put_str(out, buf_str(&codes));
        json_key(out, "content");
        json_begin_object(out);
        put_content(out, "application/json", "Error");
        json_end_object(out);
        json_end_object(out);
    }
}

static void put_operation(struct json_out *out, const struct route *row, const char *method)
{
    char key[16];
    (void)snprintf(key, sizeof key, "%s", method);
    for (char *c = key; *c != '\0'; c++)
        *c = (char)(*c | 0x20);
    json_key(out, key);
    json_begin_object(out);
    put_operation_id(out, method, row->pattern);
    openapi_put_text(out, "summary", row->summary);
    if (row->details != NULL)
        openapi_put_text(out, "description", row->details);
    json_key(out, "tags");
    json_begin_array(out), json_put_cstr(out, row->noun), json_end_array(out);
    if (row->scope == SCOPE_OPEN) {
        json_key(out, "security");
        json_begin_array(out), json_end_array(out);
    } else {
        openapi_put_text(out, "x-scope", scope_name(row->scope));
    }
    put_parameters(out, row);
    put_request_body(out, row);
    json_key(out, "responses");
    json_begin_object(out);
    put_success(out, row);
    put_errors(out, row);
    json_end_object(out);
    json_end_object(out);
}

/* ---- the document -------------------------------------------------------------------------- */

static bool is_first_of_path(const struct route *routes, const struct route *row)
{
    for (const struct route *other = routes; other < row; other++)
        if (strcmp(other->pattern, row->pattern) == 0)
            return false;
    return true;
}

static void put_paths(struct json_out *out, const struct route *routes)
{
    json_key(out, "paths");
    json_begin_object(out);
    for (const struct route *row = routes; row->pattern != NULL; row++) {
        if (!is_first_of_path(routes, row))
            continue;
        AUTO_BUF struct buf path = {0};
        openapi_put_path(row->pattern, &path);
        json_key_str(out, buf_str(&path));
        json_begin_object(out);
        for (const struct route *same = row; same->pattern != NULL; same++) {
            if (strcmp(same->pattern, row->pattern) != 0)
                continue;
            bool any = strcmp(same->method, "*") == 0;
            for (size_t i = 0; i < (any ? countof(any_methods) : 1); i++)
                put_operation(out, same, any ? any_methods[i] : same->method);
        }
        json_end_object(out);
    }
    json_end_object(out);
}

static void put_components(struct json_out *out)
{
    json_key(out, "components");
    json_begin_object(out);
    json_key(out, "securitySchemes");
    put_parsed(out, JSON({"token" : {"type" : "http", "scheme" : "bearer"}}));
    json_key(out, "schemas");
    json_begin_object(out);
    for (const struct shape *shape = api_shapes; shape->name != NULL; shape++)
        json_key(out, shape->name), put_parsed(out, shape->schema);
    json_end_object(out);
    json_end_object(out);
}

void openapi_put(const struct route *routes, struct buf *out)
{
    struct json_out json = {.buf = out};
    json_begin_object(&json);
    openapi_put_text(&json, "openapi", "3.1.0");
    json_key(&json, "info");
    json_begin_object(&json);
    openapi_put_text(&json, "title", "sandglass");
    openapi_put_text(&json, "version", SG_VERSION);
    openapi_put_text(
        &json, "description",
        "A self-hosted code sandbox. Every error response has the schema Error, with a code "
        "from one table.");
    json_key(&json, "license");
    put_parsed(&json, JSON({"name" : "MIT", "identifier" : "MIT"}));
    json_end_object(&json);
    json_key(&json, "servers");
    put_parsed(&json, JSON([ {"url" : "/"} ]));
    json_key(&json, "security");
    put_parsed(&json, JSON([ {"token" : []} ]));
    put_paths(&json, routes);
    put_components(&json);
    json_end_object(&json);
    buf_put_char(out, '\n');
}
