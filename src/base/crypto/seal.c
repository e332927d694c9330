#include "base/crypto/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crypto/secret.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/format/base64.h"
#include "base/id.h"
#include "base/sys.h"

enum { NONCE_SIZE = 12, TAG_SIZE = 16 };

/* Before each sealed word, so that another way of sealing can be told from this one. */
static const struct str mark = {"sgv1.", 5};

static void cipher_freep(EVP_CIPHER_CTX **ctx)
{
    EVP_CIPHER_CTX_free(*ctx);
}

/* --- The key --- */

static int read_key(int fd, const char *path, struct secret **ret_key, struct err *err)
{
    AUTO_BUF struct buf bytes = {.limit = SEAL_KEY_SIZE + 1, .wipes = true};
    struct stat st;
    if (SYS(fstat(fd, &st)) < 0)
        return err_sys(err, errno, "stat '%s'", path);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0)
        return err_set(err, ERR_FORBIDDEN,
                       "'%s' must be a file that only its owner can read: chmod 600", path);
    if (buf_read_all(&bytes, fd, err) < 0 && err->code != ERR_TOO_LARGE)
        return err_wrap(err, "read '%s'", path);
    if (bytes.len != SEAL_KEY_SIZE)
        return err_set(err, ERR_INVALID, "'%s' is not a key: it has %zu bytes, not %d", path,
                       bytes.len, SEAL_KEY_SIZE);
    return secret_new(buf_str(&bytes), ret_key, err);
}

/* Under a temporary name first: a reader finds the whole key or none. */
static int make_key(const char *path, struct err *err)
{
    char key[SEAL_KEY_SIZE], fresh[PATH_MAX];
    if (snprintf(fresh, sizeof fresh, "%s.new", path) >= (int)sizeof fresh)
        return err_set(err, ERR_INVALID, "the path of a key is too long");
    (void)unlink(fresh);
    AUTO_CLOSE int fd =
        SYS(open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (fd < 0)
        return err_sys(err, errno, "make '%s'", fresh);
    id_random(key, sizeof key);
    int done = fd_write_all(fd, str_n(key, sizeof key), err);
    explicit_bzero(key, sizeof key);
    if (done < 0)
        return err_wrap(err, "write '%s'", fresh);
    if (SYS(fsync(fd)) < 0 || SYS(rename(fresh, path)) < 0)
        return err_sys(err, errno, "make '%s'", path);
    /* What is sealed with it outlives a power cut: so must the key. */
    return fd_sync_parent(path, err);
}

int seal_key_open(const char *path, struct secret **ret_key, struct err *err)
{
    enum { FLAGS = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK };
    AUTO_CLOSE int fd = SYS(open(path, FLAGS));
    if (fd < 0 && errno == ENOENT) {
        if (make_key(path, err) < 0)
            return -1;
        fd = SYS(open(path, FLAGS));
    }
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", path);
    return read_key(fd, path, ret_key, err);
}

/* --- Sealing --- */

static unsigned char *bytes_of(char *text)
{
    return (unsigned char *)text;
}

static const unsigned char *const_bytes_of(struct str text)
{
    return (const unsigned char *)(text.len == 0 ? "" : text.ptr);
}

/* Nonce, encrypted bytes, tag. */
static int encrypt(const struct secret *key, struct str purpose, struct str value, char *out)
{
    AUTO(cipher_freep) EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    unsigned char *nonce = bytes_of(out), *body = nonce + NONCE_SIZE, *tag = body + value.len;
    int len = 0;
    id_random(nonce, NONCE_SIZE);
    return ctx != NULL &&
                   EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL,
                                      const_bytes_of(secret_reveal(key)), nonce) == 1 &&
                   EVP_EncryptUpdate(ctx, NULL, &len, const_bytes_of(purpose), (int)purpose.len) ==
                       1 &&
                   EVP_EncryptUpdate(ctx, body, &len, const_bytes_of(value), (int)value.len) == 1 &&
                   EVP_EncryptFinal_ex(ctx, body + len, &len) == 1 &&
                   EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG_SIZE, tag) == 1
               ? 0
               : -1;
}

int seal_put(const struct secret *key, struct str purpose, struct str value, struct buf *out,
             struct err *err)
{
    AUTO_BUF struct buf packed = {0};
    if (value.len > SECRET_MAX || purpose.len > SECRET_MAX)
        return err_set(err, ERR_TOO_LARGE, "at most %d bytes can be encrypted", SECRET_MAX);
    char *at = NULL;
    size_t size = NONCE_SIZE + value.len + TAG_SIZE;
    if (buf_reserve(&packed, size, &at, err) < 0)
        return -1;
    if (encrypt(key, purpose, value, at) < 0)
        return err_set(err, ERR_INTERNAL, "cannot encrypt a value");
    buf_commit(&packed, size);
    buf_put(out, mark);
    base64_put(buf_str(&packed), out);
    return 0;
}

static bool decrypt(const struct secret *key, struct str purpose, struct str packed, char *out)
{
    AUTO(cipher_freep) EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    struct str nonce = str_slice(packed, 0, NONCE_SIZE);
    struct str body = str_slice(packed, NONCE_SIZE, packed.len - TAG_SIZE);
    unsigned char tag[TAG_SIZE];
    int len = 0;
    memcpy(tag, packed.ptr + packed.len - TAG_SIZE, TAG_SIZE);
    return ctx != NULL &&
           EVP_DecryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, const_bytes_of(secret_reveal(key)),
                              const_bytes_of(nonce)) == 1 &&
           EVP_DecryptUpdate(ctx, NULL, &len, const_bytes_of(purpose), (int)purpose.len) == 1 &&
           EVP_DecryptUpdate(ctx, bytes_of(out), &len, const_bytes_of(body), (int)body.len) == 1 &&
           EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG_SIZE, tag) == 1 &&
           EVP_DecryptFinal_ex(ctx, bytes_of(out) + len, &len) == 1;
}

int seal_open(const struct secret *key, struct str purpose, struct str sealed, struct buf *out,
              struct err *err)
{
    AUTO_BUF struct buf packed = {0};
    bool is_whole = str_starts(sealed, mark) &&
                    base64_read(str_slice(sealed, mark.len, sealed.len), &packed) &&
                    packed.len >= NONCE_SIZE + TAG_SIZE;
    size_t len = is_whole ? packed.len - NONCE_SIZE - TAG_SIZE : 0;
    char *at = NULL;
    if (buf_reserve(out, len + 1, &at, err) < 0)
        return -1;
    if (!is_whole || !decrypt(key, purpose, buf_str(&packed), at))
        return err_set(err, ERR_INVALID, "cannot decrypt the value with this key");
    buf_commit(out, len);
    return 0;
}
