#include "base/hash.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sys.h"

static void to_hex(const unsigned char digest[HASH_SIZE], char out[HASH_HEX_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < HASH_SIZE; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[HASH_HEX_SIZE - 1] = '\0';
}

void hash_sha256(struct str bytes, unsigned char out[HASH_SIZE])
{
    int done =
        EVP_Digest(bytes.len == 0 ? "" : bytes.ptr, bytes.len, out, NULL, EVP_sha256(), NULL);
    assert(done == 1);
}

void hash_sha1(struct str bytes, unsigned char out[HASH_SHA1_SIZE])
{
    int done = EVP_Digest(bytes.len == 0 ? "" : bytes.ptr, bytes.len, out, NULL, EVP_sha1(), NULL);
    assert(done == 1);
}

void hash_sha256_hex(struct str bytes, char out[HASH_HEX_SIZE])
{
    unsigned char digest[HASH_SIZE];
    hash_sha256(bytes, digest);
    to_hex(digest, out);
}

static int digest_fd(EVP_MD_CTX *ctx, int fd, unsigned char digest[HASH_SIZE], struct err *err)
{
    int ok = EVP_DigestInit_ex(ctx, EVP_sha256(), NULL);
    char chunk[65536];
    for (;;) {
        ssize_t got = SYS(read(fd, chunk, sizeof chunk));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(err, errno, "read");
        if (got == 0)
            break;
        ok &= EVP_DigestUpdate(ctx, chunk, (size_t)got);
    }
    ok &= EVP_DigestFinal_ex(ctx, digest, NULL);
    return ok == 1 ? 0 : err_set(err, ERR_INTERNAL, "SHA-256 is not available");
}

int hash_sha256_fd(int fd, char out[HASH_HEX_SIZE], struct err *err)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    if (ctx == NULL)
        return err_set(err, ERR_INTERNAL, "SHA-256 is not available");
    unsigned char digest[HASH_SIZE];
    int done = digest_fd(ctx, fd, digest, err);
    EVP_MD_CTX_free(ctx);
    if (done == 0)
        to_hex(digest, out);
    return done;
}

bool hash_equal(const void *a, const void *b, size_t len)
{
    return CRYPTO_memcmp(a, b, len) == 0;
}
