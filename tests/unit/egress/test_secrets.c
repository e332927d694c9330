#include "test.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crypto/secret.h"
#include "base/format/base64.h"
#include "egress/keys/secrets.h"

static const char value[] = "cnry_0123456789abcdef0123456789abcdef";

static struct host host_of(const char *text)
{
    struct err err = {0};
    struct host host;
    CHECK_OK(host_parse(str_of(text), &host, &err));
    return host;
}

static void parse(const char *text, struct secret_rule *rule)
{
    struct err err = {0};
    CHECK_OK(secret_rule_parse(str_of(text), rule, &err));
}

static struct secrets *secrets_with(const char *rule_text, const char *text)
{
    struct err err = {0};
    struct secret_rule rule;
    struct secrets *secrets = secrets_new();
    parse(rule_text, &rule);
    CHECK_OK(secrets_add(secrets, &rule, str_of(text), &err));
    return secrets;
}

TEST(rule_text_names_hosts_ports_and_headers)
{
    struct secret_rule rule;
    parse("KEY=env:MY_KEY@api.example.com", &rule);
    CHECK_CSTR(rule.name, "KEY");
    CHECK_CSTR(rule.from, "env:MY_KEY");
    CHECK_INT(rule.place_count, 1);
    CHECK_CSTR(rule.places[0].host.text, "api.example.com");
    CHECK_INT(rule.places[0].port, 443);
    CHECK_INT(rule.header_count, 0);

    parse("K=file:/run/a@b/key@A.Example.com.:8443,[2001:db8::1]:444,10.0.0.5#X-Key,Authorization",
          &rule);
    CHECK_CSTR(rule.from, "file:/run/a@b/key");
    CHECK_INT(rule.place_count, 3);
    CHECK_CSTR(rule.places[0].host.text, "a.example.com");
    CHECK_INT(rule.places[0].port, 8443);
    CHECK_CSTR(rule.places[1].host.text, "[2001:db8::1]");
    CHECK_INT(rule.places[1].port, 444);
    CHECK_INT(rule.places[2].port, 443);
    CHECK_INT(rule.header_count, 2);
    CHECK_CSTR(rule.headers[0], "x-key");
}

TEST(rule_text_that_is_wrong_is_refused_without_repeating_it)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"KEY", "NAME=env:VARIABLE@HOST"},
        {"=env:K@h.test", "name"},
        {"K-Y=env:K@h.test", "name"},
        {"KEY=sk-live-1234567890@h.test", "env:VARIABLE or file:/PATH"},
        {"KEY=env:@h.test", "env:VARIABLE"},
        {"KEY=env:A B@h.test", "env:VARIABLE"},
        {"KEY=file:@h.test", "file:/PATH"},
        {"KEY=env:K", "the host that it may be sent to is missing"},
        {"KEY=env:K@", "the host that it may be sent to is missing"},
        {"KEY=env:K@#X-Key", "the host that it may be sent to is missing"},
        {"KEY=env:K@*.example.com", "hosts must be exact"},
        {"KEY=env:K@h.test:0", "port"},
        {"KEY=env:K@h.test:70000", "port"},
        {"KEY=env:K@2130706433", "host"},
        {"KEY=env:K@a.test,,b.test", "empty"},
        {"KEY=env:K@h.test#Host", "may not carry a key"},
        {"KEY=env:K@h.test#X Key", "header"},
        {"KEY=env:K@h.test#User-Agent", "may not carry a key"},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct err err = {0};
        struct secret_rule rule;
        CHECK_ERR(secret_rule_parse(str_of(rows[i].text), &rule, &err), ERR_INVALID);
        CHECK_MSG(rows[i].says);
        CHECK(strstr(err.msg, "sk-live") == NULL);
    }
}

