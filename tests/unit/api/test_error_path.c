#include "api/http/error_path.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/format/json.h"
#include "base/format/schema.h"
#include "test.h"

#define SCHEMA                                                                                     \
    "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"name\"],\"properties\":{" \
    "\"name\":{\"type\":\"string\",\"minLength\":1},"                                              \
    "\"key\":{\"type\":\"object\",\"writeOnly\":true,\"additionalProperties\":false,"              \
    "\"properties\":{\"value\":{\"type\":\"string\"}}},"                                           \
    "\"labels\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}},"             \
    "\"list\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"additionalProperties\":false,"  \
    "\"required\":[\"id\"],\"properties\":{\"id\":{\"type\":\"integer\"}}}},"                      \
    "\"sandbox\":{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"             \
    "\"env\":{\"type\":\"object\"},\"limits\":{\"type\":\"object\","                               \
    "\"additionalProperties\":false,\"properties\":{\"pids\":{\"type\":\"integer\"}}}}}}}"

static struct json_t *parsed(const char *text)
{
    struct err err = {0};
    struct json_t *value = NULL;
    CHECK_OK(json_parse(str_of(text), &value, &err));
    return value;
}

/* The words are the schema's own: they and what reads them are held together here. */
static void check_schema(const char *body, const char *path)
{
    AUTO_ARENA struct arena arena = {0};
    AUTO_JSON struct json_t *schema = parsed(SCHEMA), *value = parsed(body);
    struct err err = {0};
    CHECK_ERR(schema_check(schema, value, "", &err), ERR_INVALID);
    CHECK_STR(error_path_of_schema(&arena, err.msg), path);
}

TEST(a_refused_body_names_its_member)
{
    check_schema("{\"name\":\"a\",\"nmae\":1}", "nmae");
    check_schema("{\"name\":\"a\",\"sandbox\":{\"evn\":1}}", "sandbox.evn");
    check_schema("{\"name\":\"a\",\"sandbox\":{\"limits\":{\"pdis\":1}}}", "sandbox.limits.pdis");
    check_schema("{\"name\":\"a\",\"sandbox\":{\"limits\":{\"pids\":\"x\"}}}",
                 "sandbox.limits.pids");
    check_schema("{\"name\":\"a\",\"list\":[{\"id\":1},{\"idd\":1}]}", "list[1].idd");
    check_schema("{\"name\":\"a\",\"list\":[{}]}", "list[0].id");
    check_schema("{\"name\":\"\"}", "name");
    check_schema("{}", "name");
    check_schema("{\"name\":\"a\",\"labels\":{\"two words\":1}}", "labels.two words");
    check_schema("{\"name\":\"a\",\"a \\\"quoted\\\" one\":1}", "a \"quoted\" one");
    check_schema("{\"name\":\"a\",\"key\":{\"my secret\":1}}",
                 "key"); /* its name is not repeated */
    check_schema("[]", "");
    check_schema("7", "");
}

static void check_member(const char *message, const char *path)
{
    AUTO_ARENA struct arena arena = {0};
    AUTO_JSON struct json_t *schema = parsed(SCHEMA);
    CHECK_STR(error_path_of_member(&arena, schema, message), path);
    CHECK_INT((int)error_path_of_member(&arena, NULL, message).len, 0);
}

TEST(an_error_of_the_engine_names_its_member)
{
    check_member("name: holds a NUL", "name");
    check_member("list[3].id: taken", "list[3].id");
    check_member("env: '=' is not a valid variable name", "sandbox.env");
    check_member("limits.pids: must be between 8 and 1024", "sandbox.limits.pids");
    check_member("no sandbox 'x'", "");
    check_member("name", "");
    check_member("nobody: there", "");
    check_member("name of it: long", "");
    check_member(": x", "");
}
