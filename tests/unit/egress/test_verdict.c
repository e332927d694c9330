/* The table of URLs and the verdict that each must get, on every channel. NET-03, NET-04, NET-05
 * and NET-08 of the threat model, by name; what needs servers is in test_gate.c. */

#include "test.h"

#include "base/buf.h"
#include "egress/policy/verdict.h"

static const char policy_text[] =
    "allow ok.test, *.sub.test:443|8443, api.test GET|HEAD /v1/ /status, 93.184.216.34, "
    "[2606:2800:220:1:248:1893:25c8:1946], 127.0.0.1, [::1], 10.0.0.1, 169.254.169.254, "
    "[fd00:ec2::254], 0.0.0.0, [::], [::ffff:127.0.0.1], [::ffff:93.184.216.34], "
    "[2002:7f00:1::], [64:ff9b::10.0.0.1], 100.64.0.1, 172.16.0.1, 192.168.0.1, 198.18.0.1, "
    "224.0.0.1, 240.0.0.1, 255.255.255.255, [fe80::1], [fc00::1], [ff02::1], [2001:db8::1], "
    "[2001:0:5db8:d822:0:0:80ff:fffe], xn--bcher-kva.test; deny bad.sub.test, ok.test:8080";

#define A VERDICT_ALLOWED
#define HOST VERDICT_HOST
#define BAD VERDICT_URL_INVALID
#define SCHEME VERDICT_SCHEME
#define ADDRESS VERDICT_ADDRESS
#define PORT VERDICT_PORT

struct row {
    struct str url;
    enum verdict_reason reason;
};
#define ROW(text, reason)                                                                          \
    {                                                                                              \
        STR(text), reason                                                                          \
    }

