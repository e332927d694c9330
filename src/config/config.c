/* Finding and loading config.toml, computed defaults, secrets, and what must agree across keys. */

#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crypto/secret.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "config/config_schema.h"
#include "egress/keys/secrets.h"
#include "egress/net/groups.h"
#include "runtime/runtimes.h"

/* One variable that was taken; several keys may name the same. */
struct config_secret {
    struct config_secret *next;
    struct str env;
    struct secret *secret; /* NULL when the variable is not set */
};

/* NULL when it is not set or empty. */
static const char *env_value(const char *name)
{
    const char *value = getenv(name);
    return value == NULL || value[0] == '\0' ? NULL : value;
}

/* Finding the file. */

/* A directory of the user's own by the XDG rules, with our name behind it; empty without a home.
 * Relative values are to be ignored, says the specification. */
static struct str xdg_dir(struct arena *arena, const char *variable, const char *below_home)
{
    const char *dir = env_value(variable), *home = env_value("HOME");
    if (dir != NULL && dir[0] == '/')
        return arena_printf(arena, "%s/sandglass", dir);
    if (home != NULL && home[0] == '/')
        return arena_printf(arena, "%s/%s/sandglass", home, below_home);
    return (struct str){0};
}

static int config_read_file(const char *path, struct buf *text, struct err *err)
{
    AUTO_CLOSE int fd = SYS(open(path, O_RDONLY | O_CLOEXEC));
    if (fd < 0 && errno == ENOTDIR)
        errno = ENOENT;
    if (fd < 0)
        return err_sys(err, errno, "configuration '%s'", path);
    if (buf_read_all(text, fd, err) < 0)
        return err_wrap(err, "configuration '%s'", path);
    return 0;
}

/* The first place that has a file; `config->file` stays empty when none does. Only absence leads
 * on to the next place: a file that is there and unreadable must not be passed over. */
static int find_file(struct config *config, const char *file, struct buf *text, struct err *err)
{
    const char *named = file != NULL ? file : env_value("SANDGLASS_CONFIG");
    if (named != NULL) {
        /* It is printed behind every value that came from it. */
        if (!config_form_matches(CONFIG_ANY, str_of(named)))
            return err_set(err, ERR_INVALID, "the configuration's path must be one line of text");
        config->file = arena_dup(&config->arena, str_of(named));
        return config_read_file(named, text, err);
    }
    struct str own = xdg_dir(&config->arena, "XDG_CONFIG_HOME", ".config");
    struct str places[] = {own, STR("/etc/sandglass")};
    for (size_t i = 0; i < countof(places); i++) {
        if (places[i].len == 0)
            continue;
        struct str path = arena_printf(&config->arena, "%.*s/config.toml", STR_ARG(places[i]));
        struct err why = {0};
        if (config_read_file(path.ptr, text, &why) == 0) {
            config->file = path;
            return 0;
        }
        if (why.sys != ENOENT) {
            *err = why;
            return -1;
        }
    }
    return 0;
}

/* Computed defaults. */

/* Without a home both stay empty: most verbs need none, and --data-dir may name one. */
static void set_data_dir(struct config *config)
{
    struct config_server *server = &config->server;
    if (server->data_dir.len == 0 && geteuid() == 0)
        server->data_dir = STR("/var/lib/sandglass");
    if (server->data_dir.len == 0)
        server->data_dir = xdg_dir(&config->arena, "XDG_DATA_HOME", ".local/share");
    if (server->token_file.len == 0 && server->data_dir.len > 0)
        server->token_file = arena_printf(&config->arena, "%.*s/token", STR_ARG(server->data_dir));
}

/* Without other keys, [sandbox] enables sandboxes. */
static void set_sandbox_enabled(struct config *config, const struct toml_table *root)
{
    const struct toml_entry *section = root == NULL ? NULL : toml_find(root, STR("sandbox"));
    struct config_setting *enabled = config_setting(config, "sandbox.enabled");
    config->sandbox.is_off = enabled->source != CONFIG_FROM_DEFAULT && !config->sandbox.enabled;
    if (section == NULL || enabled->source != CONFIG_FROM_DEFAULT)
        return;
    config->sandbox.enabled = true;
    enabled->source = CONFIG_FROM_FILE;
    enabled->place = section->value->place;
}

