/* Schemas that are checked, and the sentences about values that do not fit. */

#include "base/format/schema.h"

#include "base/buf.h"
#include "base/format/base64.h"
#include "base/format/json.h"
#include "test.h"

static void check(const char *schema_text, const char *value_text, const char *complaint)
{
    struct err err = {0};
    AUTO_JSON struct json_t *schema = NULL, *value = NULL;
    CHECK_OK(json_parse(str_of(schema_text), &schema, &err));
    CHECK_OK(json_parse(str_of(value_text), &value, &err));
    CHECK_OK(schema_check_schema(schema, &err));
    int result = schema_check(schema, value, "v", &err);
    if (complaint == NULL) {
        CHECK_OK(result);
    } else {
        CHECK_INT(result, -1);
        CHECK_CSTR(err.msg, complaint);
    }
}

static const char object[] =
    "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"a\"],\"properties\":{"
    "\"a\":{\"type\":\"number\",\"minimum\":-90,\"maximum\":90},"
    "\"list\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":2,\"items\":{\"type\":\"string\","
    "\"maxLength\":3}},\"word\":{\"type\":\"string\",\"enum\":[\"x\",\"y\"]}}}";

TEST(values_that_fit)
{
    check("{\"type\":\"null\"}", "null", NULL);
    check("{\"type\":\"boolean\"}", "true", NULL);
    check("{\"type\":\"integer\"}", "3", NULL);
    check("{\"type\":\"integer\"}", "3.0", NULL);
    check("{\"type\":\"number\"}", "3", NULL);
    check("{\"type\":\"string\",\"maxLength\":2}", "\"\xc3\xa9\xc3\xa9\"", NULL);
    check("{\"type\":\"object\"}", "{\"any\":[1]}", NULL);
    check("{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}", "{\"h\":\"v\"}",
          NULL);
    check(object, "{\"a\":-90,\"list\":[\"abc\"],\"word\":\"y\"}", NULL);
}

TEST(values_that_do_not_fit_are_named)
{
    check("{\"type\":\"integer\"}", "3.5", "v must be an integer, got 3.5");
    check("{\"type\":\"integer\"}", "1e300", "v must be an integer, got 1e+300");
    check("{\"type\":\"integer\",\"maximum\":9}", "10.0",
          "v must be an integer of at most 9, got 10");
    check("{\"type\":\"number\",\"minimum\":1}", "0", "v must be a number of at least 1, got 0");
    check("{\"type\":\"number\",\"maximum\":1.5}", "2", "v must be a number of at most 1.5, got 2");
    check("{\"type\":\"string\"}", "null", "v must be a string, got null");
    check("{\"type\":\"null\"}", "\"a\\nb\"", "v must be null, got \"a\\nb\"");
    check("{\"type\":\"boolean\"}", "[1]", "v must be a boolean, got an array");
    check("{\"type\":\"string\",\"maxLength\":2}", "\"abc\"",
          "v must have at most 2 characters, got 3");
    check("{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}", "{\"h\":1}",
          "v.h must be a string, got 1");
    check(object, "{\"a\":123}", "v.a must be a number from -90 to 90, got 123");
    check(object, "{\"a\":\"1\"}", "v.a must be a number from -90 to 90, got \"1\"");
    check(object, "{}", "v.a is missing; it must be a number from -90 to 90");
    check(object, "{\"a\":1,\"wrd\":1}", "v: unknown property \"wrd\"; did you mean 'word'?");
    check(object, "{\"a\":1,\"quite_else\":1}", "v: unknown property \"quite_else\"");
    static const char command[] = "{\"type\":\"object\",\"additionalProperties\":false,"
                                  "\"properties\":{\"command\":{\"type\":\"string\"},\"cwd\":{"
                                  "\"type\":\"string\"},\"metadata\":{\"type\":\"object\"}}}";
    check(command, "{\"cmd\":1}", "v: unknown property \"cmd\"; did you mean 'command'?");
    check(command, "{\"labels\":1}", "v: unknown property \"labels\"; did you mean 'metadata'?");
    check(command, "{\"args\":1}", "v: unknown property \"args\""); /* no argv there */
    check(object, "{\"a\":1,\"word\":\"z\"}", "v.word must be one of \"x\", \"y\", got \"z\"");
    check(object, "{\"a\":1,\"list\":[]}", "v.list must have at least 1 items, got 0");
    check(object, "{\"a\":1,\"list\":[\"a\",\"b\",\"c\"]}",
          "v.list must have at most 2 items, got 3");
    check(object, "{\"a\":1,\"list\":[\"a\",5]}", "v.list[1] must be a string, got 5");
    check(object, "[]", "v must be an object, got an array");
}

static void check_bad_schema(const char *text, const char *part)
{
    struct err err = {0};
    AUTO_JSON struct json_t *schema = NULL;
    CHECK_OK(json_parse(str_of(text), &schema, &err));
    CHECK_ERR(schema_check_schema(schema, &err), ERR_INVALID);
    CHECK_MSG(part);
}

TEST(what_is_not_checked_is_no_schema)
{
    check_bad_schema("{\"type\":\"string\",\"pattern\":\"a\"}", "unsupported keyword 'pattern'");
    check_bad_schema("{\"type\":\"string\",\"$ref\":\"a\"}", "'$ref'");
    check_bad_schema("{\"type\":\"text\"}", "'type' is not supported");
    check_bad_schema("{}", "'type' is missing");
    check_bad_schema("true", "must be an object");
    check_bad_schema("{\"type\":\"string\",\"maxLength\":-1}", "'maxLength'");
    check_bad_schema("{\"type\":\"string\",\"enum\":[]}", "'enum'");
    check_bad_schema("{\"type\":\"object\",\"properties\":{\"a\":{}}}", "'type' is missing");
    check_bad_schema("{\"type\":\"array\",\"items\":[]}", "must be an object");
}

TEST(base64_is_that_of_the_rfc)
{
    static const char *const rows[][2] = {
        {"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
        {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < countof(rows); i++) {
        AUTO_BUF struct buf out = {0};
        base64_put(str_of(rows[i][0]), &out);
        CHECK_CSTR(buf_cstr(&out), rows[i][1]);
    }
    AUTO_BUF struct buf out = {0};
    base64_put(STR("\xff\xfe\0"), &out);
    CHECK_CSTR(buf_cstr(&out), "//4A");
}
