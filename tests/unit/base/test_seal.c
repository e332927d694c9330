#include "test.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crypto/seal.h"
#include "base/crypto/secret.h"
#include "base/err.h"

static const char *key_path(char path[PATH_MAX])
{
    (void)snprintf(path, PATH_MAX, "%s/key", test_tmpdir());
    return path;
}

TEST(what_is_sealed_opens_again_and_shows_nothing)
{
    char path[PATH_MAX];
    struct err err = {0};
    AUTO_SECRET struct secret *key = NULL, *again = NULL;
    AUTO_BUF struct buf sealed = {0}, other = {0}, value = {0};
    CHECK_OK(seal_key_open(key_path(path), &key, &err));
    CHECK_OK(seal_put(key, STR("who"), STR("the-value-itself"), &sealed, &err));
    CHECK(str_find(buf_str(&sealed), STR("the-value")) == sealed.len);
    CHECK_OK(seal_open(key, STR("who"), buf_str(&sealed), &value, &err));
    CHECK_STR(buf_str(&value), "the-value-itself");
    CHECK_OK(seal_put(key, STR("who"), STR("the-value-itself"), &other, &err));
    CHECK(!str_eq(buf_str(&sealed), buf_str(&other))); /* equal values are not seen to be equal */
    CHECK_OK(seal_key_open(path, &again, &err));       /* the next start */
    buf_clear(&value);
    CHECK_OK(seal_open(again, STR("who"), buf_str(&other), &value, &err));
    CHECK_STR(buf_str(&value), "the-value-itself");
    buf_clear(&sealed);
    buf_clear(&value);
    CHECK_OK(seal_put(key, STR(""), STR(""), &sealed, &err));
    CHECK_OK(seal_open(key, STR(""), buf_str(&sealed), &value, &err));
    CHECK_INT(value.len, 0);
}

TEST(what_was_moved_changed_or_sealed_by_another_does_not_open)
{
    char path[PATH_MAX];
    struct err err = {0};
    AUTO_SECRET struct secret *key = NULL, *stranger = NULL;
    AUTO_BUF struct buf sealed = {0}, value = {0};
    CHECK_OK(seal_key_open(key_path(path), &key, &err));
    CHECK_OK(seal_put(key, STR("red\nok.test"), STR("the-value-itself"), &sealed, &err));
    CHECK_ERR(seal_open(key, STR("red\nevil.test"), buf_str(&sealed), &value, &err), ERR_INVALID);
    CHECK_OK(secret_new(STR("0123456789abcdef0123456789abcdef"), &stranger, &err));
    CHECK_ERR(seal_open(stranger, STR("red\nok.test"), buf_str(&sealed), &value, &err),
              ERR_INVALID);
    static const char *const wrong[] = {"", "x", "sgv1.", "sgv1.AAAA", "sgv1.%%%%"};
    for (size_t i = 0; i < countof(wrong); i++)
        CHECK_ERR(seal_open(key, STR("red\nok.test"), str_of(wrong[i]), &value, &err), ERR_INVALID);
    for (size_t i = 0; i + 3 < sealed.len; i++) { /* the last ones may hold unused bits */
        sealed.ptr[i] ^= 1;
        CHECK_ERR(seal_open(key, STR("red\nok.test"), buf_str(&sealed), &value, &err), ERR_INVALID);
        sealed.ptr[i] ^= 1;
    }
    CHECK_INT(value.len, 0);
}

TEST(a_key_that_others_can_read_is_refused)
{
    char path[PATH_MAX];
    struct err err = {0};
    struct stat st;
    AUTO_SECRET struct secret *key = NULL;
    CHECK_OK(seal_key_open(key_path(path), &key, &err));
    CHECK_INT(stat(path, &st), 0);
    CHECK_INT(st.st_mode & 0777, 0600);
    CHECK_INT(st.st_size, SEAL_KEY_SIZE);
    key = secret_free(key);
    CHECK_INT(chmod(path, 0640), 0);
    CHECK_ERR(seal_key_open(path, &key, &err), ERR_FORBIDDEN);
    CHECK_INT(chmod(path, 0600), 0);
    CHECK_INT(truncate(path, 5), 0);
    CHECK_ERR(seal_key_open(path, &key, &err), ERR_INVALID);
    CHECK_INT(truncate(path, SEAL_KEY_SIZE + 1), 0);
    CHECK_ERR(seal_key_open(path, &key, &err), ERR_INVALID);
    CHECK_INT(unlink(path), 0);
    CHECK_INT(symlink("/etc/hostname", path), 0);
    CHECK(seal_key_open(path, &key, &err) < 0);
}
