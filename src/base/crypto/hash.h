#pragma once

/* Digests. SHA-256 (OpenSSL, included only here) names content and stores tokens. */

#include "base/str.h"

struct err;

enum { HASH_SIZE = 32, HASH_HEX_SIZE = 65 };

void hash_sha256(struct str bytes, unsigned char out[HASH_SIZE]);
/* Lower-case hex with a NUL behind it. */
void hash_sha256_hex(struct str bytes, char out[HASH_HEX_SIZE]);
/* HMAC-SHA-256 (RFC 2104). */
void hash_hmac_hex(struct str key, struct str text, char out[HASH_HEX_SIZE]);
/* SHA-1, only for the handshake of WebSocket: it is no proof of anything. */
enum { HASH_SHA1_SIZE = 20 };
void hash_sha1(struct str bytes, unsigned char out[HASH_SHA1_SIZE]);
/* SHA-512 likewise: what npm's lock files pin packages with. */
enum { HASH_SHA512_SIZE = 64 };
int hash_sha512_fd(int fd, unsigned char out[HASH_SHA512_SIZE], struct err *err) MUST_USE;
/* Equal in time that depends only on the length. */
bool hash_equal(const void *a, const void *b, size_t len);