/* "my-own" gives MY_OWN and the suffix; a variable cannot begin with a digit. */
static struct str variable_of(struct arena *arena, struct str name, const char *ending)
{
    AUTO_BUF struct buf env = {0};
    if (char_is_digit(name.ptr[0]))
        buf_put_char(&env, '_');
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        buf_put_char(&env, c == '-' ? '_' : c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c);
    }
    buf_put_cstr(&env, ending);
    return arena_dup(arena, buf_str(&env));
}

static void set_provider_defaults(struct config *config)
{
    for (size_t i = 0; i < config->providers.len; i++) {
        struct config_provider *provider = &config->providers.items[i];
        if (provider->api_key_env.len == 0)
            provider->api_key_env = variable_of(&config->arena, provider->name, "_API_KEY");
        for (size_t m = 0; m < provider->models.len; m++)
            if (provider->models.items[m].label.len == 0)
                provider->models.items[m].label = provider->models.items[m].id;
    }
}

static void set_secret_defaults(struct config *config)
{
    for (size_t i = 0; i < config->bound_secrets.len; i++) {
        struct config_bound_secret *bound = &config->bound_secrets.items[i];
        if (bound->variable.len == 0)
            bound->variable = variable_of(&config->arena, bound->name, "");
    }
}

/* Secrets. */

static int take_secret(struct config *config, struct str env, const struct secret **ret_secret,
                       struct err *err)
{
    for (struct config_secret *known = config->secrets; known != NULL; known = known->next) {
        if (!str_eq(known->env, env))
            continue;
        *ret_secret = known->secret;
        return 0;
    }
    struct config_secret *taken = arena_new(&config->arena, struct config_secret);
    taken->env = env;
    if (secret_take_env(env.ptr, &taken->secret, err) < 0)
        return -1;
    taken->next = config->secrets;
    config->secrets = taken;
    *ret_secret = taken->secret;
    return 0;
}

/* Secrets' settings say which variable they come from and whether it was set. */
static void note_secret(struct config *config, const void *field, struct str env)
{
    for (struct config_setting *s = config->settings; s != NULL; s = s->next) {
        if (s->field != field)
            continue;
        s->env = env;
        if (*(const struct secret *const *)field != NULL)
            s->source = CONFIG_FROM_ENV;
    }
}

static int take_secrets(struct config *config, struct err *err)
{
    for (size_t i = 0; i < config->providers.len; i++) {
        struct config_provider *provider = &config->providers.items[i];
        if (take_secret(config, provider->api_key_env, &provider->api_key, err) < 0)
            return -1;
        note_secret(config, &provider->api_key, provider->api_key_env);
    }
    for (size_t i = 0; i < config->sandbox.dependencies.len; i++) {
        struct config_dependency *dependency = &config->sandbox.dependencies.items[i];
        if (dependency->secret_env.len == 0)
            continue;
        if (take_secret(config, dependency->secret_env, &dependency->secret, err) < 0)
            return -1;
        note_secret(config, &dependency->secret, dependency->secret_env);
    }
    for (size_t i = 0; i < config->bound_secrets.len; i++) {
        struct config_bound_secret *bound = &config->bound_secrets.items[i];
        struct str env = STR("env:");
        if (!str_starts(bound->from, env))
            continue;
        struct str variable =
            arena_dup(&config->arena, str_slice(bound->from, env.len, bound->from.len));
        if (take_secret(config, variable, &bound->value, err) < 0)
            return -1;
        note_secret(config, &bound->value, variable);
    }
    return 0;
}

/* What must agree across keys. */

static int check_default_model(const struct config *config, struct err *err)
{
    struct str model = config->default_model, name = {0};
    if (model.len == 0)
        return 0;
    const struct config_setting *setting = config_setting(config, "default_model");
    (void)str_split(&model, '/', &name);
    const struct config_provider *provider = config_provider(config, name);
    if (provider == NULL)
        return config_fail(config, err, setting->place, setting->path,
                           "no provider '%.*s'; add a section [providers.%.*s]", STR_ARG(name),
                           STR_ARG(name));
    struct nearest nearest = {.word = model};
    for (size_t i = 0; i < provider->models.len; i++) {
        if (str_eq(provider->models.items[i].id, model))
            return 0;
        nearest_offer(&nearest, provider->models.items[i].id);
    }
    if (provider->models.len == 0)
        return 0;
    return config_fail(config, err, setting->place, setting->path,
                       "providers.%.*s does not list a model '%.*s'%s%.*s%s", STR_ARG(name),
                       STR_ARG(model), nearest.best.len > 0 ? "; did you mean " : "",
                       STR_ARG(nearest.best), nearest.best.len > 0 ? "?" : "");
}

