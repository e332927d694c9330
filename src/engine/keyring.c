#include "engine/keyring.h"

#include <limits.h>

#include "base/crypto/hash.h"
#include "base/crypto/seal.h"
#include "base/crypto/secret.h"
#include "base/format/json.h"
#include "base/log.h"
#include "base/map.h"
#include "config/config.h"
#include "egress/keys/opened.h"
#include "egress/keys/secrets.h"
#include "engine/internal.h"

/* What stands for the sealed value of a secret that the configuration has. */
static const struct str is_kept = {"-", 1};

/* --- Rules --- */

/* What stands in a field may be a key that was put in the wrong place: it is not repeated. */
static int wrong(struct err *err, size_t index, const char *field, const char *why)
{
    return err_set(err, ERR_INVALID, "secrets[%zu]%s: %s", index, field, why);
}

static int rule_of(const struct sandbox_secret *secret, size_t index, struct secret_rule *ret_rule,
                   struct err *err)
{
    struct secret_rule rule = {0};
    struct err why = {0};
    if (secret_rule_set_name(&rule, secret->name, &why) < 0)
        return wrong(err, index, ".name", why.msg);
    if (secret->host_count == 0)
        return wrong(err, index, ".hosts",
                     "must name at least one host that the secret may be sent to");
    for (size_t i = 0; i < secret->host_count; i++)
        if (secret_rule_add_place(&rule, secret->hosts[i], &why) < 0)
            return wrong(err, index, ".hosts",
                         why.code == ERR_LIMIT
                             ? "too many"
                             : "each host must be an exact HOST or HOST:PORT, without *");
    for (size_t i = 0; i < secret->header_count; i++)
        if (secret_rule_add_header(&rule, secret->headers[i], &why) < 0)
            return wrong(err, index, ".headers",
                         "must be names of request headers that may carry a key");
    *ret_rule = rule;
    return 0;
}

/* --- Checking --- */

static bool is_given_to(const struct config_bound_secret *bound, const struct engine_caller *caller)
{
    return caller->is_operator || config_names_tenant(&bound->tenants, caller->tenant);
}

static int check_configured(const struct engine *engine, const struct engine_caller *caller,
                            const struct sandbox_secret *secret, size_t index,
                            struct secret_rule *ret_rule, struct err *err)
{
    const struct config_bound_secret *bound = config_bound_secret(engine->config, secret->config);
    if (secret->sealed.len == 0 &&
        secret->name.len + secret->value.len + secret->host_count + secret->header_count > 0)
        return wrong(err, index, "",
                     "'config' names a secret of the configuration and allows no other member");
    /* The same words for what is not there and what is not theirs. */
    if (bound == NULL || !is_given_to(bound, caller))
        return wrong(err, index, ".config",
                     "the configuration has no such [secrets.NAME] for this tenant");
    return config_secret_rule(bound, ret_rule, err);
}

static int check_value(const struct sandbox_secret *secret, const struct secret_rule *rule,
                       size_t index, struct err *err)
{
    AUTO_SECRETS struct secrets *one = secrets_new();
    if (secrets_add(one, rule, secret->value, err) < 0)
        return err_wrap(err, "secrets[%zu]", index);
    return 0;
}

int keyring_check(const struct engine *engine, const struct engine_caller *caller,
                  const struct sandbox_secrets *secrets, const struct policy *policy,
                  struct err *err)
{
    if (secrets->len > SANDBOX_SECRETS_MAX)
        return err_set(err, ERR_INVALID, "secrets: more than %d", SANDBOX_SECRETS_MAX);
    for (size_t i = 0; i < secrets->len; i++) {
        const struct sandbox_secret *secret = &secrets->items[i];
        struct secret_rule rule;
        struct err why = {0};
        bool is_configured = secret->config.len > 0;
        if ((is_configured ? check_configured(engine, caller, secret, i, &rule, err)
                           : rule_of(secret, i, &rule, err)) < 0)
            return -1;
        if (secret->value.len > 0 && check_value(secret, &rule, i, err) < 0)
            return -1;
        for (size_t k = 0; k < i; k++)
            if ((secret->name.len > 0 && str_eq(secret->name, secrets->items[k].name)) ||
                (is_configured && str_eq(secret->config, secrets->items[k].config)))
                return wrong(err, i, "", "is given twice");
        if (policy != NULL && opened_check_rule(&rule, policy, "", &why) < 0)
            return wrong(err, i, ".hosts",
                         "the network policy does not allow this host; let 'network' allow it, "
                         "with its port");
    }
    return 0;
}

