/* The groups npm and pypi, from configuration of the test's own. */

#include "net.h"
#include "test.h"

#include <stdio.h>
#include <sys/stat.h>

#include "egress/net/groups.h"

static const char *env_names[4], *env_values[4];

static const char *env(const char *name)
{
    for (size_t i = 0; i < countof(env_names); i++)
        if (env_names[i] != NULL && strcmp(env_names[i], name) == 0)
            return env_values[i];
    return NULL;
}

static void set_env(size_t index, const char *name, const char *value)
{
    env_names[index] = name;
    env_values[index] = value;
}

/* Empty places of their own: nothing of this machine is read. */
static struct group_sources places(struct net_dns *dns, const char *name)
{
    static char home[512], etc[512];
    (void)snprintf(home, sizeof home, "%s/%s-home", test_tmpdir(), name);
    (void)snprintf(etc, sizeof etc, "%s/%s-etc", test_tmpdir(), name);
    CHECK(mkdir(home, 0755) == 0 && mkdir(etc, 0755) == 0);
    memset(env_names, 0, sizeof env_names);
    return (struct group_sources){
        .home = home, .etc = etc, .env = env, .dns_servers = net_dns_address(dns)};
}

TEST(without_settings_the_error_says_how_to_set_them)
{
    AUTO_DNS struct net_dns *dns = net_dns_start();
    AUTO_GROUP_HOSTS struct group_hosts npm = {0}, pypi = {0};
    struct err err = {0};
    struct group_sources sources = places(dns, "default");
    CHECK_ERR(group_expand(STR("npm"), &sources, &npm, &err), ERR_INVALID);
    CHECK_MSG("set npm_config_registry");
    CHECK_ERR(group_expand(STR("pypi"), &sources, &pypi, &err), ERR_INVALID);
    CHECK_MSG("set PIP_INDEX_URL");
    CHECK_INT(npm.allow.len + pypi.allow.len, 0);
}

static const char *asked;

static bool answer(const char *const *argv, struct buf *out)
{
    asked = argv[0];
    buf_put_cstr(out, "https://default.test/simple/");
    return true;
}

TEST(an_installer_that_nobody_told_anything_is_asked)
{
    AUTO_DNS struct net_dns *dns = net_dns_start();
    AUTO_GROUP_HOSTS struct group_hosts npm = {0}, pypi = {0}, told = {0};
    struct err err = {0};
    struct group_sources sources = places(dns, "asked");
    sources.ask = answer;
    CHECK_OK(group_expand(STR("npm"), &sources, &npm, &err));
    CHECK_CSTR(asked, "npm");
    CHECK_CSTR(buf_cstr(&npm.allow), "default.test:443");
    CHECK_OK(group_expand(STR("pypi"), &sources, &pypi, &err));
    CHECK_CSTR(asked, "python3");
    CHECK_CSTR(buf_cstr(&pypi.settings), "PIP_INDEX_URL=https://default.test/simple/\n");
    asked = NULL;
    test_write(sources.home, ".npmrc", "registry = https://own.test/\n");
    CHECK_OK(group_expand(STR("npm"), &sources, &told, &err));
    CHECK(asked == NULL);
    CHECK_CSTR(buf_cstr(&told.allow), "own.test:443");
}

TEST(the_answer_of_a_program_is_a_url_or_none)
{
    static const char *const good[] = {"echo", "https://a.test/", NULL};
    static const char *const bad[] = {"echo", "undefined", NULL};
    static const char *const silent[] = {"true", NULL};
    static const char *const none[] = {"no-such-program-here", NULL};
    AUTO_BUF struct buf out = {0};
    CHECK(!group_ask(bad, &out) && !group_ask(silent, &out) && !group_ask(none, &out));
    CHECK_INT(out.len, 0);
    CHECK(group_ask(good, &out));
    CHECK_CSTR(buf_cstr(&out), "https://a.test/");
}

TEST(what_the_machine_is_configured_for_is_meant)
{
    AUTO_DNS struct net_dns *dns = net_dns_start();
    AUTO_GROUP_HOSTS struct group_hosts npm = {0}, pypi = {0};
    struct err err = {0};
    struct group_sources sources = places(dns, "own");
    net_dns_set(dns, "npm.corp.test", "10.1.2.3 fd00::5");
    test_write(sources.home, ".npmrc",
               "# mine\n registry = \"https://me:secret@npm.corp.test:4873/npm/\"\n"
               "@team:registry=https://team.corp.test/\n//npm.corp.test/:_authToken=abc\n");
    test_write(sources.etc, "npmrc", "registry=https://other.test/\n");
    test_write(sources.etc, "pip.conf",
               "[global]\nindex-url = http://pip.corp.test:8080/simple\n"
               "extra-index-url = https://a.test/s https://me:se@cret@b.test/s\n");
    CHECK_OK(group_expand(STR("npm"), &sources, &npm, &err));
    CHECK_CSTR(buf_cstr(&npm.allow), "npm.corp.test:4873, team.corp.test:443");
    CHECK(strstr(buf_cstr(&npm.private), "npm.corp.test=10.1.2.3:4873") != NULL);
    CHECK(strstr(buf_cstr(&npm.private), "npm.corp.test=[fd00::5]:4873") != NULL);
    CHECK_CSTR(buf_cstr(&npm.settings), "npm_config_registry=https://npm.corp.test:4873/npm/\n"
                                        "NPM_CONFIG_REGISTRY=https://npm.corp.test:4873/npm/\n");
    CHECK_OK(group_expand(STR("pypi"), &sources, &pypi, &err));
    CHECK_CSTR(buf_cstr(&pypi.allow), "pip.corp.test:8080, a.test:443, b.test:443");
    CHECK_CSTR(buf_cstr(&pypi.settings), "PIP_INDEX_URL=http://pip.corp.test:8080/simple\n"
                                         "PIP_EXTRA_INDEX_URL=https://a.test/s https://b.test/s\n"
                                         "PIP_TRUSTED_HOST=pip.corp.test:8080\n");
}

TEST(variables_win_and_nonsense_is_named)
{
    AUTO_DNS struct net_dns *dns = net_dns_start();
    AUTO_GROUP_HOSTS struct group_hosts npm = {0}, told = {0}, bad = {0};
    struct err err = {0};
    struct group_sources sources = places(dns, "env");
    test_write(sources.home, ".npmrc", "registry=https://file.test/\n");
    set_env(0, "npm_config_registry", "https://variable.test/");
    CHECK_OK(group_expand(STR("npm"), &sources, &npm, &err));
    CHECK_CSTR(buf_cstr(&npm.allow), "variable.test:443");
    sources.registries[GROUP_NPM] = STR("https://configured.test/");
    CHECK_OK(group_expand(STR("npm"), &sources, &told, &err));
    CHECK_CSTR(buf_cstr(&told.allow), "configured.test:443");
    sources.registries[GROUP_NPM] = (struct str){0};
    set_env(0, "npm_config_registry", "ftp://variable.test/");
    CHECK(group_expand(STR("npm"), &sources, &bad, &err) < 0);
    CHECK_MSG("the configured registry 'ftp://variable.test/'");
    CHECK_ERR(group_expand(STR("cargo"), &sources, &bad, &err), ERR_NOT_FOUND);
    CHECK(group_is_name(STR("npm")) && group_is_name(STR("pypi")) && !group_is_name(STR("x")));
}
