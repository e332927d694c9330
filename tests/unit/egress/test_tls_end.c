#include "test.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/crypto/secret.h"
#include "base/fd.h"
#include "egress/keys/authority.h"
#include "egress/keys/tls_end.h"
#include "net.h"

#include <fcntl.h>

static struct host host_of(const char *text)
{
    struct err err = {0};
    struct host host;
    CHECK_OK(host_parse(str_of(text), &host, &err));
    return host;
}

/* A sandbox's program and the gate's server end, wired to each other. */
struct pair {
    struct authority *authority;
    struct tls_trust *gate, *program; /* the program trusts the authority */
    struct tls_end *server, *client;
};

static void pair_open(struct pair *pair, const char *served, const char *asked)
{
    struct err err = {0};
    AUTO_BUF struct buf pem = {0};
    struct host served_host = host_of(served), asked_host = host_of(asked);
    pair->authority = authority_new(&served_host, 1);
    CHECK_OK(authority_put_bundle(pair->authority, STR(""), &pem, &err));
    CHECK_OK(tls_trust_new(STR(""), &pair->gate, &err));
    CHECK_OK(tls_trust_new(buf_str(&pem), &pair->program, &err));
    CHECK_OK(tls_server_new(pair->gate, pair->authority, &served_host, &pair->server, &err));
    CHECK_OK(tls_client_new(pair->program, &asked_host, &pair->client, &err));
}

static void pair_close(struct pair *pair)
{
    (void)tls_end_free(pair->server);
    (void)tls_end_free(pair->client);
    (void)tls_trust_free(pair->gate);
    (void)tls_trust_free(pair->program);
    (void)authority_free(pair->authority);
}
#define AUTO_PAIR AUTO(pair_close)

/* Carries bytes over, `step` at a time, until none are left. */
static int carry(struct tls_end *from, struct tls_end *to, size_t step, bool *moved,
                 struct err *err)
{
    AUTO_BUF struct buf bytes = {0};
    while (tls_end_drain(from, &bytes, step) > 0) {
        *moved = true;
        if (tls_end_feed(to, buf_str(&bytes), err) < 0)
            return -1;
        buf_clear(&bytes);
    }
    return 0;
}

static int shake_hands(struct pair *pair, size_t step, struct err *err)
{
    for (bool moved = true; moved;) {
        moved = false;
        if (carry(pair->client, pair->server, step, &moved, err) < 0 ||
            carry(pair->server, pair->client, step, &moved, err) < 0)
            return -1;
    }
    return 0;
}

TEST(both_ends_shake_hands_and_pass_bytes)
{
    static const size_t steps[] = {1, 7, 100000};
    for (size_t i = 0; i < countof(steps); i++) {
        struct err err = {0};
        AUTO_PAIR struct pair pair = {0};
        pair_open(&pair, "api.example.com", "api.example.com");
        CHECK(!tls_end_is_ready(pair.server));
        CHECK_OK(shake_hands(&pair, steps[i], &err));
        CHECK(tls_end_is_ready(pair.server) && tls_end_is_ready(pair.client));

        AUTO_BUF struct buf big = {0}, got = {0};
        for (int n = 0; n < 30000; n++)
            buf_printf(&big, "%d,", n);
        CHECK_OK(tls_end_write(pair.client, buf_str(&big), &err));
        CHECK_OK(shake_hands(&pair, steps[i], &err));
        CHECK_OK(tls_end_read(pair.server, &got, 10, &err));
        CHECK_INT(got.len, 10);
        CHECK_OK(tls_end_read(pair.server, &got, SIZE_MAX, &err));
        CHECK(str_eq(buf_str(&got), buf_str(&big)));

        CHECK(!tls_end_is_closed(pair.client));
        tls_end_close(pair.server);
        CHECK_OK(shake_hands(&pair, steps[i], &err));
        buf_clear(&got);
        CHECK_OK(tls_end_read(pair.client, &got, 100, &err));
        CHECK(tls_end_is_closed(pair.client) && got.len == 0);
    }
}

TEST(addresses_are_served_without_a_name)
{
    static const char *const addresses[] = {"10.0.0.5", "[2001:db8::1]"};
    for (size_t i = 0; i < countof(addresses); i++) {
        struct err err = {0};
        AUTO_PAIR struct pair pair = {0};
        pair_open(&pair, addresses[i], addresses[i]);
        CHECK_OK(shake_hands(&pair, 1000, &err));
        CHECK(tls_end_is_ready(pair.client));
    }
}

