#include "egress/keys/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/crypto/secret.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"

struct secrets {
    struct secret_entry *entries[SECRETS_MAX];
    size_t count;
};

static const char *const default_headers[] = {"authorization", "x-api-key"};

/* --- Rules --- */

static bool is_variable(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!is_word && !(i > 0 && char_is_digit(c)))
            return false;
    }
    return s.len > 0;
}

int secret_rule_set_name(struct secret_rule *rule, struct str name, struct err *err)
{
    if (!is_variable(name) || name.len > SECRET_NAME_MAX)
        return err_set(err, ERR_INVALID,
                       "a secret's name must be a variable name: up to %d letters, digits and '_'",
                       SECRET_NAME_MAX);
    return str_to_cstr(name, rule->name, sizeof rule->name, err);
}

int secret_rule_set_from(struct secret_rule *rule, struct str from, struct err *err)
{
    struct str env = STR("env:"), file = STR("file:");
    bool is_env = str_starts(from, env) && is_variable(str_slice(from, env.len, from.len));
    bool is_file = str_starts(from, file) && from.len > file.len;
    /* What stands here instead may be the key itself: it is not repeated. */
    if (!is_env && !is_file)
        return err_set(err, ERR_INVALID,
                       "secret %s: the source of its value must be env:VARIABLE or file:/PATH; "
                       "never write the value itself here",
                       rule->name);
    return str_to_cstr(from, rule->from, sizeof rule->from, err);
}

/* The colon before a port, past an IPv6 address; text.len without one. */
static size_t port_colon(struct str text)
{
    size_t from = text.len > 0 && text.ptr[0] == '[' ? str_find_char(text, ']') : 0;
    return from + str_find_char(str_slice(text, from, text.len), ':');
}

int secret_rule_add_place(struct secret_rule *rule, struct str text, struct err *err)
{
    struct secret_place place = {.port = 443};
    size_t colon = port_colon(text);
    int64_t port = 443;
    if (rule->place_count == SECRET_PLACES_MAX)
        return err_set(err, ERR_INVALID, "secret %s: more than %d hosts", rule->name,
                       SECRET_PLACES_MAX);
    if (str_find_char(text, '*') < text.len)
        return err_set(err, ERR_INVALID, "secret %s: hosts must be exact names, without '*'",
                       rule->name);
    if (str_find(text, STR("://")) < text.len)
        return err_set(err, ERR_INVALID,
                       "secret %s: a host is expected, not a URL: write only HOST or HOST:PORT",
                       rule->name);
    if (colon < text.len && (!str_to_i64(str_slice(text, colon + 1, text.len), 1, 65535, &port)))
        return err_set(err, ERR_INVALID, "secret %s: a port must be a number from 1 to 65535",
                       rule->name);
    if (host_parse(str_slice(text, 0, colon), &place.host, err) < 0)
        return err_wrap(err, "secret %s", rule->name);
    place.port = (uint16_t)port;
    rule->places[rule->place_count++] = place;
    return 0;
}

/* Headers that frame a message, or that a server sends back or writes into its logs as a matter of
 * course, carry no secret. */
static bool is_unfit(struct str name)
{
    static const char *const names[] = {
        "host",
        "connection",
        "keep-alive",
        "transfer-encoding",
        "content-length",
        "upgrade",
        "te",
        "trailer",
        "expect",
        "http2-settings",
        "user-agent",
        "referer",
        "accept-encoding",
    };
    for (size_t i = 0; i < countof(names); i++)
        if (str_eq(name, str_of(names[i])))
            return true;
    return str_starts(name, STR("proxy-"));
}

int secret_rule_add_header(struct secret_rule *rule, struct str name, struct err *err)
{
    if (rule->header_count == SECRET_HEADERS_MAX)
        return err_set(err, ERR_INVALID, "secret %s: more than %d headers", rule->name,
                       SECRET_HEADERS_MAX);
    if (name.len == 0 || name.len > SECRET_HEADER_LEN_MAX)
        return err_set(err, ERR_INVALID, "secret %s: a header's name must have 1 to %d letters",
                       rule->name, SECRET_HEADER_LEN_MAX);
    char *out = rule->headers[rule->header_count];
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        out[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
        bool is_fine = (out[i] >= 'a' && out[i] <= 'z') || char_is_digit(c) || c == '-' || c == '_';
        if (!is_fine)
            return err_set(err, ERR_INVALID,
                           "secret %s: a header's name may have only letters, digits, '-' and '_'",
                           rule->name);
    }
    out[name.len] = '\0';
    if (is_unfit(str_of(out)))
        return err_set(err, ERR_INVALID, "secret %s: header %s may not carry a key", rule->name,
                       out);
    rule->header_count++;
    return 0;
}