/* --- Sealing --- */

static int open_key(struct engine *engine, struct err *err)
{
    char path[PATH_MAX];
    if (engine->seal_key != NULL)
        return 0;
    (void)snprintf(path, sizeof path, "%s/secrets.key", engine->data_dir);
    return seal_key_open(path, &engine->seal_key, err);
}

/* What a sealed value is for: it opens for nothing else. */
static void put_purpose(struct str tenant, const struct sandbox_secret *secret, struct buf *out)
{
    buf_printf(out, "%.*s\n%.*s", STR_ARG(tenant), STR_ARG(secret->name));
    for (size_t i = 0; i < secret->host_count; i++)
        buf_printf(out, "\n@%.*s", STR_ARG(secret->hosts[i]));
    for (size_t i = 0; i < secret->header_count; i++)
        buf_printf(out, "\n#%.*s", STR_ARG(secret->headers[i]));
}

int keyring_hash(struct engine *engine, const char *use, struct str text, char out[HASH_HEX_SIZE],
                 struct err *err)
{
    AUTO_BUF struct buf whole = {0};
    if (open_key(engine, err) < 0)
        return -1;
    buf_printf(&whole, "%s\n", use);
    buf_put(&whole, text);
    hash_hmac_hex(secret_reveal(engine->seal_key), buf_str(&whole), out);
    return 0;
}

static int unseal(struct engine *engine, struct str tenant, const struct sandbox_secret *secret,
                  struct buf *out, struct err *err)
{
    AUTO_BUF struct buf purpose = {0};
    put_purpose(tenant, secret, &purpose);
    if (open_key(engine, err) < 0)
        return -1;
    if (seal_open(engine->seal_key, buf_str(&purpose), secret->sealed, out, err) < 0)
        return err_wrap(err, "secret %.*s", STR_ARG(secret->name));
    return 0;
}

static const struct str *dup_list(const struct str *list, size_t count, struct arena *arena)
{
    struct str *items = arena_array(arena, struct str, count + 1);
    for (size_t i = 0; i < count; i++)
        items[i] = arena_dup(arena, list[i]);
    return items;
}

static const struct sandbox_secret *keyring_find(const struct sandbox_secrets *secrets,
                                                 struct str name)
{
    for (size_t i = 0; secrets != NULL && i < secrets->len; i++)
        if (secrets->items[i].config.len == 0 && str_eq(secrets->items[i].name, name))
            return &secrets->items[i];
    return NULL;
}

static bool is_same_list(const struct str *a, size_t a_count, const struct str *b, size_t b_count)
{
    bool is_same = a_count == b_count;
    for (size_t i = 0; is_same && i < a_count; i++)
        is_same = str_eq(a[i], b[i]);
    return is_same;
}

/* The value of a secret: the one that is given, or the sealed one that was passed along or existed
 * before. A sealed value keeps its hosts: otherwise a caller that may change a sandbox could have
 * its keys sent to a host of their own. */