/* Two elements with one value in a string field that should tell them apart. */
static int check_distinct(const struct config *config, const char *in, const char *name,
                          struct err *err)
{
    for (const struct config_setting *a = config->settings; a != NULL; a = a->next) {
        if (strcmp(a->key->in, in) != 0 || strcmp(a->key->name, name) != 0)
            continue;
        for (const struct config_setting *b = a->next; b != NULL; b = b->next)
            if (b->key == a->key && str_eq(b->section, a->section) &&
                str_eq(*(struct str *)b->field, *(struct str *)a->field))
                return config_fail(config, err, b->place, b->path,
                                   "'%.*s' is already listed in line %d",
                                   STR_ARG(*(struct str *)b->field), a->place.line);
    }
    return 0;
}

/* A key may only go where it was said to go. */
static int check_secret_hosts(const struct config *config, struct err *err)
{
    for (size_t i = 0; i < config->sandbox.dependencies.len; i++) {
        const struct config_dependency *dependency = &config->sandbox.dependencies.items[i];
        if (dependency->secret_env.len == 0 || dependency->hosts.len > 0)
            continue;
        const struct config_setting *s = config->settings;
        while (s->field != &dependency->secret_env)
            s = s->next;
        return config_fail(config, err, s->place, s->path,
                           "needs hosts = [...]: where the key may be sent");
    }
    return 0;
}

static int check_bound_secrets(const struct config *config, struct err *err)
{
    for (size_t i = 0; i < config->bound_secrets.len; i++) {
        const struct config_bound_secret *bound = &config->bound_secrets.items[i];
        struct secret_rule rule;
        struct err why = {0};
        if (config_secret_rule(bound, &rule, &why) == 0)
            continue;
        const struct config_setting *s = config->settings;
        while (s->field != &bound->from)
            s = s->next;
        return config_fail(config, err, s->place, s->section, "%s", why.msg);
    }
    return 0;
}

static int check_zones(const struct config *config, struct err *err)
{
    for (size_t i = 0; i < config->zones.len; i++) {
        const struct config_zones *zones = &config->zones.items[i];
        bool has_each = zones->workspace.len > 0 || zones->cache.len > 0;
        if (has_each != (zones->root.len > 0))
            continue;
        const struct config_setting *s = config->settings;
        while (s->field != &zones->root)
            s = s->next;
        return config_fail(
            config, err, s->place, s->section,
            has_each ? "root cannot be combined with workspace or cache: it contains both zones"
                     : "needs root, or workspace, cache or both, as directories");
    }
    return 0;
}

static int check_runtime(const struct config *config, struct err *err)
{
    const struct config_sandbox *sandbox = &config->sandbox;
    const struct config_setting *setting = config_setting(config, "sandbox.runtime");
    const struct runtime *runtime = NULL;
    struct err why = {0};
    if (sandbox->runtime.len == 0)
        return 0;
    if (sandbox->provider == CONFIG_TIER_ISOLATE || sandbox->provider == CONFIG_TIER_MEMORY)
        return config_fail(
            config, err, setting->place, setting->path,
            "can be set only for sessions in a jail; remove it, or set provider = \"jail\"");
    if (runtime_named(sandbox->runtime, &runtime, &why) < 0)
        return config_fail(config, err, setting->place, setting->path, "%s", why.msg);
    if (sandbox->provider == CONFIG_TIER_DENO && !str_eq(sandbox->runtime, STR("deno")))
        return config_fail(config, err, setting->place, setting->path,
                           "provider = \"deno\" always uses the runtime deno; to choose another, "
                           "set provider = \"jail\"");
    return 0;
}

static int check_agreement(const struct config *config, struct err *err)
{
    if (check_default_model(config, err) < 0 ||
        check_distinct(config, "providers.*.models[]", "id", err) < 0 ||
        check_distinct(config, "sandbox.dependencies[]", "package", err) < 0)
        return -1;
    if (check_secret_hosts(config, err) < 0 || check_zones(config, err) < 0 ||
        check_runtime(config, err) < 0)
        return -1;
    return check_bound_secrets(config, err);
}

/* A list that is given may be empty; one that is not has no items at all. */
static void set_python_packages(struct config *config)
{
    static struct str names[] = {{"numpy", 5}, {"pandas", 6}, {"matplotlib", 10}};
    if (config->jail.python_packages.items == NULL)
        config->jail.python_packages = (struct config_list){names, countof(names)};
}