static const struct row table[] = {
    /* NET-03: one host in many spellings, and hosts that only look like it. */
    ROW("http://ok.test/", A),
    ROW("https://ok.test/", A),
    ROW("https://ok.test", A),
    ROW("HTTPS://OK.TEST/", A),
    ROW("https://Ok.TeSt:443/x?y=z#f", A),
    ROW("https://ok.test./", A),
    ROW("http://ok.test:80/", A),
    ROW("https://ok.test/@evil.test", A),
    ROW("https://ok.test/?u=http://evil.test/", A),
    ROW("https://ok.test/a:b@c", A),
    ROW("https://ok.test/%00", A),
    ROW("https://ok.test\0.evil.test/", BAD),
    ROW("https://evil.test\0.ok.test/", BAD),
    ROW("https://ok.test.evil.test/", HOST),
    ROW("https://evilok.test/", HOST),
    ROW("https://evil.test/", HOST),
    ROW("https://x.ok.test/", HOST),
    ROW("https://test/", HOST),
    ROW("https://ok.test../", BAD),
    ROW("https://.ok.test/", BAD),
    ROW("https://ok..test/", BAD),
    ROW("https://[ok.test]/", BAD),
    ROW("https://ok.test%00/", BAD),
    ROW("https://ok%2etest/", BAD),
    ROW("https://ok%252etest/", BAD),
    ROW("https://user@ok.test@evil.test/", BAD),
    ROW("https://user@ok.test/", BAD),
    ROW("https://user:pass@ok.test/", BAD),
    ROW("https://@ok.test/", BAD),
    ROW("https://:@ok.test/", BAD),
    ROW("https://ok.test:443@evil.test/", BAD),
    ROW("https://evil.test:443@ok.test/", BAD),
    ROW("https://ok.test#@evil.test/", BAD),
    ROW("https://ok.test?@evil.test/", BAD),
    ROW("https://ok.test;@evil.test/", BAD),
    ROW("https://evil.test#ok.test", BAD),
    ROW("https://evil.test/#ok.test", HOST),
    ROW("https://ok.test\\@evil.test/", BAD),
    ROW("https://evil.test\\@ok.test/", BAD),
    ROW("https:\\\\ok.test/", BAD),
    ROW("https://ok.test\\/", BAD),
    ROW("https://ok.test\r\nHost: evil.test/", BAD),
    ROW("https://ok.test/ HTTP/1.1\r\nHost: evil.test", BAD),
    ROW("https://ok.test/a b", BAD),
    ROW("https://ok.test/a\tb", BAD),
    ROW("https://ok.test /", BAD),
    ROW("https://\tok.test/", BAD),
    ROW(" https://ok.test/", BAD),
    ROW("https://ok.test/\n", BAD),
    ROW("https://ok.test/\x7f", BAD),
    ROW("https://\xd0\xbek.test/", BAD),     /* Cyrillic o */
    ROW("https://ok\xe3\x80\x82test/", BAD), /* ideographic full stop */
    ROW("https://ok\xef\xbc\x8etest/", BAD), /* full-width dot */
    ROW("https://ok.te\xc2\xadst/", BAD),    /* soft hyphen */
    ROW("https://\xef\xbd\x8f\xef\xbd\x8b.test/", BAD),
    ROW("https://xn--bcher-kva.test/", A),
    ROW("https://XN--BCHER-KVA.test/", A),
    ROW("https://xn--k-jmb.test/", HOST), /* the look-alike as an A-label */
    ROW("https://xn--.test/", BAD),
    ROW("https://xn--ok-.test/", BAD),
    ROW("https://xn--ok.test/", BAD),
    ROW("https://xn--a-ecp.test/", BAD),
    ROW("https://ab--cd.test/", BAD),
    ROW("https:///", BAD),
    ROW("https://", BAD),
    ROW("https:///ok.test/", BAD),
    ROW("https:/ok.test/", BAD),
    ROW("https:ok.test/", BAD),
    ROW("//ok.test/", BAD),
    ROW("ok.test", BAD),
    ROW("/x", BAD),
    ROW("", BAD),
    ROW("https://-ok.test/", BAD),
    ROW("https://ok-.test/", BAD),
    ROW("https://ok.test,evil.test/", BAD),
    ROW("https://ok.test&evil.test/", BAD),
    ROW("https://ok.test*/", BAD),
    ROW("https://*.sub.test/", BAD),
    ROW("https://ok.test`x`/", BAD),
    ROW("https://localhost/", HOST),

    /* NET-04: numbers that some resolver takes for 127.0.0.1, though all of it is allowed by name.
     */
    ROW("http://2130706433/", BAD),
    ROW("http://0x7f000001/", BAD),
    ROW("http://0X7F000001/", BAD),
    ROW("http://017700000001/", BAD),
    ROW("http://0177.0.0.1/", BAD),
    ROW("http://127.1/", BAD),
    ROW("http://127.0.1/", BAD),
    ROW("http://127.0.0.1./", BAD),
    ROW("http://127.0.0.01/", BAD),
    ROW("http://127.0.0.0x1/", BAD),
    ROW("http://127.0.0.1.0/", BAD),
    ROW("http://256.0.0.1/", BAD),
    ROW("http://1.2.3.4.5/", BAD),
    ROW("http://ok.test.1/", BAD),
    ROW("http://0/", BAD),
    ROW("http://0x/", BAD),
    ROW("http://127.0.0.1/", ADDRESS),
    ROW("http://0.0.0.0/", ADDRESS),
    ROW("http://[::]/", ADDRESS),
    ROW("http://[::1]/", ADDRESS),
    ROW("http://[0:0:0:0:0:0:0:1]/", ADDRESS),
    ROW("http://[::ffff:127.0.0.1]/", ADDRESS),
    ROW("http://[::ffff:7f00:1]/", ADDRESS),
    ROW("http://[::1%lo]/", BAD),
    ROW("http://[::1%25lo]/", BAD),
    ROW("http://[::1/", BAD),
    ROW("http://::1/", BAD),
    ROW("http://[::1]x/", BAD),
    ROW("http://[127.0.0.1]/", BAD),
    ROW("http://[]/", BAD),
    ROW("http://[[::1]]/", BAD),
    ROW("http://[::ffff:127.0.0.01]/", BAD),
    ROW("http://[1:2:3:4:5:6:7:8:9]/", BAD),
    ROW("http://[v1.x]/", BAD),

    /* NET-05: literals that are not public, though the policy names them. */
    ROW("http://169.254.169.254/latest/meta-data/", ADDRESS),
    ROW("http://[fd00:ec2::254]/", ADDRESS),
    ROW("http://10.0.0.1/", ADDRESS),
    ROW("http://100.64.0.1/", ADDRESS),
    ROW("http://172.16.0.1/", ADDRESS),
    ROW("http://192.168.0.1/", ADDRESS),
    ROW("http://198.18.0.1/", ADDRESS),
    ROW("http://224.0.0.1/", ADDRESS),
    ROW("http://240.0.0.1/", ADDRESS),
    ROW("http://255.255.255.255/", ADDRESS),
    ROW("http://[fe80::1]/", ADDRESS),
    ROW("http://[fc00::1]/", ADDRESS),
    ROW("http://[ff02::1]/", ADDRESS),
    ROW("http://[2001:db8::1]/", ADDRESS),
    ROW("http://[2002:7f00:1::]/", ADDRESS),
    ROW("http://[64:ff9b::a00:1]/", ADDRESS),
    ROW("http://[2001:0:5db8:d822::80ff:fffe]/", ADDRESS),
    ROW("http://93.184.216.34/", A),
    ROW("http://[2606:2800:220:1:248:1893:25C8:1946]/", A),
    ROW("http://[::ffff:5db8:d822]/", A),
    ROW("http://93.184.216.35/", HOST),

    /* NET-08: schemes and ports. */
    ROW("file:///etc/passwd", SCHEME),
    ROW("ftp://ok.test/", SCHEME),
    ROW("gopher://ok.test/", SCHEME),
    ROW("dict://ok.test/", SCHEME),
    ROW("data:text/plain,x", SCHEME),
    ROW("unix:///run/x.sock", SCHEME),
    ROW("ldap://ok.test/", SCHEME),
    ROW("jar:http://ok.test/!/", SCHEME),
    ROW("javascript:alert(1)", SCHEME),
    ROW("ws://ok.test/", SCHEME),
    ROW("httpss://ok.test/", SCHEME),
    ROW("http+unix://ok.test/", SCHEME),
    ROW("https://ok.test:22/", PORT),
    ROW("https://ok.test:25/", PORT),
    ROW("https://ok.test:6379/", PORT),
    ROW("https://ok.test:0/", BAD),
    ROW("https://ok.test:65536/", BAD),
    ROW("https://ok.test:-1/", BAD),
    ROW("https://ok.test:443x/", BAD),
    ROW("https://ok.test:+443/", BAD),
    ROW("https://ok.test:0443/", BAD),
    ROW("https://ok.test:/", BAD),
    ROW("https://ok.test:443:443/", BAD),
    ROW("https://ok.test:99999999999999999999/", BAD),
    ROW("https://ok.test:8080/", VERDICT_HOST_DENIED),

    /* Wildcards, denials, methods and paths. */
    ROW("https://a.sub.test/", A),
    ROW("https://a.b.sub.test:8443/", A),
    ROW("https://sub.test/", HOST),
    ROW("https://asub.test/", HOST),
    ROW("http://a.sub.test/", PORT),
    ROW("https://bad.sub.test/", VERDICT_HOST_DENIED),
    ROW("https://BAD.sub.test.:8443/", VERDICT_HOST_DENIED),
    ROW("https://x.bad.sub.test/", A),
    ROW("https://api.test/v1/x", A),
    ROW("https://api.test/v1/?q=/../..", A),
    ROW("https://api.test/status", A),
    ROW("https://api.test/status/x", A),
    ROW("https://api.test/statusx", VERDICT_PATH),
    ROW("https://api.test/v1", VERDICT_PATH),
    ROW("https://api.test/", VERDICT_PATH),
    ROW("https://api.test/V1/", VERDICT_PATH),
    ROW("https://api.test/v1/../admin", VERDICT_PATH_AMBIGUOUS),
    ROW("https://api.test/v1/%2e%2E/admin", VERDICT_PATH_AMBIGUOUS),
    ROW("https://api.test/v1/..", VERDICT_PATH_AMBIGUOUS),
    ROW("https://api.test/v1/..%2fadmin", VERDICT_PATH_AMBIGUOUS),
    ROW("https://api.test/v1/..;/admin", VERDICT_PATH_AMBIGUOUS),
    ROW("https://api.test//v1/", VERDICT_PATH_AMBIGUOUS),
};

