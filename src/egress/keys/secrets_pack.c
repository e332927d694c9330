/* A sandbox's secrets as bytes, for the one process that sends them.
 *
 * "SGS1", a count, and for each secret its name, placeholder and value (empty: it has none), its
 * places and its headers.
 * Counts are one byte, texts have a length of two bytes before them, ports are two bytes; the low
 * byte first. Both ends are the same program. */

#include "base/buf.h"
#include "base/crypto/secret.h"
#include "base/err.h"
#include "egress/keys/secrets.h"

static const struct str magic = {"SGS1", 4};

/* --- Out --- */

static void put_u16(struct buf *out, size_t n)
{
    buf_put_char(out, (char)(n & 0xff));
    buf_put_char(out, (char)(n >> 8));
}

static void secrets_pack_put_text(struct buf *out, struct str text)
{
    put_u16(out, text.len);
    buf_put(out, text);
}

static void secrets_pack_put_entry(struct buf *out, const struct secret_entry *entry)
{
    const struct secret_rule *rule = &entry->rule;
    secrets_pack_put_text(out, str_of(rule->name));
    secrets_pack_put_text(out, str_of(entry->placeholder));
    secrets_pack_put_text(out,
                          entry->value == NULL ? (struct str){0} : secret_reveal(entry->value));
    buf_put_char(out, (char)rule->place_count);
    for (size_t i = 0; i < rule->place_count; i++) {
        secrets_pack_put_text(out, host_str(&rule->places[i].host));
        put_u16(out, rule->places[i].port);
    }
    buf_put_char(out, (char)rule->header_count);
    for (size_t i = 0; i < rule->header_count; i++)
        secrets_pack_put_text(out, str_of(rule->headers[i]));
}

int secrets_pack(const struct secrets *secrets, struct secret **ret_packed, struct err *err)
{
    AUTO_BUF struct buf out = {.wipes = true};
    buf_put(&out, magic);
    buf_put_char(&out, (char)secrets_count(secrets));
    for (size_t i = 0; i < secrets_count(secrets); i++)
        secrets_pack_put_entry(&out, secrets_at(secrets, i));
    if (out.len > SECRET_MAX)
        return err_set(err, ERR_TOO_LARGE, "the secrets of one sandbox exceed %d bytes",
                       SECRET_MAX);
    return secret_new(buf_str(&out), ret_packed, err);
}

/* --- In --- */

static bool take_u8(struct str *in, size_t *ret_n)
{
    if (in->len < 1)
        return false;
    *ret_n = (unsigned char)in->ptr[0];
    *in = str_slice(*in, 1, in->len);
    return true;
}

static bool take_u16(struct str *in, size_t *ret_n)
{
    size_t low, high;
    if (!take_u8(in, &low) || !take_u8(in, &high))
        return false;
    *ret_n = low | high << 8;
    return true;
}

static bool take_text(struct str *in, struct str *ret_text)
{
    size_t len;
    if (!take_u16(in, &len) || len > in->len)
        return false;
    *ret_text = str_slice(*in, 0, len);
    *in = str_slice(*in, len, in->len);
    return true;
}

static bool take_places(struct str *in, struct secret_rule *rule)
{
    struct err ignored;
    size_t count, port;
    struct str host;
    if (!take_u8(in, &count) || count > SECRET_PLACES_MAX)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!take_text(in, &host) || !take_u16(in, &port) || port == 0 ||
            host_parse(host, &rule->places[i].host, &ignored) < 0)
            return false;
        rule->places[i].port = (uint16_t)port;
    }
    rule->place_count = count;
    return true;
}

static bool take_headers(struct str *in, struct secret_rule *rule)
{
    struct err ignored;
    size_t count;
    struct str name;
    if (!take_u8(in, &count))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!take_text(in, &name) || secret_rule_add_header(rule, name, &ignored) < 0)
            return false;
    return true;
}

static bool take_entry(struct str *in, struct secrets *secrets)
{
    struct err ignored;
    struct secret_rule rule = {0};
    struct str name, placeholder, value;
    if (!take_text(in, &name) || !take_text(in, &placeholder) || !take_text(in, &value) ||
        !placeholder_is_shaped(placeholder) || secret_rule_set_name(&rule, name, &ignored) < 0 ||
        !take_places(in, &rule) || !take_headers(in, &rule) ||
        (value.len == 0 ? secrets_add_missing(secrets, &rule, &ignored)
                        : secrets_add(secrets, &rule, value, &ignored)) < 0)
        return false;
    const struct secret_entry *entry = secrets_at(secrets, secrets_count(secrets) - 1);
    /* The one that the sandbox holds already, instead of the new one. */
    memcpy(((struct secret_entry *)entry)->placeholder, placeholder.ptr, PLACEHOLDER_LEN);
    return true;
}

int secrets_unpack(struct str packed, struct secrets **ret_secrets, struct err *err)
{
    AUTO_SECRETS struct secrets *secrets = secrets_new();
    struct str in = str_slice(packed, magic.len, packed.len);
    size_t count = 0;
    bool good = str_starts(packed, magic) && take_u8(&in, &count);
    for (size_t i = 0; good && i < count; i++)
        good = take_entry(&in, secrets);
    if (!good || in.len > 0)
        return err_set(err, ERR_INVALID, "packed secrets are malformed");
    *ret_secrets = secrets;
    secrets = NULL;
    return 0;
}