static int seal_one(struct engine *engine, struct str tenant, const struct sandbox_secret *given,
                    const struct sandbox_secret *before, struct sandbox_secret *kept,
                    struct arena *arena, struct err *err)
{
    AUTO_BUF struct buf purpose = {0}, sealed = {0};
    const struct sandbox_secret *from = given->sealed.len > 0 ? given : before;
    if (given->value.len == 0) {
        if (from == NULL)
            return err_set(err, ERR_INVALID, "secret %.*s has no value", STR_ARG(given->name));
        if (!is_same_list(from->hosts, from->host_count, given->hosts, given->host_count) ||
            !is_same_list(from->headers, from->header_count, given->headers, given->header_count))
            return err_set(err, ERR_INVALID,
                           "secret %.*s: to change its hosts or headers, give its value again",
                           STR_ARG(given->name));
        kept->sealed = arena_dup(arena, from->sealed);
        return 0;
    }
    put_purpose(tenant, kept, &purpose);
    if (open_key(engine, err) < 0 ||
        seal_put(engine->seal_key, buf_str(&purpose), given->value, &sealed, err) < 0)
        return -1;
    kept->sealed = arena_dup(arena, buf_str(&sealed));
    return 0;
}

/* What the configuration names is kept by its name; the rest is for answers. */
static int keep_configured(const struct engine *engine, struct arena *arena,
                           struct sandbox_secret *kept, struct err *err)
{
    const struct config_bound_secret *bound = config_bound_secret(engine->config, kept->config);
    if (bound == NULL)
        return err_set(err, ERR_NOT_FOUND, "the configuration no longer has a secret '%.*s'",
                       STR_ARG(kept->config));
    kept->sealed = is_kept;
    kept->name = arena_dup(arena, bound->variable);
    kept->hosts = dup_list(bound->hosts.items, bound->hosts.len, arena);
    kept->headers = dup_list(bound->headers.items, bound->headers.len, arena);
    kept->host_count = bound->hosts.len;
    kept->header_count = bound->headers.len;
    return 0;
}

int keyring_keep(struct engine *engine, struct str tenant, const struct sandbox_secrets *secrets,
                 const struct sandbox_secrets *before, struct arena *arena,
                 struct sandbox_secrets *ret_kept, struct err *err)
{
    struct sandbox_secret *items = arena_array(arena, struct sandbox_secret, secrets->len + 1);
    for (size_t i = 0; i < secrets->len; i++) {
        const struct sandbox_secret *given = &secrets->items[i];
        items[i] = (struct sandbox_secret){
            .name = arena_dup(arena, given->name),
            .config = arena_dup(arena, given->config),
            .hosts = dup_list(given->hosts, given->host_count, arena),
            .headers = dup_list(given->headers, given->header_count, arena),
            .host_count = given->host_count,
            .header_count = given->header_count,
        };
        if ((given->config.len > 0
                 ? keep_configured(engine, arena, &items[i], err)
                 : seal_one(engine, tenant, given, keyring_find(before, given->name), &items[i],
                            arena, err)) < 0)
            return -1;
    }
    *ret_kept = (struct sandbox_secrets){items, secrets->len};
    return 0;
}

/* --- Opening --- */

/* A session works without a key that is not set; the gateway reports that to a program that uses
 * the key. */
static int open_of_dependency(const struct engine *engine, struct str name, struct secrets *secrets,
                              struct err *err)
{
    const struct config_bound_secret *bound = config_bound_secret(engine->config, name);
    struct secret_rule rule;
    struct err why = {0};
    if (bound == NULL) {
        log_info("secret.gone", LOG_VIEW("secret", name));
        return 0;
    }
    if (config_secret_rule(bound, &rule, err) < 0)
        return -1;
    if (bound->value != NULL && secrets_add(secrets, &rule, secret_reveal(bound->value), &why) == 0)
        return 0;
    return secrets_add_missing(secrets, &rule, err);
}

static int open_configured(const struct engine *engine, const struct sandbox_secret *secret,
                           struct secrets *secrets, struct err *err)
{
    const struct config_bound_secret *bound = config_bound_secret(engine->config, secret->config);
    struct secret_rule rule;
    if (str_starts(secret->config, STR(CONFIG_OF_DEPENDENCY)))
        return open_of_dependency(engine, secret->config, secrets, err);
    if (bound == NULL)
        return err_set(err, ERR_NOT_FOUND, "the configuration no longer has [secrets.%.*s]",
                       STR_ARG(secret->config));
    if (config_secret_rule(bound, &rule, err) < 0)
        return -1;
    if (bound->value != NULL)
        return secrets_add(secrets, &rule, secret_reveal(bound->value), err);
    if (str_starts(bound->from, STR("env:")))
        return err_set(err, ERR_NOT_FOUND, "secret %s: the server's environment has no %s",
                       rule.name, rule.from + strlen("env:"));
    return secrets_load(secrets, &rule, err);
}