static struct policy *parse(const char *text)
{
    struct err err = {0};
    struct policy *policy = NULL;
    CHECK_OK(policy_parse(str_of(text), POLICY_BY_OPERATOR, &policy, &err));
    return policy;
}

static void check_url(const struct policy *policy, struct str url, enum verdict_reason expected)
{
    struct url parts;
    struct verdict verdict = verdict_judge_url(policy, STR("GET"), url, &parts);
    if (verdict.reason != expected)
        print_error("%.*s: %s instead of %s: %s\n", STR_ARG(url),
                    verdict_reason_name(verdict.reason), verdict_reason_name(expected),
                    verdict.text);
    CHECK(verdict.reason == expected);
    CHECK(verdict.text[0] != '\0' && strpbrk(verdict.text, "\r\n") == NULL);
}

TEST(verdict_of_every_url_in_the_table)
{
    AUTO_POLICY struct policy *policy = parse(policy_text);
    CHECK(countof(table) >= 150);
    for (size_t i = 0; i < countof(table); i++)
        check_url(policy, table[i].url, table[i].reason);
}

TEST(verdict_of_long_hosts)
{
    AUTO_POLICY struct policy *policy = parse("public");
    AUTO_BUF struct buf url = {0};
    buf_put_cstr(&url, "https://");
    for (int i = 0; i < 300; i++)
        buf_put_char(&url, 'a');
    buf_put_cstr(&url, "/");
    check_url(policy, buf_str(&url), BAD);
    buf_clear(&url);
    buf_put_cstr(&url, "https://");
    for (int i = 0; i < 60; i++)
        buf_put_cstr(&url, "abc.");
    check_url(policy, buf_str(&url), A);
    for (int i = 0; i < 10; i++)
        buf_put_cstr(&url, "abc.");
    check_url(policy, buf_str(&url), BAD);
}

