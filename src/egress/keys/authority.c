#include "egress/keys/authority.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/crypto/secret.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/map.h"
#include "base/sys.h"

enum {
    HOUR = 3600,
    SKEW = HOUR,       /* the sandbox's clock is the host's; a program's idea of it may not be */
    RENEW_LEFT = HOUR, /* a leaf with less than this left is replaced */
    SERIAL_BYTES = 16,
    BUNDLE_MAX = 4 << 20,
};

struct leaf {
    X509 *cert;
    EVP_PKEY *key;
    int64_t made_ms; /* a date */
};

struct authority {
    struct host *hosts;
    size_t host_count;
    X509 *cert; /* NULL until first needed, as the key */
    EVP_PKEY *key;
    struct map leaves; /* by host */
};

static int authority_fail(struct err *err, const char *what)
{
    unsigned long code = ERR_get_error();
    const char *reason = code == 0 ? NULL : ERR_reason_error_string(code);
    ERR_clear_error();
    return err_set(err, ERR_INTERNAL, "%s: %s", what, reason == NULL ? "OpenSSL failed" : reason);
}

static void x509_freep(X509 **cert)
{
    X509_free(*cert);
}
static void pkey_freep(EVP_PKEY **key)
{
    EVP_PKEY_free(*key);
}
#define AUTO_X509 AUTO(x509_freep)
#define AUTO_PKEY AUTO(pkey_freep)

/* --- Life --- */

struct authority *authority_new(const struct host *hosts, size_t count)
{
    struct authority *authority = mem_alloc(sizeof *authority);
    authority->host_count = count;
    if (count > 0)
        authority->hosts = mem_dup(hosts, count * sizeof *hosts);
    return authority;
}

static void leaf_free(struct leaf *leaf)
{
    if (leaf == NULL)
        return;
    X509_free(leaf->cert);
    EVP_PKEY_free(leaf->key);
    free(leaf);
}

static void drop_leaves(struct authority *authority)
{
    MAP_EACH (entry, &authority->leaves)
        leaf_free(entry->value);
    map_done(&authority->leaves);
    authority->leaves = (struct map){0};
}

struct authority *authority_free(struct authority *authority)
{
    if (authority == NULL)
        return NULL;
    drop_leaves(authority);
    X509_free(authority->cert);
    EVP_PKEY_free(authority->key);
    free(authority->hosts);
    free(authority);
    return NULL;
}

/* --- Certificates --- */

static bool set_serial(X509 *cert)
{
    unsigned char bytes[SERIAL_BYTES];
    id_random(bytes, sizeof bytes);
    bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 0x40); /* positive, and of one length */
    BIGNUM *number = BN_bin2bn(bytes, sizeof bytes, NULL);
    bool good = number != NULL && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != NULL;
    BN_free(number);
    return good;
}

static bool set_name(X509_NAME *name, const char *field, const char *text)
{
    return X509_NAME_add_entry_by_txt(name, field, MBSTRING_ASC, (const unsigned char *)text, -1,
                                      -1, 0) == 1;
}

static bool add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool good = extension != NULL && X509_add_ext(cert, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return good;
}

static bool set_times(X509 *cert, long lasts)
{
    return X509_gmtime_adj(X509_getm_notBefore(cert), -SKEW) != NULL &&
           X509_gmtime_adj(X509_getm_notAfter(cert), lasts) != NULL;
}

/* "10.0.0.5", or "::1": as X.509 has addresses, without brackets. */
static void put_address(const struct host *host, struct buf *out)
{
    char text[IP_TEXT_SIZE];
    ip_format(&host->ip, text);
    buf_put_cstr(out, text);
}

/* What the authority may vouch for. A kind of name that is left out would be free: addresses are
 * then excluded, and names reduced to one that cannot exist. */