static int open_sealed(struct engine *engine, struct str tenant,
                       const struct sandbox_secret *secret, size_t index, struct secrets *secrets,
                       struct err *err)
{
    AUTO_BUF struct buf value = {.limit = SECRET_VALUE_MAX + 2, .wipes = true};
    struct secret_rule rule;
    if (rule_of(secret, index, &rule, err) < 0 || unseal(engine, tenant, secret, &value, err) < 0)
        return -1;
    return secrets_add(secrets, &rule, buf_str(&value), err);
}

int keyring_open(struct engine *engine, struct str tenant, const struct sandbox_secrets *kept,
                 struct secrets **ret_secrets, struct err *err)
{
    AUTO_SECRETS struct secrets *secrets = NULL;
    if (kept->len > 0)
        secrets = secrets_new();
    for (size_t i = 0; i < kept->len; i++) {
        const struct sandbox_secret *secret = &kept->items[i];
        if ((secret->config.len > 0 ? open_configured(engine, secret, secrets, err)
                                    : open_sealed(engine, tenant, secret, i, secrets, err)) < 0)
            return -1;
    }
    *ret_secrets = secrets;
    secrets = NULL;
    return 0;
}

/* --- The store --- */

void keyring_put_json(const struct sandbox_secrets *kept, struct json_out *out)
{
    json_begin_array(out);
    for (size_t i = 0; i < kept->len; i++) {
        const struct sandbox_secret *secret = &kept->items[i];
        json_begin_object(out);
        json_key(out, "name"), json_put_str(out, secret->name);
        json_key(out, "config"), json_put_str(out, secret->config);
        json_key(out, "sealed"), json_put_str(out, secret->sealed);
        json_key(out, "hosts"), json_put_texts(out, secret->hosts, secret->host_count);
        json_key(out, "headers"), json_put_texts(out, secret->headers, secret->header_count);
        json_end_object(out);
    }
    json_end_array(out);
}

static const struct str *read_list(const struct json_t *list, struct arena *arena,
                                   size_t *ret_count)
{
    struct str *items = arena_array(arena, struct str, json_len(list) + 1);
    *ret_count = 0;
    for (size_t i = 0; i < json_len(list); i++)
        if (json_to_str(json_at(list, i), &items[*ret_count])) {
            items[*ret_count] = arena_dup(arena, items[*ret_count]);
            (*ret_count)++;
        }
    return items;
}

int keyring_read_json(const struct json_t *list, struct arena *arena,
                      struct sandbox_secrets *ret_kept, struct err *err)
{
    size_t count = list == NULL ? 0 : json_len(list);
    struct sandbox_secret *items = arena_array(arena, struct sandbox_secret, count + 1);
    for (size_t i = 0; i < count; i++) {
        const struct json_t *item = json_at(list, i);
        struct sandbox_secret *secret = &items[i];
        if (!json_to_str(json_get(item, "name"), &secret->name) ||
            !json_to_str(json_get(item, "config"), &secret->config) ||
            !json_to_str(json_get(item, "sealed"), &secret->sealed))
            return err_set(err, ERR_INTERNAL, "store: a secret cannot be read");
        secret->name = arena_dup(arena, secret->name);
        secret->config = arena_dup(arena, secret->config);
        secret->sealed = arena_dup(arena, secret->sealed);
        secret->hosts = read_list(json_get(item, "hosts"), arena, &secret->host_count);
        secret->headers = read_list(json_get(item, "headers"), arena, &secret->header_count);
    }
    *ret_kept = (struct sandbox_secrets){items, count};
    return 0;
}
