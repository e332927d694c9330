/* The policy language: what it takes, its one canonical form, and what it says to mistakes. */

#include "test.h"

#include "base/buf.h"
#include "egress/policy/policy.h"

static void check_put(const char *text, const char *expected)
{
    struct err err = {0};
    AUTO_POLICY struct policy *policy = NULL, *again = NULL;
    AUTO_BUF struct buf out = {0}, second = {0};
    CHECK_OK(policy_parse(str_of(text), POLICY_BY_OPERATOR, &policy, &err));
    policy_put(policy, &out);
    CHECK_CSTR(buf_cstr(&out), expected);
    CHECK_OK(policy_parse(buf_str(&out), POLICY_BY_OPERATOR, &again, &err));
    policy_put(again, &second);
    CHECK_CSTR(buf_cstr(&second), expected);
}

TEST(policies_have_one_canonical_form)
{
    check_put("", "none");
    check_put("none", "none");
    check_put(" public ", "public");
    check_put("public;deny X.GitHub.com.", "public; deny x.github.com");
    check_put("deny a.test; allow  b.test ,*.C.test:443|80", "allow b.test, *.c.test:443|80; "
                                                             "deny a.test");
    check_put("allow a.test; allow b.test;", "allow a.test, b.test");
    check_put("allow a.test GET|HEAD /v1/  /v2", "allow a.test GET|HEAD /v1/ /v2");
    check_put("allow a.test /v1/", "allow a.test /v1/");
    check_put("allow *", "allow *");
    check_put("allow *:8443, *.com", "allow *:8443, *.com");
    check_put("allow [2001:DB8:0::1]:443", "allow [2001:db8::1]:443");
    check_put("private db=10.0.0.5:5432", "private db=10.0.0.5:5432");
    check_put("private db=[fd00::1]:5432", "private db=[fd00::1]:5432");
    check_put("deny a.test:22", "none; deny a.test:22");
}

TEST(json_says_the_same)
{
    check_put("{}", "none");
    check_put("{\"mode\":\"public\",\"deny\":[\"a.test\"]}", "public; deny a.test");
    check_put("{\"allow\":[\"a.test:443 GET /x\",{\"host\":\"*.b.test\",\"ports\":[443,\"8443\"],"
              "\"methods\":[\"GET\",\"PUT\"],\"paths\":[\"/v1/\"]}]}",
              "allow a.test:443 GET /x, *.b.test:443|8443 GET|PUT /v1/");
    check_put("{\"mode\":\"list\",\"allow\":[\"db\"],\"private\":[{\"host\":\"db\","
              "\"address\":\"fd00::1\",\"port\":5432},\"c=10.0.0.1:1\"]}",
              "allow db; private db=[fd00::1]:5432, c=10.0.0.1:1");
}

static void check_bad(const char *text, enum err_code code, const char *part)
{
    struct err err = {0};
    AUTO_POLICY struct policy *policy = NULL;
    CHECK_ERR(policy_parse(str_of(text), POLICY_BY_USER, &policy, &err), code);
    CHECK(policy == NULL);
    CHECK_MSG(part);
}

TEST(mistakes_are_named)
{
    check_bad("api.example.com", ERR_INVALID, "begin with none, public, allow");
    check_bad("allow", ERR_INVALID, "a host must follow");
    check_bad("allow a.test,", ERR_INVALID, "an entry is empty");
    check_bad("allow a.test:0", ERR_INVALID, "'0': a port must be a number");
    check_bad("allow a.test:80,443", ERR_INVALID, "host '443'");
    check_bad("allow a.test:80-90", ERR_INVALID, "'80-90': a port must be a number");
    check_bad("allow a.test get", ERR_INVALID, "'get': a method is a word in capitals");
    check_bad("allow a.test /x GET", ERR_INVALID, "after the host, then the paths");
    check_bad("allow a.test /x/../y", ERR_INVALID, "a segment that begins with '.'");
    check_bad("allow a.test /x%20", ERR_INVALID, "blanks, percent signs");
    check_bad("allow https://a.test/", ERR_INVALID,
              "'https://a.test/' is a URL; write only its host: a.test");
    check_bad("allow http://a.test:8080/v1", ERR_INVALID, "write only its host: a.test:8080");
    check_bad("allow *.10.0.0.1", ERR_INVALID, "not an address");
    check_bad("allow a.*.test", ERR_INVALID, "only letters");
    check_bad("allow *a.test", ERR_INVALID, "only letters");
    check_bad("allow 127.1", ERR_INVALID, "four plain decimal numbers");
    check_bad("deny a.test GET", ERR_INVALID, "a deny entry cannot have methods");
    check_bad("public extra", ERR_INVALID, "only ';' may follow");
    check_bad("public; none", ERR_INVALID, "given twice");
    check_bad("public; allow a.test", ERR_INVALID, "drop 'allow'");
    check_bad("none; allow a.test", ERR_INVALID, "cannot be combined with");
    check_bad("allow a\x01.test", ERR_INVALID, "control character");
    check_bad("{\"allow\":{}}", ERR_INVALID, "must be an array");
    check_bad("{\"allow\":[{}]}", ERR_INVALID, "an object with a host");
    check_bad("{\"allow\":[{\"host\":\"a\",\"port\":1}]}", ERR_INVALID, "'port'");
    check_bad("{\"allow\":[{\"host\":\"a\",\"prots\":[1]}]}", ERR_INVALID, "unknown key");
    check_bad("{\"alow\":[]}", ERR_INVALID, "'alow': unknown key");
    check_bad("{\"mode\":\"open\"}", ERR_INVALID, "the mode must be none, list or public");
    check_bad("{\"allow\":[7]}", ERR_INVALID, "an object with a host");
    check_bad("{", ERR_INVALID, "JSON, line 1");
}

TEST(some_words_are_the_operators)
{
    check_bad("allow *", ERR_FORBIDDEN, "only in the operator's");
    check_bad("allow *.com", ERR_FORBIDDEN, "only in the operator's");
    check_bad("private db=10.0.0.1:1", ERR_FORBIDDEN, "only in the operator's");
    check_bad("{\"private\":[\"db=10.0.0.1:1\"]}", ERR_FORBIDDEN, "only in the operator's");
}

TEST(policies_have_a_size)
{
    AUTO_BUF struct buf text = {0};
    buf_put_cstr(&text, "allow a.test");
    for (int i = 0; i < POLICY_RULES_MAX; i++)
        buf_printf(&text, ",h%d.test", i);
    check_bad(buf_cstr(&text), ERR_TOO_LARGE, "more than 256");
    while (text.len <= POLICY_TEXT_MAX)
        buf_put_char(&text, ' ');
    check_bad(buf_cstr(&text), ERR_TOO_LARGE, "more than 65536 bytes");
    check_bad("allow a.test:1|2|3|4|5|6|7|8|9", ERR_INVALID, "more than 8 ports");
}
