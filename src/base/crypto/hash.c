#include "base/crypto/hash.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
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

static void hash_hmac(struct str key, struct str text, unsigned char out[HASH_SIZE])
{
    unsigned len = 0;
    const unsigned char *done =
        HMAC(EVP_sha256(), key.len == 0 ? "" : key.ptr, (int)key.len,
             (const unsigned char *)(text.len == 0 ? "" : text.ptr), text.len, out, &len);
    assert(done != NULL && len == HASH_SIZE);
}

void hash_hmac_hex(struct str key, struct str text, char out[HASH_HEX_SIZE])
{
    unsigned char digest[HASH_SIZE];
    hash_hmac(key, text, digest);
    to_hex(digest, out);
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

static int digest_with(EVP_MD_CTX *ctx, const EVP_MD *kind, int fd, unsigned char *digest,
                       struct err *err)
{
    int ok = EVP_DigestInit_ex(ctx, kind, NULL);
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
    return ok == 1 ? 0 : err_set(err, ERR_INTERNAL, "SHA-2 is not available");
}

static int digest_fd(const EVP_MD *kind, int fd, unsigned char *digest, struct err *err)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    if (ctx == NULL)
        return err_set(err, ERR_INTERNAL, "SHA-2 is not available");
    int done = digest_with(ctx, kind, fd, digest, err);
    EVP_MD_CTX_free(ctx);
    return done;
}

int hash_sha512_fd(int fd, unsigned char out[HASH_SHA512_SIZE], struct err *err)
{
    unsigned char digest[HASH_SHA512_SIZE];
    if (digest_fd(EVP_sha512(), fd, digest, err) < 0)
        return -1;
    memcpy(out, digest, sizeof digest);
    return 0;
}

bool hash_equal(const void *a, const void *b, size_t len)
{
    return CRYPTO_memcmp(a, b, len) == 0;
}