static int add_each(struct secret_rule *rule, struct str list,
                    int (*add)(struct secret_rule *, struct str, struct err *), struct err *err)
{
    struct str item;
    while (str_split(&list, ',', &item))
        if (add(rule, str_trim(item), err) < 0)
            return -1;
    return 0;
}

static size_t find_last(struct str s, char c)
{
    const char *at = s.len == 0 ? NULL : memrchr(s.ptr, c, s.len);
    return at == NULL ? s.len : (size_t)(at - s.ptr);
}

int secret_rule_parse(struct str text, struct secret_rule *ret_rule, struct err *err)
{
    struct secret_rule rule = {0};
    size_t equals = str_find_char(text, '=');
    if (equals == text.len)
        return err_set(err, ERR_INVALID, "a secret is written NAME=env:VARIABLE@HOST");
    if (secret_rule_set_name(&rule, str_slice(text, 0, equals), err) < 0)
        return -1;
    struct str rest = str_slice(text, equals + 1, text.len);
    size_t at = find_last(rest, '@'); /* a path may hold another */
    struct str places = str_slice(rest, at + 1, rest.len);
    size_t hash = str_find_char(places, '#');
    struct str headers = str_slice(places, hash + 1, places.len);
    if (secret_rule_set_from(&rule, str_slice(rest, 0, at), err) < 0)
        return -1;
    if (at == rest.len || hash == 0 || places.len == 0)
        return err_set(err, ERR_INVALID,
                       "secret %s: the host that it may be sent to is missing; write "
                       "NAME=env:VARIABLE@HOST[:PORT]",
                       rule.name);
    if (add_each(&rule, str_slice(places, 0, hash), secret_rule_add_place, err) < 0)
        return -1;
    if (hash < places.len && add_each(&rule, headers, secret_rule_add_header, err) < 0)
        return -1;
    *ret_rule = rule;
    return 0;
}

/* --- A sandbox's secrets --- */

struct secrets *secrets_new(void)
{
    return mem_alloc(sizeof(struct secrets));
}

static void entry_free(struct secret_entry *entry)
{
    (void)secret_free(entry->value);
    explicit_bzero(entry, sizeof *entry);
    free(entry);
}

struct secrets *secrets_free(struct secrets *secrets)
{
    if (secrets == NULL)
        return NULL;
    for (size_t i = 0; i < secrets->count; i++)
        entry_free(secrets->entries[i]);
    free(secrets);
    return NULL;
}

static int check_value(const struct secret_rule *rule, struct str value, struct err *err)
{
    if (value.len < SECRET_VALUE_MIN || value.len > SECRET_VALUE_MAX)
        return err_set(err, ERR_INVALID, "secret %s: its value must have %d to %d characters",
                       rule->name, SECRET_VALUE_MIN, SECRET_VALUE_MAX);
    bool is_fine = value.ptr[0] != ' ' && value.ptr[value.len - 1] != ' ';
    for (size_t i = 0; i < value.len; i++)
        is_fine = is_fine && value.ptr[i] >= 0x20 && value.ptr[i] < 0x7f;
    if (!is_fine)
        return err_set(err, ERR_INVALID,
                       "secret %s: its value must be one line of printable ASCII without leading "
                       "or trailing blanks",
                       rule->name);
    return 0;
}

static struct str without_line_end(struct str value)
{
    if (str_ends(value, STR("\n")))
        value.len--;
    if (str_ends(value, STR("\r")))
        value.len--;
    return value;
}