/* NET-09: the name in the ClientHello is the name that was judged, or nothing goes on. */
TEST(a_client_that_names_another_host_is_refused)
{
    static const char *const names[] = {"evil.test", "sub.ok.test", "10.0.0.5"};
    for (size_t i = 0; i < countof(names); i++) {
        struct err err = {0};
        AUTO_PAIR struct pair pair = {0};
        pair_open(&pair, "ok.test", names[i]);
        CHECK_ERR(shake_hands(&pair, 1000, &err), ERR_FORBIDDEN);
        CHECK_MSG("the connection is for ok.test");
        AUTO_BUF struct buf alert = {0};
        CHECK(tls_end_drain(pair.server, &alert, 100) > 0);
        CHECK_ERR(tls_end_feed(pair.server, STR("x"), &err), ERR_UNAVAILABLE);
    }
}

TEST(what_is_no_tls_is_refused)
{
    struct err err = {0};
    AUTO_PAIR struct pair pair = {0};
    pair_open(&pair, "ok.test", "ok.test");
    CHECK_ERR(tls_end_feed(pair.server, STR("GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n"), &err),
              ERR_UNAVAILABLE);
    CHECK_ERR(tls_end_feed(pair.client, STR("HTTP/1.1 400 Bad Request\r\n\r\n"), &err),
              ERR_UNAVAILABLE);
}

TEST(a_server_that_nobody_vouches_for_is_refused)
{
    struct err err = {0};
    AUTO_PAIR struct pair pair = {0}, other = {0};
    pair_open(&pair, "ok.test", "ok.test");
    pair_open(&other, "ok.test", "ok.test");
    /* The client of one sandbox meets the authority of another. */
    struct pair crossed = {.server = other.server, .client = pair.client};
    CHECK_ERR(shake_hands(&crossed, 1000, &err), ERR_FORBIDDEN);
    CHECK_MSG("certificate of ok.test");

    AUTO_TLS_TRUST struct tls_trust *none = NULL;
    AUTO_TLS_END struct tls_end *client = NULL;
    struct host host = host_of("ok.test");
    CHECK_OK(tls_trust_new(STR(""), &none, &err));
    CHECK_OK(tls_client_new(none, &host, &client, &err));
    AUTO_PAIR struct pair third = {0};
    pair_open(&third, "ok.test", "ok.test");
    struct pair bare = {.server = third.server, .client = client};
    CHECK_ERR(shake_hands(&bare, 1000, &err), ERR_FORBIDDEN);
    CHECK_ERR(tls_trust_new(STR("no certificate"), &none, &err), ERR_INVALID);
}

/* The test's own server certificate, as PEM files: a self-signed one is a root of its own. */
TEST(a_client_checks_the_name_in_the_certificate)
{
    struct err err = {0};
    AUTO_BUF struct buf cert = {0}, key = {0}, pem = {0};
    buf_printf(&cert, "%s/cert.pem", test_tmpdir());
    buf_printf(&key, "%s/key.pem", test_tmpdir());
    net_make_cert("other.test", buf_cstr(&cert), buf_cstr(&key));
    AUTO_CLOSE int fd = open(buf_cstr(&cert), O_RDONLY | O_CLOEXEC);
    CHECK_OK(buf_read_all(&pem, fd, &err));
    AUTO_TLS_TRUST struct tls_trust *tls = NULL;
    CHECK_OK(tls_trust_new(buf_str(&pem), &tls, &err));
    AUTO_TLS_END struct tls_end *client = NULL;
    struct host host = host_of("other.test");
    CHECK_OK(tls_client_new(tls, &host, &client, &err));
    AUTO_BUF struct buf hello = {0};
    CHECK(tls_end_drain(client, &hello, 10000) > 100);
}

