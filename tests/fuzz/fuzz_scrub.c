/* Bytes of an answer in pieces: what comes out is the same for every cut, and holds no value. */

#include "fuzz.h"

#include "base/buf.h"
#include "base/err.h"
#include "egress/keys/scrub.h"
#include "egress/keys/secrets.h"

static const char *const values[] = {"abababab\"ba", "%41\\u0041&", "cnry_0123"};
static struct secrets *secrets;
static struct host host;

static void start(void)
{
    static const char *const rules[] = {"A=env:K@ok.test", "B=env:K@ok.test", "C=env:K@ok.test"};
    struct err err = {0};
    secrets = secrets_new();
    for (size_t i = 0; i < countof(values); i++) {
        struct secret_rule rule;
        int done = secret_rule_parse(str_of(rules[i]), &rule, &err);
        assert(done == 0);
        done = secrets_add(secrets, &rule, str_of(values[i]), &err);
        assert(done == 0);
    }
    int done = host_parse(STR("ok.test"), &host, &err);
    assert(done == 0);
}

static void filter(struct str text, size_t step, enum scrub_mode mode, struct buf *out)
{
    AUTO_SCRUB struct scrub *scrub = scrub_new(secrets, &host, 443, mode);
    for (size_t at = 0; at < text.len; at += step)
        scrub_feed(scrub, str_slice(text, at, at + step), out);
    scrub_end(scrub, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (secrets == NULL)
        start();
    if (size < 2)
        return 0;
    struct str text = str_n((const char *)data + 1, size - 1);
    AUTO_BUF struct buf whole = {0}, parts = {0}, masked = {0};
    filter(text, text.len, SCRUB_REPLACE, &whole);
    filter(text, (size_t)data[0] + 1, SCRUB_REPLACE, &parts);
    filter(text, (size_t)data[0] + 1, SCRUB_MASK, &masked);
    assert(str_eq(buf_str(&whole), buf_str(&parts)));
    assert(masked.len == text.len);
    /* The placeholder of another may complete nothing: its letters are not in these values. */
    for (size_t i = 0; i < countof(values); i++)
        assert(str_find(buf_str(&whole), str_of(values[i])) == whole.len);
    return 0;
}
