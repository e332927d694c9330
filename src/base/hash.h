#pragma once

/* Digests. SHA-256 (OpenSSL, alone included here) names content and stores tokens; SipHash spreads
 * map keys and proves nothing to anybody. */

#include "base/str.h"

struct err;

enum { HASH_SIZE = 32, HASH_HEX_SIZE = 65 };

void hash_sha256(struct str bytes, unsigned char out[HASH_SIZE]);
/* Lower-case hex with a NUL behind it. */
void hash_sha256_hex(struct str bytes, char out[HASH_HEX_SIZE]);
/* SHA-1, for the greeting of WebSocket alone: it proves nothing to anybody. */
enum { HASH_SHA1_SIZE = 20 };
void hash_sha1(struct str bytes, unsigned char out[HASH_SHA1_SIZE]);
/* Of everything that can still be read from `fd`. */
int hash_sha256_fd(int fd, char out[HASH_HEX_SIZE], struct err *err) MUST_USE;
/* SHA-512 likewise: what npm's lock files pin packages with. */
enum { HASH_SHA512_SIZE = 64 };
int hash_sha512_fd(int fd, unsigned char out[HASH_SHA512_SIZE], struct err *err) MUST_USE;
/* Equal in time that depends on the length alone. */
bool hash_equal(const void *a, const void *b, size_t len);

/* SipHash-1-3 under a key drawn once per process. */
uint64_t hash_sip(struct str bytes);
