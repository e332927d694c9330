#include "egress/placeholder.h"

#include "base/base64.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/secret.h"
#include "egress/secrets.h"

/* A user name and a placeholder fit; what is longer is nobody's Basic authorization. */
enum { BASIC_MAX = 512 };

static const struct str prefix = {"sgs_", 4};

void placeholder_new(char out[PLACEHOLDER_SIZE])
{
    char token[TOKEN_SIZE];
    id_new_token(token);
    memcpy(out, prefix.ptr, prefix.len);
    memcpy(out + prefix.len, token, PLACEHOLDER_LEN - prefix.len);
    out[PLACEHOLDER_LEN] = '\0';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '2' && c <= '7');
}

bool placeholder_is_shaped(struct str text)
{
    if (text.len != PLACEHOLDER_LEN || !str_starts(text, prefix))
        return false;
    for (size_t i = prefix.len; i < text.len; i++)
        if (!is_letter(text.ptr[i]))
            return false;
    return true;
}

size_t placeholder_find(struct str text)
{
    for (size_t at = 0; text.len - at >= PLACEHOLDER_LEN;) {
        struct str rest = str_slice(text, at, text.len);
        size_t found = str_find(rest, prefix);
        if (found == rest.len)
            break;
        if (placeholder_is_shaped(str_slice(rest, found, found + PLACEHOLDER_LEN)))
            return at + found;
        at += found + 1;
    }
    return text.len;
}

/* The entry whose placeholder `token` is, if it may go there in this header. Every entry is
 * compared in full: how near a guess comes does not show in the time it takes. */
static const struct secret_entry *find(const struct secrets *secrets, const struct host *host,
                                       uint16_t port, struct str name, struct str token)
{
    const struct secret_entry *found = NULL;
    if (!placeholder_is_shaped(token))
        return NULL;
    for (size_t i = 0; i < secrets_count(secrets); i++) {
        const struct secret_entry *entry = secrets_at(secrets, i);
        bool is_it = hash_equal(entry->placeholder, token.ptr, PLACEHOLDER_LEN);
        if (is_it && secret_goes_to(entry, host, port) && secret_names_header(entry, name))
            found = entry;
    }
    return found;
}

/* "user:password" with one of the two a placeholder. A value with a colon cannot be a user. */
static bool replace_basic(const struct secrets *secrets, const struct host *host, uint16_t port,
                          struct str name, struct str credentials, struct buf *out)
{
    AUTO_BUF struct buf plain = {0};
    if (credentials.len > BASIC_MAX / 3 * 4 || !base64_read(credentials, &plain))
        return false;
    struct str text = buf_str(&plain);
    size_t colon = str_find_char(text, ':');
    if (colon == text.len)
        return false;
    struct str user = str_slice(text, 0, colon), password = str_slice(text, colon + 1, text.len);
    const struct secret_entry *entry = find(secrets, host, port, name, password);
    bool is_user = entry == NULL;
    if (is_user)
        entry = find(secrets, host, port, name, user);
    if (entry == NULL)
        return false;
    struct str value = secret_reveal(entry->value);
    if (is_user && str_find_char(value, ':') < value.len)
        return false;
    AUTO_BUF struct buf filled = {.wipes = true};
    buf_put(&filled, is_user ? value : user);
    buf_put_char(&filled, ':');
    buf_put(&filled, is_user ? password : value);
    base64_put(buf_str(&filled), out);
    return true;
}

bool placeholder_replace(const struct secrets *secrets, const struct host *host, uint16_t port,
                         struct str name, struct str value, struct buf *out)
{
    if (secrets_count(secrets) == 0 || value.len == 0)
        return false;
    struct str token = str_trim(value), scheme = {0};
    size_t blank = str_find_char(token, ' ');
    if (blank < token.len) {
        scheme = str_slice(token, 0, blank);
        token = str_trim(str_slice(token, blank, token.len));
    }
    if (str_eq_nocase(scheme, STR("Basic"))) {
        size_t before = out->len;
        buf_put_cstr(out, "Basic ");
        if (replace_basic(secrets, host, port, name, token, out))
            return true;
        out->len = before;
        return false;
    }
    const struct secret_entry *entry = find(secrets, host, port, name, token);
    if (entry == NULL)
        return false;
    if (scheme.len > 0) {
        buf_put(out, scheme);
        buf_put_char(out, ' ');
    }
    buf_put(out, secret_reveal(entry->value));
    return true;
}