static int check_new(const struct secrets *secrets, const struct secret_rule *rule, struct err *err)
{
    if (rule->name[0] == '\0' || rule->place_count == 0)
        return err_set(err, ERR_INVALID, "a secret needs a name and a host");
    if (secrets->count == SECRETS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d secrets", SECRETS_MAX);
    for (size_t i = 0; i < secrets->count; i++)
        if (strcmp(secrets->entries[i]->rule.name, rule->name) == 0)
            return err_set(err, ERR_INVALID, "secret %s is given twice", rule->name);
    return 0;
}

/* Takes `value`, which may be NULL. */
static void add_entry(struct secrets *secrets, const struct secret_rule *rule, struct secret *value)
{
    struct secret_entry *entry = mem_alloc(sizeof *entry);
    entry->rule = *rule;
    entry->value = value;
    for (size_t i = 0; rule->header_count == 0 && i < countof(default_headers); i++) {
        (void)snprintf(entry->rule.headers[i], sizeof entry->rule.headers[i], "%s",
                       default_headers[i]);
        entry->rule.header_count++;
    }
    placeholder_new(entry->placeholder);
    secrets->entries[secrets->count++] = entry;
}

int secrets_add(struct secrets *secrets, const struct secret_rule *rule, struct str value,
                struct err *err)
{
    struct secret *kept = NULL;
    value = without_line_end(value);
    if (check_new(secrets, rule, err) < 0 || check_value(rule, value, err) < 0 ||
        secret_new(value, &kept, err) < 0)
        return -1;
    add_entry(secrets, rule, kept);
    return 0;
}

int secrets_add_missing(struct secrets *secrets, const struct secret_rule *rule, struct err *err)
{
    if (check_new(secrets, rule, err) < 0)
        return -1;
    add_entry(secrets, rule, NULL);
    return 0;
}

static int load_file(struct secrets *secrets, const struct secret_rule *rule, struct err *err)
{
    const char *path = &rule->from[strlen("file:")];
    AUTO_BUF struct buf text = {.limit = SECRET_VALUE_MAX + 2, .wipes = true};
    /* A FIFO would block, a terminal would ask. */
    AUTO_CLOSE int fd = SYS(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat st;
    if (fd < 0 || SYS(fstat(fd, &st)) < 0)
        return err_sys(err, errno, "secret %s: open '%s'", rule->name, path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_INVALID, "secret %s: '%s' is not a regular file", rule->name, path);
    if (buf_read_all(&text, fd, err) < 0)
        return err_wrap(err, "secret %s: '%s'", rule->name, path);
    return secrets_add(secrets, rule, buf_str(&text), err);
}

int secrets_load(struct secrets *secrets, const struct secret_rule *rule, struct err *err)
{
    if (str_starts(str_of(rule->from), STR("file:")))
        return load_file(secrets, rule, err);
    assert(str_starts(str_of(rule->from), STR("env:")));
    const char *variable = rule->from + strlen("env:");
    AUTO_SECRET struct secret *value = NULL;
    if (secret_take_env(variable, &value, err) < 0)
        return err_wrap(err, "secret %s", rule->name);
    if (value == NULL)
        return err_set(err, ERR_NOT_FOUND, "secret %s: environment variable %s is not set",
                       rule->name, variable);
    return secrets_add(secrets, rule, secret_reveal(value), err);
}

void secrets_keep_placeholders(struct secrets *secrets, const struct secrets *before)
{
    for (size_t i = 0; i < secrets->count; i++)
        for (size_t k = 0; k < secrets_count(before); k++)
            if (strcmp(secrets->entries[i]->rule.name, before->entries[k]->rule.name) == 0)
                memcpy(secrets->entries[i]->placeholder, before->entries[k]->placeholder,
                       PLACEHOLDER_SIZE);
}

size_t secrets_count(const struct secrets *secrets)
{
    return secrets == NULL ? 0 : secrets->count;
}

const struct secret_entry *secrets_at(const struct secrets *secrets, size_t index)
{
    assert(index < secrets_count(secrets));
    return secrets->entries[index];
}

void secrets_put_env(const struct secrets *secrets, struct buf *out)
{
    for (size_t i = 0; i < secrets_count(secrets); i++) {
        const struct secret_entry *entry = secrets_at(secrets, i);
        buf_printf(out, "%s=%s\n", entry->rule.name, entry->placeholder);
    }
}

bool secret_goes_to(const struct secret_entry *entry, const struct host *host, uint16_t port)
{
    for (size_t i = 0; i < entry->rule.place_count; i++) {
        const struct secret_place *place = &entry->rule.places[i];
        if (place->port == port && str_eq(host_str(&place->host), host_str(host)))
            return true;
    }
    return false;
}

bool secrets_go_to(const struct secrets *secrets, const struct host *host, uint16_t port)
{
    for (size_t i = 0; i < secrets_count(secrets); i++)
        if (secret_goes_to(secrets->entries[i], host, port))
            return true;
    return false;
}

bool secret_names_header(const struct secret_entry *entry, struct str name)
{
    for (size_t i = 0; i < entry->rule.header_count; i++)
        if (str_eq_nocase(str_of(entry->rule.headers[i]), name))
            return true;
    return false;
}
