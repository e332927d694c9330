/* The keys of [[sandbox.dependencies]] as secrets that sessions are given, and what the operator
 * should know about keys that are not set. */

#include <unistd.h>

#include "base/buf.h"
#include "base/crypto/secret.h"
#include "base/err.h"
#include "config/config.h"
#include "config/config_schema.h"
#include "egress/keys/secrets.h"

static bool has_text(const struct config_list *list, struct str text)
{
    for (size_t i = 0; i < list->len; i++)
        if (str_eq(list->items[i], text))
            return true;
    return false;
}

/* What is not there yet; a host with a '*' can be reached and gets no key. */
static void add_texts(struct config_list *list, const struct config_list *more, struct arena *arena)
{
    struct str *items = arena_array(arena, struct str, list->len + more->len + 1);
    for (size_t i = 0; i < list->len; i++)
        items[i] = list->items[i];
    list->items = items;
    for (size_t i = 0; i < more->len; i++)
        if (!has_text(list, more->items[i]) && !str_starts(more->items[i], STR("*")))
            items[list->len++] = more->items[i];
}

static struct config_bound_secret *secret_of(struct config *config,
                                             const struct config_dependency *dependency)
{
    for (size_t i = 0; i < config->dependency_secrets.len; i++)
        if (str_eq(config->dependency_secrets.items[i].variable, dependency->secret_env))
            return &config->dependency_secrets.items[i];
    struct config_bound_secret *bound =
        &config->dependency_secrets.items[config->dependency_secrets.len++];
    struct str *everybody = arena_array(&config->arena, struct str, 1);
    everybody[0] = STR("*");
    *bound = (struct config_bound_secret){
        .name = arena_printf(&config->arena, CONFIG_OF_DEPENDENCY "%.*s",
                             STR_ARG(dependency->secret_env)),
        .variable = dependency->secret_env,
        .from = arena_printf(&config->arena, "env:%.*s", STR_ARG(dependency->secret_env)),
        .value = dependency->secret,
        .tenants = {everybody, 1},
    };
    return bound;
}

static int check_secret(const struct config *config, const struct config_dependency *dependency,
                        const struct config_bound_secret *bound, struct err *err)
{
    struct secret_rule rule;
    struct err why = {0};
    const struct config_setting *setting = config->settings;
    if (bound->hosts.len > 0 && config_secret_rule(bound, &rule, &why) == 0)
        return 0;
    while (setting->field != &dependency->secret_env)
        setting = setting->next;
    return config_fail(config, err, setting->place, setting->path, "%s",
                       bound->hosts.len == 0
                           ? "needs an exact host in hosts = [...]: where the key may be sent"
                           : why.msg);
}

/* --- Warnings --- */

static bool is_usable(const struct config_bound_secret *bound, struct err *ret_why)
{
    AUTO_SECRETS struct secrets *one = secrets_new();
    struct secret_rule rule;
    return config_secret_rule(bound, &rule, ret_why) == 0 &&
           secrets_add(one, &rule, secret_reveal(bound->value), ret_why) == 0;
}

static void warn(struct config *config, struct str text)
{
    struct str *items = arena_array(&config->arena, struct str, config->warnings.len + 1);
    for (size_t i = 0; i < config->warnings.len; i++)
        items[i] = config->warnings.items[i];
    items[config->warnings.len] = text;
    config->warnings = (struct config_list){items, config->warnings.len + 1};
}

static void put_packages(const struct config *config, struct str variable, struct buf *out)
{
    size_t count = 0;
    for (size_t i = 0; i < config->sandbox.dependencies.len; i++) {
        const struct config_dependency *dependency = &config->sandbox.dependencies.items[i];
        if (str_eq(dependency->secret_env, variable))
            buf_printf(out, "%s%.*s", count++ > 0 ? ", " : "", STR_ARG(dependency->package));
    }
}

static void warn_of_dependencies(struct config *config)
{
    for (size_t i = 0; i < config->dependency_secrets.len; i++) {
        const struct config_bound_secret *bound = &config->dependency_secrets.items[i];
        AUTO_BUF struct buf packages = {0};
        struct err why = {0};
        if (bound->value != NULL && is_usable(bound, &why))
            continue;
        put_packages(config, bound->variable, &packages);
        if (bound->value != NULL) {
            warn(config, arena_printf(&config->arena,
                                      "sandbox.dependencies: the key of %s cannot be used: %s",
                                      buf_cstr(&packages), why.msg));
            continue;
        }
        warn(config,
             arena_printf(
                 &config->arena,
                 "sandbox.dependencies: the environment variable %.*s (secret_env of %s) is not "
                 "set; requests with this key fail until the server is started with it",
                 STR_ARG(bound->variable), buf_cstr(&packages)));
    }
}

static void warn_of_secrets(struct config *config)
{
    for (size_t i = 0; i < config->bound_secrets.len; i++) {
        const struct config_bound_secret *bound = &config->bound_secrets.items[i];
        struct str file = STR("file:");
        bool is_file = str_starts(bound->from, file);
        if (is_file ? access(bound->from.ptr + file.len, R_OK) == 0 : bound->value != NULL)
            continue;
        warn(config, arena_printf(&config->arena,
                                  "secrets.%.*s: %.*s %s; sandboxes that use it cannot be created",
                                  STR_ARG(bound->name), STR_ARG(bound->from),
                                  is_file ? "cannot be read" : "is not set in the environment"));
    }
}

int config_join_secrets(struct config *config, struct err *err)
{
    size_t count = config->sandbox.dependencies.len;
    config->dependency_secrets.items =
        arena_array(&config->arena, struct config_bound_secret, count + 1);
    for (size_t i = 0; i < count; i++) {
        const struct config_dependency *dependency = &config->sandbox.dependencies.items[i];
        if (dependency->secret_env.len == 0)
            continue;
        struct config_bound_secret *bound = secret_of(config, dependency);
        add_texts(&bound->hosts, &dependency->hosts, &config->arena);
        add_texts(&bound->headers, &dependency->headers, &config->arena);
        if (check_secret(config, dependency, bound, err) < 0)
            return -1;
    }
    if (config->sandbox.enabled)
        warn_of_dependencies(config);
    warn_of_secrets(config);
    return 0;
}