TEST(an_authority_vouches_only_for_its_hosts)
{
    struct err err = {0};
    struct host hosts[] = {host_of("ok.test"), host_of("10.0.0.5")};
    AUTO_AUTHORITY struct authority *authority = authority_new(hosts, countof(hosts));
    AUTO_TLS_TRUST struct tls_trust *tls = NULL;
    CHECK_OK(tls_trust_new(STR(""), &tls, &err));
    static const char *const good[] = {"ok.test", "below.ok.test", "10.0.0.5"};
    static const char *const bad[] = {"evil.test", "evilok.test", "10.0.0.6", "[::1]"};
    for (size_t i = 0; i < countof(good); i++) {
        AUTO_TLS_END struct tls_end *end = NULL;
        struct host host = host_of(good[i]);
        CHECK_OK(tls_server_new(tls, authority, &host, &end, &err));
    }
    for (size_t i = 0; i < countof(bad); i++) {
        AUTO_TLS_END struct tls_end *end = NULL;
        struct host host = host_of(bad[i]);
        CHECK_ERR(tls_server_new(tls, authority, &host, &end, &err), ERR_FORBIDDEN);
    }
}

TEST(a_bundle_holds_the_hosts_roots_and_the_authority)
{
    struct err err = {0};
    AUTO_AUTHORITY struct authority *authority = authority_new(NULL, 0);
    AUTO_BUF struct buf bundle = {0}, own = {0};
    CHECK_OK(authority_put_bundle(authority, STR("# the host's"), &bundle, &err));
    CHECK_OK(authority_put_cert(authority, &own, &err));
    CHECK(str_starts(buf_str(&bundle), STR("# the host's\n-----BEGIN CERTIFICATE-----\n")));
    CHECK(str_ends(buf_str(&bundle), buf_str(&own)));
    CHECK(str_find(buf_str(&bundle), STR("PRIVATE")) == bundle.len);
}

TEST(many_hosts_below_one_name_cost_bounded_memory)
{
    struct err err = {0};
    struct host parent = host_of("ok.test");
    AUTO_AUTHORITY struct authority *authority = authority_new(&parent, 1);
    AUTO_TLS_TRUST struct tls_trust *tls = NULL;
    CHECK_OK(tls_trust_new(STR(""), &tls, &err));
    for (int i = 0; i < AUTHORITY_LEAVES_MAX + 20; i++) {
        char name[40];
        AUTO_TLS_END struct tls_end *end = NULL;
        (void)snprintf(name, sizeof name, "h%d.ok.test", i);
        struct host host = host_of(name);
        CHECK_OK(tls_server_new(tls, authority, &host, &end, &err));
    }
}

TEST(an_authority_survives_packing)
{
    struct err err = {0};
    struct host hosts[] = {host_of("ok.test"), host_of("10.0.0.5")}, evil = host_of("evil.test");
    AUTO_AUTHORITY struct authority *authority = authority_new(hosts, countof(hosts));
    AUTO_AUTHORITY struct authority *again = NULL;
    AUTO_SECRET struct secret *packed = NULL;
    AUTO_BUF struct buf a = {0}, b = {0};
    CHECK_OK(authority_pack(authority, &packed, &err));
    CHECK_OK(authority_unpack(secret_reveal(packed), &again, &err));
    CHECK_OK(authority_put_cert(authority, &a, &err));
    CHECK_OK(authority_put_cert(again, &b, &err));
    CHECK(str_eq(buf_str(&a), buf_str(&b)));

    AUTO_TLS_TRUST struct tls_trust *gate = NULL, *program = NULL;
    AUTO_TLS_END struct tls_end *server = NULL, *client = NULL, *none = NULL;
    CHECK_OK(tls_trust_new(STR(""), &gate, &err));
    CHECK_OK(tls_trust_new(buf_str(&a), &program, &err));
    CHECK_OK(tls_server_new(gate, again, &hosts[0], &server, &err));
    CHECK_OK(tls_client_new(program, &hosts[0], &client, &err));
    struct pair pair = {.server = server, .client = client};
    CHECK_OK(shake_hands(&pair, 1000, &err));
    CHECK(tls_end_is_ready(client));
    CHECK_ERR(tls_server_new(gate, again, &evil, &none, &err), ERR_FORBIDDEN);

    struct str bytes = secret_reveal(packed);
    for (size_t len = 0; len < bytes.len; len++) {
        struct authority *cut = NULL;
        CHECK_ERR(authority_unpack(str_slice(bytes, 0, len), &cut, &err), ERR_INVALID);
    }
}