static void put_constraints(const struct authority *authority, struct buf *out)
{
    bool has_name = false, has_v4 = false, has_v6 = false;
    buf_put_cstr(out, "critical");
    for (size_t i = 0; i < authority->host_count; i++) {
        const struct host *host = &authority->hosts[i];
        if (!host_is_ip(host)) {
            buf_printf(out, ",permitted;DNS:%s", host->text);
            has_name = true;
            continue;
        }
        bool is_v4 = host->ip.version == 4;
        buf_put_cstr(out, ",permitted;IP:");
        put_address(host, out);
        buf_put_cstr(out, is_v4 ? "/255.255.255.255" : "/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
        has_v4 = has_v4 || is_v4;
        has_v6 = has_v6 || !is_v4;
    }
    if (!has_name)
        buf_put_cstr(out, ",permitted;DNS:invalid");
    if (!has_v4)
        buf_put_cstr(out, ",excluded;IP:0.0.0.0/0.0.0.0");
    if (!has_v6)
        buf_put_cstr(out, ",excluded;IP:::/::");
}

static bool fill_root(const struct authority *authority, X509 *cert, EVP_PKEY *key)
{
    AUTO_BUF struct buf constraints = {0};
    X509_NAME *name = X509_get_subject_name(cert);
    put_constraints(authority, &constraints);
    return X509_set_version(cert, X509_VERSION_3) == 1 && set_serial(cert) &&
           set_times(cert, (long)AUTHORITY_DAYS * 24 * HOUR) && set_name(name, "O", "sandglass") &&
           set_name(name, "CN", "sandglass sandbox CA") && X509_set_issuer_name(cert, name) == 1 &&
           X509_set_pubkey(cert, key) == 1 &&
           add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
           add_extension(cert, cert, NID_key_usage, "critical,keyCertSign") &&
           add_extension(cert, cert, NID_subject_key_identifier, "hash") &&
           (authority->host_count == 0 ||
            add_extension(cert, cert, NID_name_constraints, buf_cstr(&constraints))) &&
           X509_sign(cert, key, EVP_sha256()) > 0;
}

static int make_root(struct authority *authority, struct err *err)
{
    if (authority->cert != NULL)
        return 0;
    ERR_clear_error();
    AUTO_PKEY EVP_PKEY *key = EVP_EC_gen("P-256");
    AUTO_X509 X509 *cert = X509_new();
    if (key == NULL || cert == NULL || !fill_root(authority, cert, key))
        return authority_fail(err, "make the sandbox's certificate authority");
    authority->key = key;
    authority->cert = cert;
    key = NULL;
    cert = NULL;
    return 0;
}

static bool fill_leaf(const struct authority *authority, const struct host *host, X509 *cert,
                      EVP_PKEY *key)
{
    AUTO_BUF struct buf names = {0};
    buf_put_cstr(&names, host_is_ip(host) ? "critical,IP:" : "critical,DNS:");
    if (host_is_ip(host))
        put_address(host, &names);
    else
        buf_put_cstr(&names, host->text);
    /* The subject stays empty: a common name has room for 64 bytes only, and no client reads it. */
    return X509_set_version(cert, X509_VERSION_3) == 1 && set_serial(cert) &&
           set_times(cert, (long)AUTHORITY_LEAF_HOURS * HOUR) &&
           X509_set_issuer_name(cert, X509_get_subject_name(authority->cert)) == 1 &&
           X509_set_pubkey(cert, key) == 1 &&
           add_extension(cert, authority->cert, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(cert, authority->cert, NID_key_usage, "critical,digitalSignature") &&
           add_extension(cert, authority->cert, NID_ext_key_usage, "serverAuth") &&
           add_extension(cert, authority->cert, NID_authority_key_identifier, "keyid:always") &&
           add_extension(cert, authority->cert, NID_subject_alt_name, buf_cstr(&names)) &&
           X509_sign(cert, authority->key, EVP_sha256()) > 0;
}

static bool covers(const struct authority *authority, const struct host *host)
{
    for (size_t i = 0; i < authority->host_count; i++) {
        const struct host *own = &authority->hosts[i];
        if (str_eq(host_str(own), host_str(host)) ||
            (!host_is_ip(own) && host_is_below(host_str(host), host_str(own))))
            return true;
    }
    return authority->host_count == 0;
}

static bool is_fresh(const struct leaf *leaf)
{
    int64_t age = (clock_date_ms() - leaf->made_ms) / 1000;
    return age >= 0 && age < (int64_t)AUTHORITY_LEAF_HOURS * HOUR - RENEW_LEFT;
}

static int make_leaf(struct authority *authority, const struct host *host, struct leaf **ret_leaf,
                     struct err *err)
{
    if (make_root(authority, err) < 0)
        return -1;
    ERR_clear_error();
    AUTO_PKEY EVP_PKEY *key = EVP_EC_gen("P-256");
    AUTO_X509 X509 *cert = X509_new();
    if (key == NULL || cert == NULL || !fill_leaf(authority, host, cert, key))
        return authority_fail(err, "make a certificate");
    struct leaf *leaf = mem_alloc(sizeof *leaf);
    *leaf = (struct leaf){.cert = cert, .key = key, .made_ms = clock_date_ms()};
    key = NULL;
    cert = NULL;
    *ret_leaf = leaf;
    return 0;
}

int authority_leaf(struct authority *authority, const struct host *host, X509 **ret_cert,
                   EVP_PKEY **ret_key, struct err *err)
{
    if (!covers(authority, host))
        return err_set(err, ERR_FORBIDDEN, "this sandbox's certificate authority does not cover %s",
                       host->text);
    struct leaf *leaf = map_get(&authority->leaves, host_str(host));
    if (leaf == NULL || !is_fresh(leaf)) {
        struct leaf *fresh;
        if (make_leaf(authority, host, &fresh, err) < 0)
            return err_wrap(err, "%s", host->text);
        /* Hosts below a covered name are the sandbox's to invent. */
        if (leaf == NULL && authority->leaves.len >= AUTHORITY_LEAVES_MAX)
            drop_leaves(authority);
        leaf_free(map_put(&authority->leaves, host_str(host), fresh));
        leaf = fresh;
    }
    *ret_cert = leaf->cert;
    *ret_key = leaf->key;
    return 0;
}

/* --- What is trusted --- */

int authority_put_cert(struct authority *authority, struct buf *out, struct err *err)
{
    if (make_root(authority, err) < 0)
        return -1;
    BIO *memory = BIO_new(BIO_s_mem());
    char *text = NULL;
    bool good = memory != NULL && PEM_write_bio_X509(memory, authority->cert) == 1;
    long len = good ? BIO_get_mem_data(memory, &text) : 0;
    if (good)
        buf_put(out, str_n(text, (size_t)len));
    BIO_free(memory);
    return good ? 0 : authority_fail(err, "write the authority's certificate");
}

int authority_put_bundle(struct authority *authority, struct str host_bundle, struct buf *out,
                         struct err *err)
{
    buf_put(out, host_bundle);
    if (host_bundle.len > 0 && !str_ends(host_bundle, STR("\n")))
        buf_put_char(out, '\n');
    return authority_put_cert(authority, out, err);
}

int authority_read_host_bundle(struct buf *out, struct err *err)
{
    const char *const places[] = {
        getenv("SSL_CERT_FILE"),
        "/etc/ssl/certs/ca-certificates.crt",                /* Debian, Ubuntu, Arch, Alpine */
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* Fedora and similar distributions */
        "/etc/ssl/ca-bundle.pem",                            /* openSUSE */
        "/etc/ssl/cert.pem",
    };
    for (size_t i = 0; i < countof(places); i++) {
        if (places[i] == NULL || places[i][0] == '\0')
            continue;
        AUTO_CLOSE int fd = SYS(open(places[i], O_RDONLY | O_CLOEXEC));
        if (fd < 0 && errno == ENOENT)
            continue;
        if (fd < 0)
            return err_sys(err, errno, "open '%s'", places[i]);
        AUTO_BUF struct buf text = buf_with_limit(BUNDLE_MAX);
        if (buf_read_all(&text, fd, err) < 0)
            return err_wrap(err, "read '%s'", places[i]);
        buf_put(out, buf_str(&text));
        return 0;
    }
    return err_set(err, ERR_NOT_FOUND,
                   "no file of trusted certificates on this host; install ca-certificates or set "
                   "SSL_CERT_FILE");
}

/* --- As bytes: count of hosts, then hosts, certificate (DER) and key (DER), each with its length
 * in two bytes before it --- */

static void put_piece(struct buf *out, struct str piece)
{
    assert(piece.len <= UINT16_MAX);
    buf_put_char(out, (char)(piece.len & 0xff));
    buf_put_char(out, (char)(piece.len >> 8));
    buf_put(out, piece);
}

static bool take_piece(struct str *in, struct str *ret_piece)
{
    if (in->len < 2)
        return false;
    size_t len = (unsigned char)in->ptr[0] | (size_t)(unsigned char)in->ptr[1] << 8;
    if (len > in->len - 2)
        return false;
    *ret_piece = str_slice(*in, 2, 2 + len);
    *in = str_slice(*in, 2 + len, in->len);
    return true;
}

int authority_pack(struct authority *authority, struct secret **ret_packed, struct err *err)
{
    AUTO_BUF struct buf out = {.wipes = true};
    unsigned char *cert = NULL, *key = NULL;
    if (make_root(authority, err) < 0)
        return -1;
    int cert_len = i2d_X509(authority->cert, &cert);
    int key_len = i2d_PrivateKey(authority->key, &key);
    bool good = cert_len > 0 && key_len > 0 && authority->host_count <= UINT16_MAX;
    if (good) {
        buf_put_char(&out, (char)(authority->host_count & 0xff));
        buf_put_char(&out, (char)(authority->host_count >> 8));
        for (size_t i = 0; i < authority->host_count; i++)
            put_piece(&out, host_str(&authority->hosts[i]));
        put_piece(&out, str_n((const char *)cert, (size_t)cert_len));
        put_piece(&out, str_n((const char *)key, (size_t)key_len));
    }
    OPENSSL_free(cert);
    OPENSSL_clear_free(key, key_len > 0 ? (size_t)key_len : 0);
    return good ? secret_new(buf_str(&out), ret_packed, err)
                : authority_fail(err, "pack the authority");
}

static bool take_hosts(struct str *in, struct authority *authority)
{
    struct err ignored;
    struct str text;
    if (in->len < 2)
        return false;
    size_t count = (unsigned char)in->ptr[0] | (size_t)(unsigned char)in->ptr[1] << 8;
    *in = str_slice(*in, 2, in->len);
    if (count > in->len / 2)
        return false;
    authority->hosts = count == 0 ? NULL : mem_alloc(count * sizeof *authority->hosts);
    for (; authority->host_count < count; authority->host_count++)
        if (!take_piece(in, &text) ||
            host_parse(text, &authority->hosts[authority->host_count], &ignored) < 0)
            return false;
    return true;
}

int authority_unpack(struct str packed, struct authority **ret_authority, struct err *err)
{
    AUTO_AUTHORITY struct authority *authority = authority_new(NULL, 0);
    struct str in = packed, cert = {0}, key = {0};
    bool good = take_hosts(&in, authority) && take_piece(&in, &cert) && take_piece(&in, &key) &&
                in.len == 0;
    const unsigned char *cert_at = (const unsigned char *)cert.ptr;
    const unsigned char *key_at = (const unsigned char *)key.ptr;
    ERR_clear_error();
    if (good) {
        authority->cert = d2i_X509(NULL, &cert_at, (long)cert.len);
        authority->key = d2i_AutoPrivateKey(NULL, &key_at, (long)key.len);
        good = authority->cert != NULL && authority->key != NULL &&
               X509_check_private_key(authority->cert, authority->key) == 1;
    }
    ERR_clear_error();
    if (!good)
        return err_set(err, ERR_INVALID, "the packed authority is malformed");
    *ret_authority = authority;
    authority = NULL;
    return 0;
}