TEST(no_policy_allows_nothing)
{
    AUTO_POLICY struct policy *none = parse("none");
    struct url parts;
    for (size_t i = 0; i < countof(table); i++) {
        struct verdict with_none = verdict_judge_url(none, STR("GET"), table[i].url, &parts);
        struct verdict without = verdict_judge_url(NULL, STR("GET"), table[i].url, &parts);
        CHECK(!verdict_is_allowed(&with_none) && !verdict_is_allowed(&without));
    }
    check_url(none, STR("https://ok.test/"), VERDICT_POLICY_NONE);
}

TEST(public_is_every_public_address_and_no_other)
{
    AUTO_POLICY struct policy *policy = parse("public; deny evil.test, *.evil.test");
    check_url(policy, STR("https://anything.example/"), A);
    check_url(policy, STR("http://93.184.216.34:8080/"), A);
    check_url(policy, STR("https://evil.test/"), VERDICT_HOST_DENIED);
    check_url(policy, STR("https://a.evil.test/"), VERDICT_HOST_DENIED);
    check_url(policy, STR("http://127.0.0.1/"), ADDRESS);
    check_url(policy, STR("http://[::ffff:10.0.0.1]/"), ADDRESS);
}

TEST(methods_are_exact)
{
    AUTO_POLICY struct policy *policy = parse(policy_text);
    struct url parts;
    struct verdict verdict =
        verdict_judge_url(policy, STR("POST"), STR("https://api.test/v1/"), &parts);
    CHECK_INT(verdict.reason, VERDICT_METHOD);
    verdict = verdict_judge_url(policy, STR("get"), STR("https://api.test/v1/"), &parts);
    CHECK_INT(verdict.reason, VERDICT_METHOD);
    verdict = verdict_judge_url(policy, STR("HEAD"), STR("https://api.test/v1/"), &parts);
    CHECK_INT(verdict.reason, VERDICT_ALLOWED);
}

