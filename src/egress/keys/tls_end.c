#include "egress/keys/tls_end.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/buf.h"
#include "base/err.h"
#include "egress/keys/authority.h"

enum { READ_STEP = 16 << 10 };

static const unsigned char protocol[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

struct tls_trust {
    SSL_CTX *server, *client;
};

/* Handshaking -> ready (in step) -> closed (the peer's goodbye, in tls_end_read). Failed for good
 * from any of them. */
struct tls_end {
    SSL *ssl;
    BIO *in, *out; /* the SSL's */
    struct host host;
    bool is_server, is_ready, is_closed, is_failed;
    struct err why; /* of a refusal of our own, which OpenSSL only knows as "failed" */
};

/* --- Errors --- */

static int fail_ssl(struct tls_end *end, const char *what, struct err *err)
{
    unsigned long code = ERR_peek_last_error();
    long verified = SSL_get_verify_result(end->ssl);
    end->is_failed = true;
    ERR_clear_error();
    if (end->why.msg[0] != '\0') {
        *err = end->why;
        return -1;
    }
    if (!end->is_server && verified != X509_V_OK)
        return err_set(err, ERR_FORBIDDEN, "certificate of %.100s: %s", end->host.text,
                       X509_verify_cert_error_string(verified));
    if (end->is_server && ERR_GET_REASON(code) == SSL_R_TLSV1_ALERT_UNKNOWN_CA)
        return err_set(err, ERR_FORBIDDEN,
                       "%.100s: the program does not trust the sandbox's certificates; it must "
                       "read SSL_CERT_FILE or a similar variable",
                       end->host.text);
    const char *reason = code == 0 ? NULL : ERR_reason_error_string(code);
    return err_set(err, ERR_UNAVAILABLE, "TLS %s %.100s: %s: %s",
                   end->is_server ? "from the sandbox for" : "with", end->host.text, what,
                   reason == NULL ? "failed" : reason);
}

static int fail_set_up(struct err *err)
{
    unsigned long code = ERR_get_error();
    const char *reason = code == 0 ? NULL : ERR_reason_error_string(code);
    ERR_clear_error();
    return err_set(err, ERR_INTERNAL, "set up TLS: %s", reason == NULL ? "failed" : reason);
}

/* --- What ends share --- */

/* The client must have named the host that the connection was judged for. A client that connects to
 * an address has no name to give. */
static int on_server_name(SSL *ssl, int *alert, UNUSED void *ctx)
{
    struct tls_end *end = SSL_get_app_data(ssl);
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    struct host asked;
    struct err ignored;
    char shown[HOST_SHOWN_SIZE] = "";
    if (name == NULL && host_is_ip(&end->host))
        return SSL_TLSEXT_ERR_NOACK;
    if (name != NULL && host_parse(str_of(name), &asked, &ignored) == 0 &&
        str_eq(host_str(&asked), host_str(&end->host)))
        return SSL_TLSEXT_ERR_OK;
    host_show(str_of(name == NULL ? "(none)" : name), shown);
    (void)err_set(&end->why, ERR_FORBIDDEN,
                  "the TLS client named %s, but the connection is for %.100s", shown,
                  end->host.text);
    *alert = SSL_AD_UNRECOGNIZED_NAME;
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int on_protocols(SSL *ssl, const unsigned char **ret_chosen, unsigned char *ret_len,
                        const unsigned char *offered, unsigned offered_len, UNUSED void *ctx)
{
    struct tls_end *end = SSL_get_app_data(ssl);
    unsigned char *chosen = NULL;
    if (SSL_select_next_proto(&chosen, ret_len, protocol, sizeof protocol, offered, offered_len) ==
        OPENSSL_NPN_NEGOTIATED) {
        *ret_chosen = chosen;
        return SSL_TLSEXT_ERR_OK;
    }
    (void)err_set(&end->why, ERR_UNSUPPORTED,
                  "%.100s: the program does not offer HTTP/1.1, the only supported protocol",
                  end->host.text);
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static SSL_CTX *new_context(const SSL_METHOD *method)
{
    SSL_CTX *ctx = SSL_CTX_new(method);
    if (ctx == NULL || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1) {
        SSL_CTX_free(ctx);
        return NULL;
    }
    (void)SSL_CTX_set_options(ctx,
                              SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY);
    return ctx;
}

static bool set_up_server(SSL_CTX *ctx)
{
    SSL_CTX_set_tlsext_servername_callback(ctx, on_server_name);
    SSL_CTX_set_alpn_select_cb(ctx, on_protocols, NULL);
    return SSL_CTX_set_num_tickets(ctx, 0) == 1;
}

/* Adds each certificate of the text; others than certificates in it are passed over. */
static int add_roots(SSL_CTX *ctx, struct str roots, struct err *err)
{
    X509_STORE *store = SSL_CTX_get_cert_store(ctx);
    BIO *memory = BIO_new_mem_buf(roots.ptr, (int)MIN(roots.len, (size_t)INT32_MAX));
    size_t count = 0;
    for (X509 *cert; memory != NULL && (cert = PEM_read_bio_X509(memory, NULL, NULL, NULL));) {
        if (X509_STORE_add_cert(store, cert) == 1)
            count++;
        X509_free(cert);
    }
    BIO_free(memory);
    ERR_clear_error();
    return count > 0 ? 0 : err_set(err, ERR_INVALID, "no certificate in the list of trusted roots");
}

int tls_trust_new(struct str roots, struct tls_trust **ret_tls, struct err *err)
{
    AUTO_TLS_TRUST struct tls_trust *tls = mem_alloc(sizeof *tls);
    ERR_clear_error();
    tls->server = new_context(TLS_server_method());
    tls->client = new_context(TLS_client_method());
    if (tls->server == NULL || tls->client == NULL || !set_up_server(tls->server) ||
        SSL_CTX_set_alpn_protos(tls->client, protocol, sizeof protocol) != 0)
        return fail_set_up(err);
    SSL_CTX_set_verify(tls->client, SSL_VERIFY_PEER, NULL);
    /* A test's or a company's own root may be an intermediate; it is trusted as it stands. */
    X509_VERIFY_PARAM *param = SSL_CTX_get0_param(tls->client);
    (void)X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_PARTIAL_CHAIN);
    if (roots.len > 0 && add_roots(tls->client, roots, err) < 0)
        return -1;
    *ret_tls = tls;
    tls = NULL;
    return 0;
}

struct tls_trust *tls_trust_free(struct tls_trust *tls)
{
    if (tls == NULL)
        return NULL;
    SSL_CTX_free(tls->server);
    SSL_CTX_free(tls->client);
    free(tls);
    return NULL;
}

/* --- Ends --- */

static struct tls_end *new_end(SSL_CTX *ctx, const struct host *host, bool is_server)
{
    AUTO_TLS_END struct tls_end *end = mem_alloc(sizeof *end);
    ERR_clear_error();
    end->host = *host;
    end->is_server = is_server;
    end->ssl = SSL_new(ctx);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    if (end->ssl == NULL || in == NULL || out == NULL) {
        BIO_free(in);
        BIO_free(out);
        return NULL;
    }
    SSL_set_bio(end->ssl, in, out);
    end->in = in;
    end->out = out;
    (void)SSL_set_app_data(end->ssl, end);
    if (is_server)
        SSL_set_accept_state(end->ssl);
    else
        SSL_set_connect_state(end->ssl);
    struct tls_end *made = end;
    end = NULL;
    return made;
}

int tls_server_new(struct tls_trust *tls, struct authority *authority, const struct host *host,
                   struct tls_end **ret_end, struct err *err)
{
    X509 *cert;
    EVP_PKEY *key;
    if (authority_leaf(authority, host, &cert, &key, err) < 0)
        return -1;
    AUTO_TLS_END struct tls_end *end = new_end(tls->server, host, true);
    if (end == NULL || SSL_use_certificate(end->ssl, cert) != 1 ||
        SSL_use_PrivateKey(end->ssl, key) != 1)
        return fail_set_up(err);
    *ret_end = end;
    end = NULL;
    return 0;
}

static bool expect_host(SSL *ssl, const struct host *host)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    if (host_is_ip(host))
        return X509_VERIFY_PARAM_set1_ip(param, host->ip.bytes, host->ip.version == 4 ? 4 : 16) ==
               1;
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                               X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return SSL_set1_host(ssl, host->text) == 1 && SSL_set_tlsext_host_name(ssl, host->text) == 1;
}

static int step(struct tls_end *end, struct err *err)
{
    if (end->is_ready)
        return 0;
    ERR_clear_error();
    int done = SSL_do_handshake(end->ssl);
    if (done == 1) {
        end->is_ready = true;
        return 0;
    }
    return SSL_get_error(end->ssl, done) == SSL_ERROR_WANT_READ ? 0
                                                                : fail_ssl(end, "handshake", err);
}

int tls_client_new(struct tls_trust *tls, const struct host *host, struct tls_end **ret_end,
                   struct err *err)
{
    AUTO_TLS_END struct tls_end *end = new_end(tls->client, host, false);
    if (end == NULL || !expect_host(end->ssl, host))
        return fail_set_up(err);
    if (step(end, err) < 0)
        return -1;
    *ret_end = end;
    end = NULL;
    return 0;
}

struct tls_end *tls_end_free(struct tls_end *end)
{
    if (end == NULL)
        return NULL;
    SSL_free(end->ssl);
    free(end);
    return NULL;
}

/* --- Bytes --- */

static int check_alive(const struct tls_end *end, struct err *err)
{
    return end->is_failed
               ? err_set(err, ERR_UNAVAILABLE, "%.100s: TLS has failed before", end->host.text)
               : 0;
}

int tls_end_feed(struct tls_end *end, struct str bytes, struct err *err)
{
    if (check_alive(end, err) < 0)
        return -1;
    if (bytes.len > 0) {
        assert(bytes.len <= INT32_MAX);
        int taken = BIO_write(end->in, bytes.ptr, (int)bytes.len);
        assert(taken == (int)bytes.len); /* memory takes all */
    }
    return step(end, err);
}

int tls_end_read(struct tls_end *end, struct buf *out, size_t max, struct err *err)
{
    if (check_alive(end, err) < 0)
        return -1;
    while (end->is_ready && !end->is_closed && max > 0) {
        char *space;
        size_t got = 0, room = MIN(max, (size_t)READ_STEP);
        if (buf_reserve(out, room, &space, err) < 0)
            return -1;
        ERR_clear_error();
        int done = SSL_read_ex(end->ssl, space, room, &got);
        if (done == 1) {
            buf_commit(out, got);
            max -= got;
            continue;
        }
        int why = SSL_get_error(end->ssl, done);
        if (why == SSL_ERROR_WANT_READ)
            return 0;
        if (why != SSL_ERROR_ZERO_RETURN)
            return fail_ssl(end, "read", err);
        end->is_closed = true;
    }
    return 0;
}

int tls_end_write(struct tls_end *end, struct str plain, struct err *err)
{
    size_t done = 0;
    if (check_alive(end, err) < 0)
        return -1;
    assert(end->is_ready);
    if (plain.len == 0)
        return 0;
    ERR_clear_error();
    if (SSL_write_ex(end->ssl, plain.ptr, plain.len, &done) != 1 || done != plain.len)
        return fail_ssl(end, "write", err);
    return 0;
}

size_t tls_end_drain(struct tls_end *end, struct buf *out, size_t max)
{
    struct err err;
    char *space;
    size_t waiting = BIO_ctrl_pending(end->out), count = MIN(waiting, max);
    count = MIN(count, (size_t)INT32_MAX);
    if (count == 0 || buf_reserve(out, count, &space, &err) < 0)
        return 0;
    int got = BIO_read(end->out, space, (int)count);
    if (got <= 0)
        return 0;
    buf_commit(out, (size_t)got);
    return (size_t)got;
}

void tls_end_close(struct tls_end *end)
{
    if (end->is_failed || !end->is_ready)
        return;
    ERR_clear_error();
    (void)SSL_shutdown(end->ssl);
    ERR_clear_error();
}

bool tls_end_is_ready(const struct tls_end *end)
{
    return end->is_ready;
}

bool tls_end_is_closed(const struct tls_end *end)
{
    return end->is_closed;
}