TEST(values_that_could_not_be_sent_or_found_are_refused)
{
    static const char *const bad[] = {"",
                                      "short",
                                      "two\nlines-here",
                                      "caf\xc3\xa9-caf\xc3\xa9",
                                      " begins-blank",
                                      "nul\tinside-it"};
    struct secret_rule rule;
    parse("KEY=env:K@h.test", &rule);
    AUTO_SECRETS struct secrets *secrets = secrets_new();
    for (size_t i = 0; i < countof(bad); i++) {
        struct err err = {0};
        CHECK_ERR(secrets_add(secrets, &rule, str_of(bad[i]), &err), ERR_INVALID);
        CHECK(bad[i][0] == '\0' || strstr(err.msg, bad[i]) == NULL);
    }
    struct err err = {0};
    CHECK_OK(secrets_add(secrets, &rule, STR("line-end-is-cut\r\n"), &err));
    CHECK_STR(secret_reveal(secrets_at(secrets, 0)->value), "line-end-is-cut");
    CHECK_ERR(secrets_add(secrets, &rule, str_of(value), &err), ERR_INVALID);
    CHECK_MSG("twice");
}

TEST(a_variable_is_taken_out_of_the_environment)
{
    struct err err = {0};
    struct secret_rule rule;
    parse("KEY=env:SG_TEST_KEY@h.test", &rule);
    AUTO_SECRETS struct secrets *secrets = secrets_new();
    CHECK_ERR(secrets_load(secrets, &rule, &err), ERR_NOT_FOUND);
    CHECK_MSG("SG_TEST_KEY");
    (void)setenv("SG_TEST_KEY", value, 1);
    const char *place = getenv("SG_TEST_KEY");
    CHECK_OK(secrets_load(secrets, &rule, &err));
    CHECK(getenv("SG_TEST_KEY") == NULL);
    CHECK_INT(place[0], 0);
    CHECK_STR(secret_reveal(secrets_at(secrets, 0)->value), value);
}

TEST(a_file_gives_the_value)
{
    struct err err = {0};
    struct secret_rule rule = {0};
    AUTO_BUF struct buf from = {0};
    test_write(test_tmpdir(), "key", "from-a-file-0001\n");
    buf_printf(&from, "KEY=file:%s/key@h.test", test_tmpdir());
    parse(buf_cstr(&from), &rule);
    AUTO_SECRETS struct secrets *secrets = secrets_new();
    CHECK_OK(secrets_load(secrets, &rule, &err));
    CHECK_STR(secret_reveal(secrets_at(secrets, 0)->value), "from-a-file-0001");
    parse("OTHER=file:/nonexistent/key@h.test", &rule);
    CHECK_ERR(secrets_load(secrets, &rule, &err), ERR_NOT_FOUND);
    parse("OTHER=file:/dev/null@h.test", &rule);
    CHECK_ERR(secrets_load(secrets, &rule, &err), ERR_INVALID);
}

TEST(a_placeholder_is_of_one_set_of_secrets)
{
    AUTO_SECRETS struct secrets *a = secrets_with("KEY=env:K@h.test", value);
    AUTO_SECRETS struct secrets *b = secrets_with("KEY=env:K@h.test", value);
    char old[PLACEHOLDER_SIZE];
    (void)snprintf(old, sizeof old, "%s", secrets_at(a, 0)->placeholder);
    CHECK(placeholder_is_shaped(str_of(old)));
    CHECK(strcmp(old, secrets_at(b, 0)->placeholder) != 0);

    AUTO_BUF struct buf out = {.wipes = true};
    struct host host = host_of("h.test");
    CHECK(!placeholder_replace(a, &host, 443, STR("X-Api-Key"),
                               str_of(secrets_at(b, 0)->placeholder), &out));
    CHECK(placeholder_replace(a, &host, 443, STR("X-Api-Key"), str_of(old), &out));
    CHECK_STR(buf_str(&out), value);
}

