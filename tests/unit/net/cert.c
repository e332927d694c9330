#include "net.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

static void add_san(X509 *cert, const char *host)
{
    char value[256];
    (void)snprintf(value, sizeof value, "DNS:%s", host);
    X509_EXTENSION *san = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, value);
    assert(san != NULL);
    (void)X509_add_ext(cert, san, -1);
    X509_EXTENSION_free(san);
}

void net_make_cert(const char *host, const char *cert_file, const char *key_file)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    X509_NAME *name = X509_get_subject_name(cert);
    assert(key != NULL && cert != NULL);
    (void)X509_set_version(cert, X509_VERSION_3);
    (void)ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    (void)X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    (void)X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    (void)X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)host, -1, -1,
                                     0);
    (void)X509_set_issuer_name(cert, name);
    (void)X509_set_pubkey(cert, key);
    add_san(cert, host);
    int signed_bytes = X509_sign(cert, key, EVP_sha256());
    assert(signed_bytes > 0);
    FILE *out = fopen(cert_file, "we");
    (void)PEM_write_X509(out, cert);
    (void)fclose(out);
    out = fopen(key_file, "we");
    (void)PEM_write_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL);
    (void)fclose(out);
    X509_free(cert);
    EVP_PKEY_free(key);
}
