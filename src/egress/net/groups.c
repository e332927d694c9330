#include "egress/net/groups.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/fd.h"
#include "egress/net/resolve.h"
#include "egress/policy/url.h"
#include "io/loop.h"

enum { FILE_MAX = 256 << 10, PATH_SIZE = 4096, RESOLVE_MS = 3000 };

void group_hosts_done(struct group_hosts *hosts)
{
    buf_done(&hosts->allow);
    buf_done(&hosts->private);
    buf_done(&hosts->settings);
}

const char *group_name(size_t group)
{
    static const char *const names[GROUP_COUNT] = {[GROUP_NPM] = "npm", [GROUP_PYPI] = "pypi"};
    assert(group < GROUP_COUNT);
    return names[group];
}

bool group_is_name(struct str name)
{
    for (size_t i = 0; i < GROUP_COUNT; i++)
        if (str_eq(name, str_of(group_name(i))))
            return true;
    return false;
}

static const char *env_of(const struct group_sources *sources, const char *name)
{
    const char *value = sources->env != NULL ? sources->env(name) : getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* Hosts. */

struct lookup {
    struct url url;
    struct buf *out;
};

static void groups_on_resolved(void *ctx, const struct ip *addresses, size_t count,
                               UNUSED const struct err *why)
{
    struct lookup *lookup = ctx;
    for (size_t i = 0; i < count; i++) {
        char text[IP_TEXT_SIZE];
        if (ip_is_public(&addresses[i]))
            continue;
        ip_format(&addresses[i], text);
        bool is_v6 = addresses[i].version == 6;
        buf_printf(lookup->out, "%s%s=%s%s%s:%d", lookup->out->len > 0 ? ", " : "",
                   lookup->url.host.text, is_v6 ? "[" : "", text, is_v6 ? "]" : "",
                   lookup->url.port);
    }
}

/* A registry in a private network has addresses that a policy does not allow by name only. */
static int put_private(const struct url *url, const struct group_sources *sources, struct buf *out,
                       struct err *err)
{
    struct lookup lookup = {.url = *url, .out = out};
    struct resolve *resolve = NULL;
    AUTO_LOOP struct loop *loop = NULL;
    if (host_is_ip(&url->host)) {
        groups_on_resolved(&lookup, &url->host.ip, 1, NULL);
        return 0;
    }
    if (loop_open(&loop, err) < 0)
        return -1;
    struct resolve_options options = {.servers = sources->dns_servers, .timeout_ms = RESOLVE_MS};
    if (resolve_start(loop, &options, host_str(&url->host), groups_on_resolved, &lookup, &resolve,
                      err) < 0)
        return -1;
    loop_run(loop);
    (void)resolve_free(resolve);
    return 0;
}

/* Without "user:password@", which stays outside. */
static void put_without_user(struct str text, struct buf *out)
{
    size_t begin = str_find(text, STR("://"));
    size_t from = begin < text.len ? begin + 3 : 0;
    struct str rest = str_slice(text, from, text.len);
    struct str authority = str_slice(rest, 0, str_find_char(rest, '/'));
    size_t host = authority.len; /* behind the last '@': a password may have some */
    while (host > 0 && authority.ptr[host - 1] != '@')
        host--;
    buf_put(out, str_slice(text, 0, from));
    buf_put(out, str_slice(rest, host, rest.len));
}

static int add_url(struct str text, const struct group_sources *sources, struct group_hosts *hosts,
                   struct buf *ret_shown, struct err *err)
{
    AUTO_BUF struct buf shown = {0}, entry = {0};
    struct url url;
    put_without_user(text, &shown);
    if (url_parse(buf_str(&shown), &url, err) < 0)
        return err_wrap(err, "the configured registry '%s'", buf_cstr(&shown));
    buf_printf(&entry, "%s:%d", url.host.text, url.port);
    if (str_find(buf_str(&hosts->allow), buf_str(&entry)) >= hosts->allow.len) {
        buf_printf(&hosts->allow, "%s%s", hosts->allow.len > 0 ? ", " : "", buf_cstr(&entry));
        if (put_private(&url, sources, &hosts->private, err) < 0)
            return -1;
    }
    if (ret_shown != NULL)
        buf_put(ret_shown, buf_str(&shown));
    return 0;
}

/* Files of "key = value" lines, as npm and pip write them. */

static bool groups_read_text(const char *path, struct buf *out)
{
    struct err err;
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    buf_clear(out);
    return fd >= 0 && buf_read_all(out, fd, &err) == 0;
}

/* Cuts the next setting; blank lines, comments and "[sections]" are skipped. */
static bool next_setting(struct str *rest, struct str *ret_key, struct str *ret_value)
{
    struct str line;
    while (str_split(rest, '\n', &line)) {
        line = str_trim(line);
        size_t equals = str_find_char(line, '=');
        if (line.len == 0 || strchr("#;[", line.ptr[0]) != NULL || equals == line.len)
            continue;
        *ret_key = str_trim(str_slice(line, 0, equals));
        *ret_value = str_trim(str_slice(line, equals + 1, line.len));
        size_t len = ret_value->len;
        if (len >= 2 && ret_value->ptr[0] == '"' && ret_value->ptr[len - 1] == '"')
            *ret_value = str_slice(*ret_value, 1, len - 1);
        return true;
    }
    return false;
}

struct found {
    struct buf first;  /* the registry or index that counts */
    struct buf others; /* lines: of scopes, and extra ones */
};

/* Variables of a group's installers: npm reads the first of its own, Deno the second. */
struct variables {
    const char *first[2], *others, *trusted;
};

static void found_done(struct found *found)
{
    buf_done(&found->first);
    buf_done(&found->others);
}

static void note(struct found *found, struct str key, struct str value)
{
    bool is_first = str_eq(key, STR("registry")) || str_eq(key, STR("index-url"));
    bool is_other = str_ends(key, STR(":registry")) || str_eq(key, STR("extra-index-url"));
    if (is_first && found->first.len == 0)
        buf_put(&found->first, value);
    for (struct str word; is_other && str_split(&value, ' ', &word);)
        if (word.len > 0)
            buf_printf(&found->others, "%.*s\n", STR_ARG(word));
}

static void read_settings(const char *path, struct found *found)
{
    AUTO_BUF struct buf text = buf_with_limit(FILE_MAX);
    struct str rest, key, value;
    if (!groups_read_text(path, &text))
        return;
    rest = buf_str(&text);
    while (next_setting(&rest, &key, &value))
        note(found, key, value);
}

static void read_settings_in(const char *dir, const char *name, struct found *found)
{
    char path[PATH_SIZE];
    if (dir == NULL)
        return;
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    read_settings(path, found);
}

static void groups_ask(const struct group_sources *sources, const char *const *argv,
                       struct found *found)
{
    bool is_machine = sources->home == NULL && sources->etc == NULL && sources->env == NULL;
    bool (*call)(const char *const *argv, struct buf *out) = sources->ask != NULL ? sources->ask
                                                             : is_machine         ? group_ask
                                                                                  : NULL;
    if (found->first.len == 0 && call != NULL && !call(argv, &found->first))
        buf_clear(&found->first);
}

/* pip accepts an index without TLS only if the host is configured as trusted. */
static void put_trusted(const char *name, struct str urls, struct buf *out)
{
    AUTO_BUF struct buf hosts = {0};
    struct str text;
    struct url url;
    struct err ignored;
    while (str_split(&urls, ' ', &text))
        if (str_starts(text, STR("http://")) && url_parse(text, &url, &ignored) == 0)
            buf_printf(&hosts, "%s%s:%d", hosts.len > 0 ? " " : "", url.host.text, url.port);
    if (hosts.len > 0)
        buf_printf(out, "%s=%s\n", name, buf_cstr(&hosts));
}

static void put_settings(const struct variables *names, const struct buf *first,
                         const struct buf *others, struct buf *out)
{
    for (size_t i = 0; i < countof(names->first) && names->first[i] != NULL; i++)
        buf_printf(out, "%s=%s\n", names->first[i], buf_cstr(first));
    if (names->others != NULL && others->len > 0)
        buf_printf(out, "%s=%s\n", names->others, buf_cstr(others));
    if (names->trusted != NULL) {
        AUTO_BUF struct buf all = {0};
        buf_printf(&all, "%s %s", buf_cstr(first), buf_cstr(others));
        put_trusted(names->trusted, buf_str(&all), out);
    }
}

/* A host that is not configured is not allowed: the settings of the machine name the registry.
 */
static int add_found(const struct found *found, const char *remedy, const struct variables *names,
                     const struct group_sources *sources, struct group_hosts *hosts,
                     struct err *err)
{
    AUTO_BUF struct buf shown = {0}, others = {0};
    if (found->first.len == 0)
        return err_set(err, ERR_INVALID,
                       "no registry is configured for the group on this machine: set %s, or %s",
                       names->first[0], remedy);
    if (add_url(buf_str(&found->first), sources, hosts, &shown, err) < 0)
        return -1;
    struct str rest = buf_str(&found->others), line;
    while (str_split(&rest, '\n', &line)) {
        if (line.len == 0)
            continue;
        if (others.len > 0)
            buf_put_char(&others, ' ');
        if (add_url(line, sources, hosts, &others, err) < 0)
            return -1;
    }
    put_settings(names, &shown, &others, &hosts->settings);
    return 0;
}

/* The groups. The first place that says something wins, as with the installers themselves. A
 * project's own .npmrc is not among them: it belongs to the code that is to be confined. */

static void read_npm(const struct group_sources *sources, const char *home, const char *etc,
                     struct found *found)
{
    static const char *const variables[] = {"npm_config_registry", "NPM_CONFIG_REGISTRY"};
    for (size_t i = 0; i < countof(variables); i++)
        if (env_of(sources, variables[i]) != NULL)
            note(found, STR("registry"), str_of(env_of(sources, variables[i])));
    const char *own = env_of(sources, "NPM_CONFIG_USERCONFIG");
    if (own != NULL)
        read_settings(own, found);
    else
        read_settings_in(home, ".npmrc", found);
    read_settings_in(etc, "npmrc", found);
    static const char *const argv[] = {"npm", "config", "get", "registry", NULL};
    groups_ask(sources, argv, found);
}

static void read_pypi(const struct group_sources *sources, const char *home, const char *etc,
                      struct found *found)
{
    const char *index = env_of(sources, "PIP_INDEX_URL");
    const char *extra = env_of(sources, "PIP_EXTRA_INDEX_URL");
    const char *own = env_of(sources, "PIP_CONFIG_FILE");
    if (index != NULL)
        note(found, STR("index-url"), str_of(index));
    if (extra != NULL)
        note(found, STR("extra-index-url"), str_of(extra));
    if (own != NULL)
        read_settings(own, found);
    read_settings_in(home, ".config/pip/pip.conf", found);
    read_settings_in(home, ".pip/pip.conf", found);
    read_settings_in(etc, "pip.conf", found);
    static const char *const argv[] = {
        "python3", "-Ic", "from pip._internal.models.index import PyPI; print(PyPI.simple_url)",
        NULL};
    groups_ask(sources, argv, found);
}

static const struct group {
    void (*read)(const struct group_sources *sources, const char *home, const char *etc,
                 struct found *found);
    struct variables variables;
    const char *remedy;
} groups[GROUP_COUNT] = {
    [GROUP_NPM] = {read_npm,
                   {.first = {"npm_config_registry", "NPM_CONFIG_REGISTRY"}},
                   "'registry = URL' in ~/.npmrc, or packages.npm_registry in config.toml"},
    [GROUP_PYPI] = {read_pypi,
                    {.first = {"PIP_INDEX_URL"},
                     .others = "PIP_EXTRA_INDEX_URL",
                     .trusted = "PIP_TRUSTED_HOST"},
                    "'index-url = URL' in pip.conf, or packages.pypi_index in config.toml"},
};

/* If the operator has configured a source, only that source is used. */
static int expand(size_t group, const struct group_sources *sources, struct group_hosts *hosts,
                  struct err *err)
{
    AUTO(found_done) struct found found = {0};
    const char *home = sources->home != NULL ? sources->home : env_of(sources, "HOME");
    const char *etc = sources->etc != NULL ? sources->etc : "/etc";
    buf_put(&found.first, sources->registries[group]);
    if (found.first.len == 0)
        groups[group].read(sources, home, etc, &found);
    return add_found(&found, groups[group].remedy, &groups[group].variables, sources, hosts, err);
}

int group_expand(struct str name, const struct group_sources *sources, struct group_hosts *hosts,
                 struct err *err)
{
    static const struct group_sources machine;
    for (size_t i = 0; i < GROUP_COUNT; i++)
        if (str_eq(name, str_of(group_name(i))))
            return expand(i, sources == NULL ? &machine : sources, hosts, err);
    return err_set(err, ERR_NOT_FOUND, "unknown group '%.*s'; the groups are npm and pypi",
                   STR_ARG(name));
}