static int config_fill(struct config *config, const char *file, struct err *err)
{
    AUTO_BUF struct buf text = buf_with_limit(CONFIG_SIZE_MAX);
    struct toml_table *root = NULL;
    if (find_file(config, file, &text, err) < 0)
        return -1;
    /* The parser's "line L, column C" is said here as every other place is: FILE:L:C. */
    if (config->file.len > 0 && toml_parse(buf_str(&text), &config->arena, &root, err) < 0) {
        int line, column, end = 0;
        if (sscanf(err->msg, "line %d, column %d: %n", &line, &column, &end) != 2 || end == 0)
            return err_wrap(err, "%.*s", STR_ARG(config->file));
        memmove(err->msg, err->msg + end, strlen(err->msg + end) + 1);
        return err_wrap(err, "%.*s:%d:%d", STR_ARG(config->file), line, column);
    }
    if (config_read(config, root, err) < 0)
        return -1;
    set_data_dir(config);
    set_sandbox_enabled(config, root);
    set_provider_defaults(config);
    set_secret_defaults(config);
    set_python_packages(config);
    if (check_agreement(config, err) < 0 || take_secrets(config, err) < 0)
        return -1;
    return config_join_secrets(config, err);
}

int config_load(const char *file, struct config **ret_config, struct err *err)
{
    AUTO_CONFIG struct config *config = mem_alloc(sizeof *config);
    if (config_fill(config, file, err) < 0)
        return -1;
    *ret_config = config;
    config = NULL;
    return 0;
}

struct config *config_free(struct config *config)
{
    if (config == NULL)
        return NULL;
    for (struct config_secret *s = config->secrets; s != NULL; s = s->next)
        s->secret = secret_free(s->secret);
    arena_done(&config->arena);
    free(config);
    return NULL;
}

const struct config_provider *config_provider(const struct config *config, struct str name)
{
    for (size_t i = 0; i < config->providers.len; i++)
        if (str_eq(config->providers.items[i].name, name))
            return &config->providers.items[i];
    return NULL;
}

const struct config_bound_secret *config_bound_secret(const struct config *config, struct str name)
{
    for (size_t i = 0; i < config->dependency_secrets.len; i++)
        if (str_eq(config->dependency_secrets.items[i].name, name))
            return &config->dependency_secrets.items[i];
    for (size_t i = 0; i < config->bound_secrets.len; i++)
        if (str_eq(config->bound_secrets.items[i].name, name))
            return &config->bound_secrets.items[i];
    return NULL;
}

void config_group_sources(const struct config *config, struct buf *servers,
                          struct group_sources *ret_sources)
{
    const struct config_list *names = &config->egress.dns_servers;
    for (size_t i = 0; i < names->len; i++)
        buf_printf(servers, "%s%.*s", i > 0 ? "," : "", STR_ARG(names->items[i]));
    *ret_sources =
        (struct group_sources){.registries = {[GROUP_NPM] = config->packages.npm_registry,
                                              [GROUP_PYPI] = config->packages.pypi_index},
                               .dns_servers = servers->len > 0 ? buf_cstr(servers) : NULL};
}

bool config_names_tenant(const struct config_list *tenants, struct str tenant)
{
    for (size_t i = 0; i < tenants->len; i++)
        if (str_eq(tenants->items[i], tenant) || str_eq(tenants->items[i], STR("*")))
            return true;
    return false;
}

int config_secret_rule(const struct config_bound_secret *secret, struct secret_rule *ret_rule,
                       struct err *err)
{
    struct secret_rule rule = {0};
    if (secret_rule_set_name(&rule, secret->variable, err) < 0 ||
        secret_rule_set_from(&rule, secret->from, err) < 0)
        return -1;
    if (secret->hosts.len == 0)
        return err_set(err, ERR_INVALID,
                       "secret %s: hosts is empty; list the hosts it may be sent to", rule.name);
    for (size_t i = 0; i < secret->hosts.len; i++)
        if (secret_rule_add_place(&rule, secret->hosts.items[i], err) < 0)
            return -1;
    for (size_t i = 0; i < secret->headers.len; i++)
        if (secret_rule_add_header(&rule, secret->headers.items[i], err) < 0)
            return -1;
    *ret_rule = rule;
    return 0;
}
