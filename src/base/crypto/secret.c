#include "base/crypto/secret.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/sys.h"

struct secret {
    size_t mapped;
    size_t len;
    char bytes[];
};

int secret_new(struct str value, struct secret **ret_secret, struct err *err)
{
    if (value.len > SECRET_MAX)
        return err_set(err, ERR_TOO_LARGE, "the secret has more than %d bytes", SECRET_MAX);
    size_t size = sizeof(struct secret) + value.len;
    void *memory =
        SYS(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory == MAP_FAILED)
        return err_sys(err, errno, "memory for a secret");
    struct secret *secret = memory;
    /* Locking may be refused by RLIMIT_MEMLOCK; the value then still stays out of core files. */
    (void)mlock(memory, size);
    (void)madvise(memory, size, MADV_DONTDUMP);
    (void)madvise(memory, size, MADV_WIPEONFORK);
    secret->mapped = size;
    secret->len = value.len;
    if (value.len > 0)
        memcpy(secret->bytes, value.ptr, value.len);
    *ret_secret = secret;
    return 0;
}

int secret_take_env(const char *name, struct secret **ret_secret, struct err *err)
{
    char *value = getenv(name);
    struct secret *secret = NULL;
    if (value != NULL && value[0] != '\0') {
        if (secret_new(str_of(value), &secret, err) < 0)
            return err_wrap(err, "environment variable %s", name);
        explicit_bzero(value, secret->len);
    }
    (void)unsetenv(name);
    *ret_secret = secret;
    return 0;
}

struct secret *secret_free(struct secret *secret)
{
    if (secret == NULL)
        return NULL;
    size_t mapped = secret->mapped;
    explicit_bzero(secret, mapped);
    (void)munmap(secret, mapped);
    return NULL;
}

struct str secret_reveal(const struct secret *secret)
{
    return str_n(secret->bytes, secret->len);
}
