#pragma once

/* A certificate authority of one sandbox, which only that sandbox trusts: with it the gate opens
 * the TLS of hosts that a secret is bound to, or whose requests the policy judges by method or
 * path.
 *
 * Its key (EC P-256) is made at first use and never leaves the processes of the gate.
 * The authority is constrained to the hosts it is made for, so even the key would forge no other.
 * It is good for AUTHORITY_DAYS; the certificates of hosts for a day, renewed in time. */

#include "egress/policy/host.h"

struct authority;
struct buf;
struct evp_pkey_st;
struct secret;
struct x509_st;

enum { AUTHORITY_DAYS = 30, AUTHORITY_LEAF_HOURS = 24, AUTHORITY_LEAVES_MAX = 256 };

/* `hosts` are copied. A name covers itself and all its subdomains. None at all means any: for a
 * policy that opens hosts which cannot be listed. */
struct authority *authority_new(const struct host *hosts, size_t count);
struct authority *authority_free(struct authority *authority);
DEFINE_FREEP(authority)
#define AUTO_AUTHORITY AUTO(authority_freep)

/* The authority's certificate as PEM, for the sandbox to trust. */
int authority_put_cert(struct authority *authority, struct buf *out, struct err *err) MUST_USE;
/* What the sandbox gets as its file of trusted roots: the host's own (may be empty) and this. */
int authority_put_bundle(struct authority *authority, struct str host_bundle, struct buf *out,
                         struct err *err) MUST_USE;
/* The host's trusted roots as PEM: $SSL_CERT_FILE, else where distributions keep them. NOT_FOUND
 * when there are none. */
int authority_read_host_bundle(struct buf *out, struct err *err) MUST_USE;

/* For the process that uses it in the end: certificate, key and hosts as bytes in one locked piece,
 * to be written only to that process. Several may hold the same authority, one after the other: the
 * sandbox trusts it for as long as it lives. */
int authority_pack(struct authority *authority, struct secret **ret_packed,
                   struct err *err) MUST_USE;
/* INVALID for bytes that authority_pack did not make. Wipe `packed` afterwards. */
int authority_unpack(struct str packed, struct authority **ret_authority, struct err *err) MUST_USE;

/* Only for tls_end.c: the certificate and key for a host; both belong to the authority and are
 * valid until the next call. FORBIDDEN for a host it is not made for. */
int authority_leaf(struct authority *authority, const struct host *host, struct x509_st **ret_cert,
                   struct evp_pkey_st **ret_key, struct err *err) MUST_USE;