TEST(a_secret_without_a_value_is_named_where_it_would_be_sent)
{
    struct err err = {0};
    struct secret_rule rule;
    parse("KEY=env:K@h.test", &rule);
    AUTO_SECRETS struct secrets *secrets = secrets_new(), *copy = NULL;
    CHECK_OK(secrets_add_missing(secrets, &rule, &err));
    CHECK_ERR(secrets_add(secrets, &rule, str_of(value), &err), ERR_INVALID);
    AUTO_SECRET struct secret *packed = NULL;
    CHECK_OK(secrets_pack(secrets, &packed, &err));
    CHECK_OK(secrets_unpack(secret_reveal(packed), &copy, &err));
    CHECK(secrets_at(copy, 0)->value == NULL);

    AUTO_BUF struct buf out = {.wipes = true}, bearer = {0}, basic = {0}, plain = {0};
    struct host host = host_of("h.test"), other = host_of("other.test");
    struct str token = str_of(secrets_at(copy, 0)->placeholder);
    buf_printf(&bearer, "Bearer %.*s", STR_ARG(token));
    buf_printf(&plain, "user:%.*s", STR_ARG(token));
    buf_put_cstr(&basic, "Basic ");
    base64_put(buf_str(&plain), &basic);
    const struct str texts[] = {token, buf_str(&bearer), buf_str(&basic)};
    for (size_t i = 0; i < countof(texts); i++) {
        struct str name = STR("Authorization");
        CHECK_CSTR(placeholder_without_value(copy, &host, 443, name, texts[i]), "KEY");
        CHECK(placeholder_without_value(copy, &other, 443, name, texts[i]) == NULL);
        CHECK(placeholder_without_value(copy, &host, 443, STR("User-Agent"), texts[i]) == NULL);
        CHECK(!placeholder_replace(copy, &host, 443, name, texts[i], &out));
        CHECK_INT(out.len, 0);
    }
}

/* What goes out for a header whose text has PH for the placeholder; "" when it stays as it is. */
static void replaced(const struct secrets *secrets, const char *host_text, int port,
                     const char *name, const char *text, struct buf *out)
{
    AUTO_BUF struct buf full = {0};
    struct str rest = str_of(text);
    size_t at = str_find(rest, STR("PH"));
    struct host host = host_of(host_text);
    buf_put(&full, str_slice(rest, 0, at));
    if (at < rest.len)
        buf_put_cstr(&full, secrets_at(secrets, 0)->placeholder);
    buf_put(&full, str_slice(rest, at + 2, rest.len));
    buf_clear(out);
    bool done =
        placeholder_replace(secrets, &host, (uint16_t)port, str_of(name), buf_str(&full), out);
    CHECK(done == (out->len > 0));
}

/* SEC-02 and SEC-03, as far as a header decides them. */
TEST(only_the_whole_token_in_a_named_header_for_the_bound_host_is_replaced)
{
    static const struct {
        const char *host;
        int port;
        const char *name, *text, *sent;
    } rows[] = {
        {"ok.test", 443, "Authorization", "Bearer PH", "Bearer VALUE"},
        {"ok.test", 443, "authorization", "PH", "VALUE"},
        {"ok.test", 443, "AUTHORIZATION", "token  PH ", "token VALUE"},
        {"ok.test", 443, "X-Api-Key", "PH", "VALUE"},
        {"ok.test", 443, "X-API-KEY", " PH", "VALUE"},
        {"ok2.test", 443, "Authorization", "Bearer PH", ""},
        {"sub.ok.test", 443, "Authorization", "Bearer PH", ""},
        {"ok.test", 8443, "Authorization", "Bearer PH", ""},
        {"ok.test", 80, "Authorization", "Bearer PH", ""},
        {"ok.test", 443, "User-Agent", "PH", ""},
        {"ok.test", 443, "Cookie", "PH", ""},
        {"ok.test", 443, "X-Request-Id", "PH", ""},
        {"ok.test", 443, "Authorization", "Bearer xPH", ""},
        {"ok.test", 443, "Authorization", "Bearer PHx", ""},
        {"ok.test", 443, "Authorization", "Bearer \"PH\"", ""},
        {"ok.test", 443, "Authorization", "Bearer PH, PH", ""},
        {"ok.test", 443, "Authorization", "Bearer a PH", ""},
        {"ok.test", 443, "Authorization", "", ""},
        {"ok.test", 443, "Authorization", "Bearer sgs_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", ""},
    };
    AUTO_SECRETS struct secrets *secrets = secrets_with("KEY=env:K@ok.test", value);
    AUTO_BUF struct buf out = {.wipes = true}, expected = {0};
    for (size_t i = 0; i < countof(rows); i++) {
        replaced(secrets, rows[i].host, rows[i].port, rows[i].name, rows[i].text, &out);
        struct str sent = str_of(rows[i].sent);
        size_t at = str_find(sent, STR("VALUE"));
        buf_clear(&expected);
        buf_put(&expected, str_slice(sent, 0, at));
        buf_put_cstr(&expected, at < sent.len ? value : "");
        CHECK_STR(buf_str(&out), buf_cstr(&expected));
    }
}

