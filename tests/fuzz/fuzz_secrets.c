/* Text of --secret, and packed secrets. What was accepted can be used and packed again. */

#include "fuzz.h"

#include "base/buf.h"
#include "base/crypto/secret.h"
#include "base/err.h"
#include "egress/keys/secrets.h"

static void try_replace(const struct secrets *secrets, struct str text)
{
    struct host host;
    struct err err;
    AUTO_BUF struct buf out = {.wipes = true};
    int done = host_parse(STR("ok.test"), &host, &err);
    assert(done == 0);
    (void)!placeholder_replace(secrets, &host, 443, STR("authorization"), text, &out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_n((const char *)data, size);
    struct err err = {0};
    struct secret_rule rule;
    AUTO_SECRETS struct secrets *secrets = NULL, *again = NULL, *one = secrets_new();
    AUTO_SECRET struct secret *packed = NULL;
    if (secret_rule_parse(text, &rule, &err) == 0) {
        assert(rule.place_count > 0 && rule.name[0] != '\0');
        int done = secrets_add(one, &rule, STR("cnry_0123456789abcdef"), &err);
        assert(done == 0);
    }
    if (secrets_unpack(text, &secrets, &err) == 0) {
        int done = secrets_pack(secrets, &packed, &err);
        assert(done == 0);
        done = secrets_unpack(secret_reveal(packed), &again, &err);
        assert(done == 0 && secrets_count(again) == secrets_count(secrets));
    }
    try_replace(secrets, text);
    return 0;
}
