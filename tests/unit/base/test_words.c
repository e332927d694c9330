/* Errors, ids, digests, time, secrets: the small words. */

#include "test.h"

#include <errno.h>

#include "base/clock.h"
#include "base/crypto/hash.h"
#include "base/crypto/secret.h"
#include "base/id.h"
#include "base/sip.h"

TEST(err_reads_from_outside_in)
{
    struct err err = {0};
    CHECK_INT(err_sys(&err, EPERM, "mount '%s'", "/proc"), -1);
    CHECK_INT(err_wrap(&err, "start sandbox '%s'", "a1b2"), -1);
    CHECK_CSTR(err.msg, "start sandbox 'a1b2': mount '/proc': Operation not permitted");
    CHECK_INT(err.code, ERR_FORBIDDEN);
    CHECK_INT(err.sys, EPERM);
}

TEST(err_messages_are_cut_not_overrun)
{
    struct err err = {0};
    char longer[1000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    (void)err_set(&err, ERR_INVALID, "%s", longer);
    CHECK_INT(strlen(err.msg), ERR_MSG_MAX - 1);
    (void)err_wrap(&err, "%s", longer);
    CHECK_INT(strlen(err.msg), ERR_MSG_MAX - 1);
    (void)err_sys(&err, ENOENT, "%s", longer);
    CHECK_INT(strlen(err.msg), ERR_MSG_MAX - 1);
}

TEST(err_table_is_one)
{
    CHECK_CSTR(err_wire_name(ERR_NOT_FOUND), "not_found");
    CHECK_INT(err_http_status(ERR_NOT_FOUND), 404);
    CHECK_INT(err_http_status(ERR_COUNT), 500);
    for (int code = 0; code < ERR_COUNT; code++)
        CHECK(err_wire_name((enum err_code)code) != NULL);
    CHECK_INT(err_code_of_errno(ENOSPC), ERR_NO_SPACE);
    CHECK_INT(err_code_of_errno(12345), ERR_INTERNAL);
}

TEST(ids_are_random_and_valid)
{
    char a[ID_SIZE], b[ID_SIZE], token[TOKEN_SIZE];
    id_new(a);
    id_new(b);
    id_new_token(token);
    CHECK(strcmp(a, b) != 0);
    CHECK(id_is_valid(str_of(a)));
    CHECK_INT(strlen(token), TOKEN_LEN);
    CHECK(!id_is_valid(STR("short")));
    CHECK(!id_is_valid(STR("UPPERCASE1")));
    CHECK(!id_is_valid(STR("../../etc/passwd")));
    CHECK(!id_is_valid(STR("abcdefgh\0")));
}

TEST(hashes_match_known_answers)
{
    char hex[HASH_HEX_SIZE];
    hash_sha256_hex(STR("abc"), hex);
    CHECK_CSTR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    hash_sha256_hex((struct str){0}, hex);
    CHECK_CSTR(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    hash_hmac_hex(STR("Jefe"), STR("what do ya want for nothing?"), hex); /* RFC 4231, 4.3 */
    CHECK_CSTR(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    CHECK(hash_equal("abcd", "abcd", 4));
    CHECK(!hash_equal("abcd", "abce", 4));
    CHECK(sip_hash(STR("a")) == sip_hash(STR("a")));
    CHECK(sip_hash(STR("a")) != sip_hash(STR("b")));
}

TEST(clock_formats_utc)
{
    char text[CLOCK_TEXT_SIZE];
    clock_format_utc(0, text);
    CHECK_CSTR(text, "1970-01-01T00:00:00.000Z");
    clock_format_utc(1763199000123, text);
    CHECK_CSTR(text, "2025-11-15T09:30:00.123Z");
    clock_format_utc(-1, text); /* files may be as old as they like */
    CHECK_CSTR(text, "1969-12-31T23:59:59.999Z");
    clock_format_utc(INT64_MIN / 1000000, text);
    CHECK_CSTR(text, "1677-09-21T00:12:43.146Z");
    int64_t before = clock_now_ns();
    CHECK(clock_now_ns() >= before);
}

TEST(secret_is_kept_and_bounded)
{
    struct err err = {0};
    AUTO_SECRET struct secret *secret = NULL;
    CHECK_OK(secret_new(STR("s3cr3t"), &secret, &err));
    CHECK_STR(secret_reveal(secret), "s3cr3t");
    static char big[SECRET_MAX + 1];
    struct secret *none = NULL;
    CHECK_ERR(secret_new(str_n(big, sizeof big), &none, &err), ERR_TOO_LARGE);
    CHECK(none == NULL);
}
