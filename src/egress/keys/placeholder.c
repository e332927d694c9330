#include "egress/keys/placeholder.h"

#include "base/buf.h"
#include "base/crypto/hash.h"
#include "base/crypto/secret.h"
#include "base/format/base64.h"
#include "base/id.h"
#include "egress/keys/secrets.h"

/* A user name and a placeholder fit; anything longer is not treated as Basic authorization. */
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

/* The entry whose placeholder `token` is, if it may go there in this header. Every entry is
 * compared in full: how near a guess comes does not show in the time it takes. */
static const struct secret_entry *placeholder_find(const struct secrets *secrets,
                                                   const struct host *host, uint16_t port,
                                                   struct str name, struct str token)
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

/* A header's value taken apart: the secret that its token, its user or its password stands for. */
struct match {
    const struct secret_entry *entry; /* NULL: none */
    struct str scheme;                /* "Bearer"; empty: only the token */
    bool is_basic, is_user;
    struct buf plain; /* of Basic: "user:password" */
    size_t colon;     /* in it */
};

static void match_basic(struct match *match, const struct secrets *secrets, const struct host *host,
                        uint16_t port, struct str name, struct str credentials)
{
    match->is_basic = true;
    if (credentials.len > BASIC_MAX / 3 * 4 || !base64_read(credentials, &match->plain))
        return;
    struct str text = buf_str(&match->plain);
    match->colon = str_find_char(text, ':');
    if (match->colon == text.len)
        return;
    match->entry =
        placeholder_find(secrets, host, port, name, str_slice(text, match->colon + 1, text.len));
    match->is_user = match->entry == NULL;
    if (match->is_user)
        match->entry =
            placeholder_find(secrets, host, port, name, str_slice(text, 0, match->colon));
}

static void match_value(struct match *match, const struct secrets *secrets, const struct host *host,
                        uint16_t port, struct str name, struct str value)
{
    struct str token = str_trim(value);
    if (secrets_count(secrets) == 0 || value.len == 0)
        return;
    size_t blank = str_find_char(token, ' ');
    if (blank < token.len) {
        match->scheme = str_slice(token, 0, blank);
        token = str_trim(str_slice(token, blank, token.len));
    }
    if (str_eq_nocase(match->scheme, STR("Basic")))
        match_basic(match, secrets, host, port, name, token);
    else
        match->entry = placeholder_find(secrets, host, port, name, token);
}

/* "user:password" with one of the two a placeholder. A value with a colon cannot be a user. */
static bool put_basic(const struct match *match, struct buf *out)
{
    struct str text = buf_str(&match->plain), value = secret_reveal(match->entry->value);
    struct str user = str_slice(text, 0, match->colon);
    struct str password = str_slice(text, match->colon + 1, text.len);
    if (match->is_user && str_find_char(value, ':') < value.len)
        return false;
    AUTO_BUF struct buf filled = {.wipes = true};
    buf_put(&filled, match->is_user ? value : user);
    buf_put_char(&filled, ':');
    buf_put(&filled, match->is_user ? password : value);
    buf_put_cstr(out, "Basic ");
    base64_put(buf_str(&filled), out);
    return true;
}

bool placeholder_replace(const struct secrets *secrets, const struct host *host, uint16_t port,
                         struct str name, struct str value, struct buf *out)
{
    struct match match = {0};
    match_value(&match, secrets, host, port, name, value);
    bool is_filled = match.entry != NULL && match.entry->value != NULL;
    if (is_filled && match.is_basic) {
        is_filled = put_basic(&match, out);
    } else if (is_filled) {
        buf_put(out, match.scheme);
        if (match.scheme.len > 0)
            buf_put_char(out, ' ');
        buf_put(out, secret_reveal(match.entry->value));
    }
    buf_done(&match.plain);
    return is_filled;
}

const char *placeholder_without_value(const struct secrets *secrets, const struct host *host,
                                      uint16_t port, struct str name, struct str value)
{
    struct match match = {0};
    match_value(&match, secrets, host, port, name, value);
    buf_done(&match.plain);
    return match.entry != NULL && match.entry->value == NULL ? match.entry->rule.name : NULL;
}