static enum verdict_reason judge(const struct policy *policy, const char *scheme, const char *name,
                                 uint16_t port, const char *addresses)
{
    struct err err = {0};
    struct host host;
    struct ip ips[8], own;
    size_t count = 0;
    CHECK_OK(host_parse(str_of(name), &host, &err));
    CHECK(ip_parse(STR("198.41.0.4"), &own));
    struct str rest = str_of(addresses), word;
    while (str_split(&rest, ' ', &word))
        if (word.len > 0)
            CHECK(ip_parse(word, &ips[count++]));
    struct verdict_request request = {
        .scheme = scheme,
        .host = &host,
        .port = port,
        .method = STR("GET"),
        .path = STR("/"),
        .is_resolved = true,
        .addresses = ips,
        .address_count = count,
        .own = &own,
        .own_count = 1,
    };
    return verdict_judge(policy, &request).reason;
}

TEST(every_address_of_a_name_must_be_public)
{
    AUTO_POLICY struct policy *policy = parse("allow ok.test");
    static const char *const closed[] = {
        "169.254.169.254", "fd00:ec2::254", "10.1.2.3",        "172.16.0.1",   "172.31.255.255",
        "192.168.1.1",     "100.64.0.1",    "100.127.255.255", "127.0.0.1",    "127.255.255.255",
        "0.0.0.0",         "0.1.2.3",       "198.18.0.1",      "198.19.0.1",   "224.0.0.1",
        "239.1.1.1",       "240.0.0.1",     "255.255.255.255", "192.0.2.1",    "198.51.100.1",
        "203.0.113.1",     "192.0.0.8",     "fe80::1",         "febf::1",      "fec0::1",
        "fc00::1",         "fdff::1",       "ff02::1",         "::",           "::1",
        "::7f00:1",        "::ffff:a00:1",  "64:ff9b::a00:1",  "64:ff9b:1::1", "2002:a00:1::",
        "2001:db8::1",     "2001:2::1",     "2001:10::1",      "100::1",       "4000::1",
        "3fff::1",         "198.41.0.4", /* this machine's own, as the test says */
        "168.63.129.16",   "192.88.99.1",
    };
    for (size_t i = 0; i < countof(closed); i++) {
        AUTO_BUF struct buf both = {0};
        buf_printf(&both, "93.184.216.34 %s", closed[i]);
        if (judge(policy, "https", "ok.test", 443, closed[i]) != ADDRESS ||
            judge(policy, "https", "ok.test", 443, buf_cstr(&both)) != ADDRESS)
            fail_msg("%s counts as public", closed[i]);
    }
    CHECK_INT(judge(policy, "https", "ok.test", 443, "93.184.216.34 2606:2800::1"), A);
    CHECK_INT(judge(policy, "https", "ok.test", 443, "172.32.0.1 100.128.0.1 11.0.0.1"), A);
    CHECK_INT(judge(policy, "https", "ok.test", 443, "2002:5db8:d822:: 2003::1"), A);
    CHECK_INT(judge(policy, "https", "ok.test", 443, ""), VERDICT_NOT_RESOLVED);
}

TEST(an_operators_entry_opens_exactly_one_private_place)
{
    AUTO_POLICY struct policy *policy =
        parse("allow ok.test; private db.test=10.0.0.5:5432, ok.test=127.0.0.1:443");
    CHECK_INT(judge(policy, "tcp", "db.test", 5432, "10.0.0.5"), A);
    CHECK_INT(judge(policy, "tcp", "db.test", 5432, "10.0.0.6"), ADDRESS);
    CHECK_INT(judge(policy, "tcp", "db.test", 5432, "10.0.0.5 10.0.0.6"), ADDRESS);
    /* The entry names this address and no public one. */
    CHECK_INT(judge(policy, "tcp", "db.test", 5432, "93.184.216.34"), ADDRESS);
    CHECK_INT(judge(policy, "tcp", "db.test", 443, "10.0.0.5"), HOST);
    CHECK_INT(judge(policy, "tcp", "x.test", 5432, "10.0.0.5"), HOST);
    CHECK_INT(judge(policy, "https", "ok.test", 443, "127.0.0.1"), A);
    CHECK_INT(judge(policy, "https", "ok.test", 443, "127.0.0.1 93.184.216.34"), A);
    CHECK_INT(judge(policy, "http", "ok.test", 80, "127.0.0.1"), ADDRESS);
    CHECK_INT(judge(policy, "https", "ok.test", 443, "127.0.0.2"), ADDRESS);
}

