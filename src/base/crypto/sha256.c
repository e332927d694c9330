/* The plain functions, not EVP: that would link every algorithm into a static program. */
#define OPENSSL_SUPPRESS_DEPRECATED

#include "base/crypto/sha256.h"

#include <openssl/sha.h>

_Static_assert(sizeof(SHA256_CTX) <= sizeof(((struct sha256 *)0)->state), "room for the state");

static SHA256_CTX *ctx_of(struct sha256 *sha)
{
    return (SHA256_CTX *)(void *)sha->state;
}

void sha256_init(struct sha256 *sha)
{
    (void)SHA256_Init(ctx_of(sha)); /* cannot fail */
}

void sha256_add(struct sha256 *sha, struct str bytes)
{
    if (bytes.len > 0)
        (void)SHA256_Update(ctx_of(sha), bytes.ptr, bytes.len);
}

void sha256_hex(struct sha256 *sha, char out[SHA256_HEX_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[SHA256_DIGEST_LENGTH];
    (void)SHA256_Final(digest, ctx_of(sha));
    for (size_t i = 0; i < sizeof digest; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[SHA256_HEX_SIZE - 1] = '\0';
}