static void basic_of(const char *user, const char *password, struct buf *out)
{
    AUTO_BUF struct buf plain = {0};
    buf_printf(&plain, "%s:%s", user, password);
    buf_clear(out);
    buf_put_cstr(out, "Basic ");
    base64_put(buf_str(&plain), out);
}

TEST(basic_credentials_hold_a_placeholder_too)
{
    AUTO_SECRETS struct secrets *secrets = secrets_with("KEY=env:K@ok.test", value);
    const char *token = secrets_at(secrets, 0)->placeholder;
    struct host host = host_of("ok.test");
    AUTO_BUF struct buf in = {0}, out = {.wipes = true}, expected = {0};

    basic_of("x-access-token", token, &in);
    basic_of("x-access-token", value, &expected);
    CHECK(placeholder_replace(secrets, &host, 443, STR("Authorization"), buf_str(&in), &out));
    CHECK_STR(buf_str(&out), buf_cstr(&expected));

    buf_clear(&out);
    basic_of(token, "", &in);
    basic_of(value, "", &expected);
    CHECK(placeholder_replace(secrets, &host, 443, STR("Authorization"), buf_str(&in), &out));
    CHECK_STR(buf_str(&out), buf_cstr(&expected));

    static const char *const no[] = {
        "Basic", "Basic ", "Basic !!!!", "Basic YQ==", "Basic YTo", "Basic =", "Basic ===="};
    buf_clear(&out);
    for (size_t i = 0; i < countof(no); i++)
        CHECK(!placeholder_replace(secrets, &host, 443, STR("Authorization"), str_of(no[i]), &out));
    AUTO_BUF struct buf longer = {0};
    buf_printf(&longer, "%sx", token);
    basic_of("u", buf_cstr(&longer), &in);
    CHECK(!placeholder_replace(secrets, &host, 443, STR("Authorization"), buf_str(&in), &out));
    CHECK_INT(out.len, 0);
}

TEST(secrets_survive_packing_with_their_placeholders)
{
    struct err err = {0};
    struct secret_rule rule;
    AUTO_SECRETS struct secrets *secrets =
        secrets_with("KEY=env:K@ok.test,other.test:8443#X-Key", value);
    parse("TWO=file:/x@[2001:db8::1]", &rule);
    CHECK_OK(secrets_add(secrets, &rule, STR("the second value"), &err));
    AUTO_SECRET struct secret *packed = NULL;
    CHECK_OK(secrets_pack(secrets, &packed, &err));
    AUTO_SECRETS struct secrets *again = NULL;
    CHECK_OK(secrets_unpack(secret_reveal(packed), &again, &err));
    CHECK_INT(secrets_count(again), 2);
    for (size_t i = 0; i < 2; i++) {
        const struct secret_entry *a = secrets_at(secrets, i), *b = secrets_at(again, i);
        CHECK_CSTR(a->rule.name, b->rule.name);
        CHECK_CSTR(a->placeholder, b->placeholder);
        CHECK(str_eq(secret_reveal(a->value), secret_reveal(b->value)));
        CHECK_INT(a->rule.place_count, b->rule.place_count);
        CHECK_CSTR(a->rule.places[0].host.text, b->rule.places[0].host.text);
        CHECK_INT(a->rule.header_count, b->rule.header_count);
        CHECK_CSTR(a->rule.headers[0], b->rule.headers[0]);
    }
    struct host other = host_of("other.test");
    CHECK(secrets_go_to(again, &other, 8443));
    CHECK(!secrets_go_to(again, &other, 443));
    struct str bytes = secret_reveal(packed);
    for (size_t len = 0; len < bytes.len; len++) {
        AUTO_SECRETS struct secrets *cut = NULL;
        CHECK_ERR(secrets_unpack(str_slice(bytes, 0, len), &cut, &err), ERR_INVALID);
    }
}