TEST(a_tunnel_is_judged_only_by_host_and_port)
{
    AUTO_POLICY struct policy *policy = parse("allow ok.test, api.test GET /v1/; deny no.test");
    CHECK_INT(judge(policy, "tcp", "ok.test", 443, "93.184.216.34"), A);
    CHECK_INT(judge(policy, "tcp", "ok.test", 22, "93.184.216.34"), PORT);
    CHECK_INT(judge(policy, "tcp", "api.test", 443, "93.184.216.34"), VERDICT_NOT_INSPECTED);
    CHECK_INT(judge(policy, "udp", "ok.test", 443, "93.184.216.34"), SCHEME);
    CHECK_INT(judge(policy, "tcp", "ok.test", 0, "93.184.216.34"), PORT);
}

TEST(a_refusal_names_no_internal_address)
{
    AUTO_POLICY struct policy *policy = parse("allow ok.test");
    struct err err = {0};
    struct host host;
    struct ip ip;
    CHECK_OK(host_parse(STR("ok.test"), &host, &err));
    CHECK(ip_parse(STR("10.11.12.13"), &ip));
    struct verdict_request request = {.scheme = "https",
                                      .host = &host,
                                      .port = 443,
                                      .is_resolved = true,
                                      .addresses = &ip,
                                      .address_count = 1};
    struct verdict verdict = verdict_judge(policy, &request);
    CHECK_CSTR(verdict.text, "blocked ok.test:443: it leads to an address that is not public "
                             "(egress.private of config.toml can allow it)");
}

static void check_join(const char *base, const char *location, const char *expected)
{
    struct err err = {0};
    struct url url;
    AUTO_BUF struct buf out = {0};
    CHECK_OK(url_parse(str_of(base), &url, &err));
    CHECK_OK(url_join(&url, str_of(location), &out, &err));
    CHECK_CSTR(buf_cstr(&out), expected);
}

TEST(locations_are_joined_as_rfc_3986_says)
{
    check_join("https://a.test/b/c/d?q", "g", "https://a.test/b/c/g");
    check_join("https://a.test/b/c/d?q", "./g", "https://a.test/b/c/g");
    check_join("https://a.test/b/c/d?q", "g/", "https://a.test/b/c/g/");
    check_join("https://a.test/b/c/d?q", "/g", "https://a.test/g");
    check_join("https://a.test/b/c/d?q", "//g", "https://g");
    check_join("https://a.test/b/c/d?q", "?y", "https://a.test/b/c/d?y");
    check_join("https://a.test/b/c/d?q", "g?y", "https://a.test/b/c/g?y");
    check_join("https://a.test/b/c/d?q", "g#s", "https://a.test/b/c/g");
    check_join("https://a.test/b/c/d?q", "", "https://a.test/b/c/d?q");
    check_join("https://a.test/b/c/d?q", ".", "https://a.test/b/c/");
    check_join("https://a.test/b/c/d?q", "..", "https://a.test/b/");
    check_join("https://a.test/b/c/d?q", "../g", "https://a.test/b/g");
    check_join("https://a.test/b/c/d?q", "../../g", "https://a.test/g");
    check_join("https://a.test/b/c/d?q", "../../../g", "https://a.test/g");
    check_join("https://a.test/b/c/d?q", "/../g", "https://a.test/g");
    check_join("https://a.test/b/c/d?q", "..g", "https://a.test/b/c/..g");
    check_join("https://a.test/b/c/d?q", "./../g", "https://a.test/b/g");
    check_join("https://a.test/b/c/d?q", "g;x=1/../y", "https://a.test/b/c/y");
    check_join("https://a.test/b/c/d?q", "http://b.test/x", "http://b.test/x");
    check_join("https://a.test:8443", "x", "https://a.test:8443/x");
}
