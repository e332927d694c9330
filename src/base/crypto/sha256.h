#pragma once

/* SHA-256 of bytes that come in pieces. Apart from base/crypto/hash.h because the helper inside a
 * jail needs it too, and that carries no whole libcrypto. */

#include "base/str.h"

enum { SHA256_HEX_SIZE = 65 };

struct sha256 {
    _Alignas(16) unsigned char state[128]; /* OpenSSL's, known only in sha256.c */
};

void sha256_init(struct sha256 *sha);
void sha256_add(struct sha256 *sha, struct str bytes);
/* Lower-case hex with a NUL behind it. The struct is not to be used again before sha256_init. */
void sha256_hex(struct sha256 *sha, char out[SHA256_HEX_SIZE]);
