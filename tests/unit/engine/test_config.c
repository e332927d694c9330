/* Loading: places, precedence, defaults, and every kind of mistake. */

#include "config_test.h"

#include <sys/stat.h>

#include "base/format/toml.h"
#include "base/sys.h"
#include "egress/keys/secrets.h"

static const char example[] = "default_model = \"groq/llama-3.3-70b\"\n"
                              "[providers.groq]\n"
                              "base_url = \"https://api.groq.com/openai/v1\"\n"
                              "options = {temperature = 0.2}\n"
                              "[[providers.groq.models]]\n"
                              "id = \"llama-3.3-70b\"\n"
                              "[[providers.groq.models]]\n"
                              "id = \"qwen\"\n"
                              "label = \"Qwen\"\n"
                              "[providers.my-own]\n"
                              "api_key_env = \"MY_KEY\"\n"
                              "[providers.302-ai]\n"
                              "[server]\n"
                              "listen = \"[::1]:0\"\n"
                              "data_dir = \"~/data\"\n"
                              "log_format = \"json\"\n"
                              "log_level = \"debug\"\n"
                              "[sandbox]\n"
                              "enabled = true\n"
                              "provider = \"isolate\"\n"
                              "mode = \"warm\"\n"
                              "memory_mb = 2048\n"
                              "[[sandbox.dependencies]]\n"
                              "package = \"@linear/sdk\"\n"
                              "version = \"1.2.3\"\n"
                              "docs = [\"https://linear.app/developers/sdk.md\"]\n"
                              "secret_env = \"LINEAR_API_KEY\"\n"
                              "hosts = [\"api.linear.app\", \"*.linear.app:443\"]\n"
                              "[[sandbox.dependencies]]\n"
                              "package = \"pypi:numpy\"\n"
                              "[jail]\n"
                              "cpus = 0.5\n"
                              "[isolate]\n"
                              "result_items = 7\n";

/* Loads a text that must be refused and compares the whole message. */
static void check_refused(const char *text, const char *message)
{
    struct err err = {0};
    struct config *config = NULL;
    CHECK_ERR(load_text(text, &config, &err), ERR_INVALID);
    CHECK_CSTR(err.msg, message);
    CHECK(config == NULL);
}

TEST(config_defaults_without_a_file)
{
    clean_environment();
    struct err err = {0};
    AUTO_CONFIG struct config *config = NULL;
    CHECK_OK(config_load(NULL, &config, &err));
    CHECK_STR(config->server.listen, "127.0.0.1:7070");
    CHECK_INT(config->server.log_level, LOG_INFO);
    CHECK_INT(config->server.log_format, LOG_TEXT);
    CHECK_INT(config->server.max_connections, 1024);
    CHECK_INT(config->server.max_connections_per_address, 64);
    CHECK(!config->sandbox.enabled);
    CHECK_INT(config->sandbox.provider, CONFIG_TIER_JAIL);
    CHECK_INT(config->sandbox.mode, CONFIG_MODE_LAZY);
    CHECK_STR(config->sandbox.region, "local");
    CHECK_INT(config->sandbox.volume_ttl_minutes, 30);
    CHECK_INT(config->sandbox.volume_capacity_mb, 300);
    CHECK_INT(config->sandbox.timeout_seconds, 300);
    CHECK_INT(config->sandbox.memory_mb, 1280);
    CHECK_INT(config->sandbox.idle_seconds, 300);
    CHECK_INT(config->jail.pids, 256);
    CHECK(config->jail.cpus == 1.0);
    CHECK_INT(config->isolate.memory_mb, 16);
    CHECK_INT(config->isolate.timeout_ms, 3000);
    CHECK_INT(config->isolate.code_max_chars, 12000);
    CHECK_INT(config->isolate.console_lines, 100);
    CHECK_INT(config->isolate.result_depth, 10);
    CHECK_INT(config->isolate.result_items, 200);
    CHECK_INT(config->providers.len, 0);
    CHECK_INT(config->default_model.len, 0);
}

TEST(config_reads_every_kind_of_value)
{
    clean_environment();
    struct err err = {0};
    AUTO_CONFIG struct config *config = NULL;
    CHECK_OK(load_text(example, &config, &err));
    CHECK_STR(config->default_model, "groq/llama-3.3-70b");
    CHECK_INT(config->providers.len, 3);
    const struct config_provider *groq = config_provider(config, STR("groq"));
    CHECK_STR(groq->base_url, "https://api.groq.com/openai/v1");
    CHECK_STR(groq->api_key_env, "GROQ_API_KEY");
    CHECK(toml_get(groq->options, STR("temperature"))->real == 0.2);
    CHECK_INT(groq->models.len, 2);
    CHECK_STR(groq->models.items[0].label, "llama-3.3-70b");
    CHECK_STR(groq->models.items[1].label, "Qwen");
    CHECK_STR(config_provider(config, STR("my-own"))->api_key_env, "MY_KEY");
    CHECK_STR(config_provider(config, STR("302-ai"))->api_key_env, "_302_AI_API_KEY");
    CHECK(config_provider(config, STR("other")) == NULL);
    CHECK_STR(config->server.listen, "[::1]:0");
    CHECK_INT(config->server.log_format, LOG_JSON);
    CHECK_INT(config->server.log_level, LOG_DEBUG);
    CHECK(config->sandbox.enabled);
    CHECK_INT(config->sandbox.provider, CONFIG_TIER_ISOLATE);
    CHECK_INT(config->sandbox.mode, CONFIG_MODE_WARM);
    CHECK_INT(config->sandbox.memory_mb, 2048);
    CHECK_INT(config->sandbox.dependencies.len, 2);
    const struct config_dependency *linear = &config->sandbox.dependencies.items[0];
    CHECK_STR(linear->package, "@linear/sdk");
    CHECK_STR(linear->version, "1.2.3");
    CHECK_INT(linear->docs.len, 1);
    CHECK_STR(linear->hosts.items[1], "*.linear.app:443");
    CHECK_STR(config->sandbox.dependencies.items[1].package, "pypi:numpy");
    CHECK(config->jail.cpus == 0.5);
    CHECK_INT(config->isolate.result_items, 7);
    char expected[512];
    (void)snprintf(expected, sizeof expected, "%s/data/token", test_tmpdir());
    CHECK_STR(config->server.token_file, expected);
}

TEST(config_sandbox_is_on_when_its_section_is_there)
{
    clean_environment();
    struct err err = {0};
    AUTO_CONFIG struct config *with = NULL, *off = NULL;
    CHECK_OK(load_text("[sandbox]\n", &with, &err));
    CHECK(with->sandbox.enabled);
    CHECK_OK(load_text("[sandbox]\nenabled = false\n", &off, &err));
    CHECK(!off->sandbox.enabled);
}

TEST(config_places_in_their_order)
{
    clean_environment();
    struct err err = {0};
    char path[512], text[600];
    const char *dir = test_tmpdir();
    const char *const made[] = {"xdg", "xdg/sandglass", ".config", ".config/sandglass"};
    for (size_t i = 0; i < countof(made); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, made[i]);
        CHECK_INT(mkdir(path, 0700), 0);
    }
    test_write(dir, ".config/sandglass/config.toml", "[jail]\npids = 101\n");
    test_write(dir, "xdg/sandglass/config.toml", "[jail]\npids = 102\n");
    test_write(dir, "env.toml", "[jail]\npids = 103\n");
    test_write(dir, "flag.toml", "[jail]\npids = 104\n");

    AUTO_CONFIG struct config *home = NULL, *xdg = NULL, *env = NULL, *flag = NULL;
    CHECK_OK(config_load(NULL, &home, &err));
    CHECK_INT(home->jail.pids, 101);
    (void)snprintf(text, sizeof text, "%s/xdg", dir);
    CHECK_INT(setenv("XDG_CONFIG_HOME", text, 1), 0);
    CHECK_OK(config_load(NULL, &xdg, &err));
    CHECK_INT(xdg->jail.pids, 102);
    (void)snprintf(text, sizeof text, "%s/env.toml", dir);
    CHECK_INT(setenv("SANDGLASS_CONFIG", text, 1), 0);
    CHECK_OK(config_load(NULL, &env, &err));
    CHECK_INT(env->jail.pids, 103);
    (void)snprintf(text, sizeof text, "%s/flag.toml", dir);
    CHECK_OK(config_load(text, &flag, &err));
    CHECK_INT(flag->jail.pids, 104);
    CHECK_STR(flag->file, text);
    for (size_t i = 1; i < countof(made); i += 2) {
        (void)snprintf(path, sizeof path, "%s/%s/config.toml", dir, made[i]);
        CHECK_INT(unlink(path), 0);
    }
}

TEST(config_a_named_file_must_be_there)
{
    clean_environment();
    struct err err = {0};
    struct config *config = NULL;
    CHECK_ERR(config_load("/nonexistent/config.toml", &config, &err), ERR_NOT_FOUND);
    CHECK_MSG("configuration '/nonexistent/config.toml'");
    CHECK_INT(setenv("SANDGLASS_CONFIG", "/nonexistent/other.toml", 1), 0);
    CHECK_ERR(config_load(NULL, &config, &err), ERR_NOT_FOUND);
    CHECK_MSG("/nonexistent/other.toml");
    CHECK(config_load(test_tmpdir(), &config, &err) < 0); /* a directory */
    CHECK_ERR(config_load("a\nb", &config, &err), ERR_INVALID);
}

TEST(config_environment_wins_over_the_file)
{
    clean_environment();
    struct err err = {0};
    AUTO_CONFIG struct config *config = NULL;
    CHECK_INT(setenv("SANDGLASS_HOME", "/srv/glass", 1), 0);
    CHECK_INT(setenv("SANDGLASS_LOG_LEVEL", "warn", 1), 0);
    CHECK_OK(
        load_text("[server]\ndata_dir = \"/elsewhere\"\nlog_level = \"debug\"\n", &config, &err));
    CHECK_STR(config->server.data_dir, "/srv/glass");
    CHECK_STR(config->server.token_file, "/srv/glass/token");
    CHECK_INT(config->server.log_level, LOG_WARN);

    struct config *bad = NULL;
    CHECK_INT(setenv("SANDGLASS_LOG_LEVEL", "loud", 1), 0);
    CHECK_ERR(load_text("", &bad, &err), ERR_INVALID);
    CHECK_CSTR(err.msg, "$SANDGLASS_LOG_LEVEL: loud is not one of: error, warn, info, debug");
}

TEST(config_data_dir_by_user)
{
    clean_environment();
    struct err err = {0};
    AUTO_CONFIG struct config *config = NULL;
    char expected[512];
    CHECK_INT(setenv("XDG_DATA_HOME", "/xdg-data", 1), 0);
    CHECK_OK(load_text("", &config, &err));
    (void)snprintf(expected, sizeof expected, "%s",
                   geteuid() == 0 ? "/var/lib/sandglass" : "/xdg-data/sandglass");
    CHECK_STR(config->server.data_dir, expected);
}

TEST(config_unknown_keys)
{
    clean_environment();
    check_refused("\n[sandbox]\ntimeout_secnds = 3\n",
                  "config.toml:3:1: sandbox.timeout_secnds: unknown key; did you mean "
                  "timeout_seconds?");
    check_refused("memory_mb = 3\n",
                  "config.toml:1:1: memory_mb: unknown key here; move it into [sandbox]");
    check_refused("[jail]\ndefault_model = \"a/b\"\n",
                  "config.toml:2:1: jail.default_model: unknown key here; move it to the top of "
                  "the file, before any section");
    check_refused("[sandbx]\n", "config.toml:1:2: sandbx: unknown key; did you mean sandbox?");
    check_refused("[providers.groq]\nurl = 1\n",
                  "config.toml:2:1: providers.groq.url: unknown key; 'sandglass config schema' "
                  "lists all keys");
    check_refused("[[sandbox.dependencies]]\npackage = \"a\"\n[[sandbox.dependencies]]\n"
                  "package = \"b\"\nversoin = \"1\"\n",
                  "config.toml:5:1: sandbox.dependencies[1].versoin: unknown key; did you mean "
                  "version?");
    check_refused("\"x\\ny\" = 1\n",
                  "config.toml:1:1: \"x\\u000Ay\": unknown key; 'sandglass config "
                  "schema' lists all keys");
}

TEST(config_wrong_types)
{
    clean_environment();
    check_refused("[jail]\npids = \"many\"\n",
                  "config.toml:2:8: jail.pids: expected an integer, got a string");
    check_refused("[jail]\npids = 1.5\n",
                  "config.toml:2:8: jail.pids: expected an integer, got a float");
    check_refused("[jail]\ncpus = true\n",
                  "config.toml:2:8: jail.cpus: expected a number, got a boolean");
    check_refused("[sandbox]\nenabled = 1\n",
                  "config.toml:2:11: sandbox.enabled: expected true or false, got an integer");
    check_refused("[server]\nlisten = 7070\n",
                  "config.toml:2:10: server.listen: expected a string, got an integer");
    check_refused("[sandbox]\nmode = 2026-01-01\n",
                  "config.toml:2:8: sandbox.mode: expected a string, got a local date");
    check_refused("sandbox = true\n", "config.toml:1:11: sandbox: expected a table, got a boolean");
    check_refused("providers = []\n",
                  "config.toml:1:13: providers: expected a table of tables, got an array");
    check_refused("[providers]\ngroq = 1\n",
                  "config.toml:2:8: providers.groq: expected a table, got an integer");
    check_refused("[sandbox]\ndependencies = [\"a\"]\n",
                  "config.toml:2:17: sandbox.dependencies: expected an array of tables, got a "
                  "string");
    check_refused(
        "[sandbox.dependencies]\npackage = \"a\"\n",
        "config.toml:1:10: sandbox.dependencies: expected an array of tables, got a table");
    check_refused("[[sandbox.dependencies]]\npackage = \"a\"\nhosts = \"b\"\n",
                  "config.toml:3:9: sandbox.dependencies[0].hosts: expected an array of strings, "
                  "got a string");
    check_refused("[[sandbox.dependencies]]\npackage = \"a\"\nhosts = [\"b.c\", 1]\n",
                  "config.toml:3:17: sandbox.dependencies[0].hosts: expected an array of strings, "
                  "got an integer");
    check_refused("[providers.groq]\noptions = 1\n",
                  "config.toml:2:11: providers.groq.options: expected a table, got an integer");
}

TEST(config_ranges)
{
    clean_environment();
    check_refused("[jail]\npids = 7\n", "config.toml:2:8: jail.pids: 7 is out of range: 8 to 1024");
    check_refused("[jail]\npids = 1025\n",
                  "config.toml:2:8: jail.pids: 1025 is out of range: 8 to 1024");
    check_refused("[jail]\ncpus = nan\n",
                  "config.toml:2:8: jail.cpus: nan is out of range: 0.05 to 1024");
    check_refused("[sandbox]\ntimeout_seconds = -1\n",
                  "config.toml:2:19: sandbox.timeout_seconds: -1 is out of range: 0 to 31536000");
    struct err err = {0};
    AUTO_CONFIG struct config *config = NULL;
    CHECK_OK(load_text("[sandbox]\ntimeout_seconds = \"none\"\n[jail]\npids = 1024\ncpus = 2\n",
                       &config, &err));
    CHECK_INT(config->sandbox.timeout_seconds, 0); /* no limit */
    CHECK_INT(config->jail.command_seconds, 0);
    check_refused("[jail]\ncommand_seconds = \"soon\"\n",
                  "config.toml:2:19: jail.command_seconds: expected an integer or \"none\", got a "
                  "string");
    CHECK_INT(config->jail.pids, 1024);
    CHECK(config->jail.cpus == 2.0);
}

TEST(config_choices)
{
    clean_environment();
    check_refused(
        "[sandbox]\nprovider = \"docker\"\n",
        "config.toml:2:12: sandbox.provider: docker is not one of: jail, isolate, memory, deno");
    check_refused("[server]\nlog_format = \"Text\"\n",
                  "config.toml:2:14: server.log_format: Text is not one of: text, json");
}

/* Each of these is refused for its form, and the accepted one beside it is not. */
TEST(config_forms)
{
    clean_environment();
    static const struct {
        const char *before, *good, *bad, *after;
    } cases[] = {
        {"[server]\nlisten = ", "localhost:80", "7070", ""},
        {"[server]\nlisten = ", "0.0.0.0:7070", "127.0.0.1:65536", ""},
        {"[server]\nlisten = ", "[fe80::1]:1", "[fe80::zz]:1", ""},
        {"[server]\nlisten = ", "127.0.0.1:7070", "::1", ""},
        {"[server]\nlisten = ", "unix:/run/x.sock", "unix:x.sock", ""},
        {"[server]\nlisten = ", "127.0.0.1:0", "example.com:80", ""},
        {"[server]\nhost_names = [", "box.example.com", "*.example.com", "]"},
        {"[server]\nhost_names = [", "box.example.com:8443", "http://box", "]"},
        {"[server]\ndata_dir = ", "/srv/x", "srv/x", ""},
        {"[server]\ndata_dir = ", "~/x", "", ""},
        {"[sandbox]\nregion = ", "eu-1", "EU 1", ""},
        {"[providers.a]\nbase_url = ", "http://localhost:8080/v1", "ftp://x", ""},
        {"[providers.a]\nbase_url = ", "https://x.y", "https://user:pass@x.y/", ""},
        {"[providers.a]\nbase_url = ", "https://x.y/z", "https://", ""},
        {"[providers.a]\napi_key_env = ", "_KEY_2", "2KEY", ""},
        {"[providers.a]\napi_key_env = ", "KEY", "A=B", ""},
        {"default_model = ", "a/b/c", "b", "\n[providers.a]\n"},
        {"[[sandbox.dependencies]]\npackage = ", "@a/b", "@a", ""},
        {"[[sandbox.dependencies]]\npackage = ", "lodash.merge", "-g", ""},
        {"[[sandbox.dependencies]]\npackage = ", "pypi:Flask", "pypi:", ""},
        {"[[sandbox.dependencies]]\npackage = ", "left-pad", "../x", ""},
        {"[[sandbox.dependencies]]\npackage = \"a\"\nversion = ", "1.0.0-rc.1+x", "--x", ""},
        {"[[sandbox.dependencies]]\npackage = \"a\"\nversion = ", "1", ">=1 || 2", ""},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        char text[512];
        struct err err = {0};
        AUTO_CONFIG struct config *good = NULL;
        struct config *bad = NULL;
        (void)snprintf(text, sizeof text, "%s\"%s\"%s", cases[i].before, cases[i].good,
                       cases[i].after);
        CHECK_OK(load_text(text, &good, &err));
        (void)snprintf(text, sizeof text, "%s\"%s\"%s", cases[i].before, cases[i].bad,
                       cases[i].after);
        CHECK_ERR(load_text(text, &bad, &err), ERR_INVALID);
        CHECK_MSG(": expected ");
    }
    check_refused("[[sandbox.dependencies]]\npackage = \"a\"\nhosts = [\"http://x\"]\n",
                  "config.toml:3:10: sandbox.dependencies[0].hosts: expected a host like "
                  "api.example.com or *.example.com, got \"http://x\"");
    check_refused(
        "[providers.Groq]\n",
        "config.toml:1:12: providers.Groq: expected a name of lower-case letters, digits, "
        "- and _");
}

TEST(config_what_must_agree)
{
    clean_environment();
    check_refused("default_model = \"groq/x\"\n",
                  "config.toml:1:1: default_model: no provider 'groq'; add a section "
                  "[providers.groq]");
    check_refused(
        "default_model = \"groq/lama\"\n[[providers.groq.models]]\nid = \"llama\"\n",
        "config.toml:1:1: default_model: providers.groq does not list a model 'lama'; did "
        "you mean llama?");
    check_refused("[[providers.groq.models]]\nid = \"a\"\n[[providers.groq.models]]\nid = \"a\"\n",
                  "config.toml:4:1: providers.groq.models[1].id: 'a' is already listed in line 2");
    check_refused("[[sandbox.dependencies]]\nversion = \"1\"\n",
                  "config.toml:1:11: sandbox.dependencies[0].package: missing; npm name, or "
                  "pypi:NAME");
    check_refused("[[sandbox.dependencies]]\npackage = \"a\"\nsecret_env = \"MY_KEY\"\n",
                  "config.toml:3:1: sandbox.dependencies[0].secret_env: needs hosts = [...]: where "
                  "the key may be sent");
    check_refused("[[sandbox.dependencies]]\npackage = \"a\"\nsecret_env = \"MY_KEY\"\n"
                  "hosts = [\"*.a.test\"]\n",
                  "config.toml:3:1: sandbox.dependencies[0].secret_env: needs an exact host in "
                  "hosts = [...]: where the key may be sent");
    check_refused("[sandbox]\nprovider = \"isolate\"\nruntime = \"node24\"\n",
                  "config.toml:3:1: sandbox.runtime: can be set only for sessions in a jail; "
                  "remove it, or set provider = \"jail\"");
    check_refused("[sandbox]\nprovider = \"deno\"\nruntime = \"node24\"\n",
                  "config.toml:3:1: sandbox.runtime: provider = \"deno\" always uses the runtime "
                  "deno; to choose another, set "
                  "provider = \"jail\"");
    check_refused(
        "[sandbox]\nruntime = \"node1\"\n",
        "config.toml:2:1: sandbox.runtime: unknown runtime 'node1'; the runtimes are python3, "
        "python3.13, node22, node24, deno and bash");
    check_refused("[providers.groq]\napi_key = \"gsk_1\"\n",
                  "config.toml:2:11: providers.groq.api_key: secrets are not read from the file; "
                  "api_key_env names the environment variable that holds it");
}

TEST(config_syntax_errors_name_file_line_and_column)
{
    clean_environment();
    check_refused("a = 1\n[b\n",
                  "config.toml:2:3: unexpected end of the line in a header: expected ']'");
}

TEST(config_size_is_bounded)
{
    clean_environment();
    struct err err = {0};
    struct config *config = NULL;
    AUTO_BUF struct buf text = {0};
    for (int i = 0; i < CONFIG_SIZE_MAX / 16 + 1; i++)
        buf_put_cstr(&text, "###############\n");
    CHECK_ERR(load_text(buf_cstr(&text), &config, &err), ERR_TOO_LARGE);
    buf_clear(&text);
    for (int i = 0; i < 300; i++)
        buf_printf(&text, "[[sandbox.dependencies]]\npackage = \"p%d\"\n", i);
    CHECK_ERR(load_text(buf_cstr(&text), &config, &err), ERR_INVALID);
    CHECK_MSG("sandbox.dependencies: more than 256 entries");
}

TEST(config_survives_the_nth_failure)
{
#ifndef SG_FAULTS
    SKIP("this build cannot fail system calls on purpose (-Dfaults=true)");
#else
    clean_environment();
    struct err err = {0};
    CHECK_INT(setenv("GROQ_API_KEY", "k", 1), 0);
    (void)sys_fail_at(0);
    struct config *config = NULL;
    CHECK_OK(load_text(example, &config, &err));
    int64_t calls = sys_fail_at(0);
    config = config_free(config);
    int fds = test_open_fds();
    CHECK(calls >= 3); /* open, read, the secret's memory */
    for (int64_t n = 1; n <= calls; n++) {
        CHECK_INT(setenv("GROQ_API_KEY", "k", 1), 0);
        (void)sys_fail_at(n);
        int result = config_load("config.toml", &config, &err);
        (void)sys_fail_at(0);
        CHECK_INT(result, -1);
        CHECK(config == NULL);
        CHECK_INT(test_open_fds(), fds);
    }
#endif
}

TEST(secrets_of_sandboxes_are_named_with_hosts_and_headers)
{
    struct err err = {0};
    AUTO_CONFIG struct config *config = NULL;
    clean_environment();
    CHECK_INT(setenv("MY_KEY", "a-key-of-mine", 1), 0);
    CHECK_OK(load_text("[secrets.my-own]\nfrom = \"env:MY_KEY\"\n"
                       "hosts = [\"api.example.com\", \"b.example.com:8443\"]\n"
                       "[secrets.other]\nfrom = \"file:/run/key\"\nhosts = [\"c.test\"]\n"
                       "headers = [\"X-Token\"]\nvariable = \"TOKEN\"\n",
                       &config, &err));
    CHECK(getenv("MY_KEY") == NULL);
    const struct config_bound_secret *own = config_bound_secret(config, STR("my-own"));
    const struct config_bound_secret *other = config_bound_secret(config, STR("other"));
    CHECK_STR(secret_reveal(own->value), "a-key-of-mine");
    CHECK(other->value == NULL && config_bound_secret(config, STR("none")) == NULL);
    struct secret_rule rule;
    CHECK_OK(config_secret_rule(own, &rule, &err));
    CHECK_CSTR(rule.name, "MY_OWN");
    CHECK_INT(rule.place_count, 2);
    CHECK_INT(rule.places[1].port, 8443);
    CHECK_OK(config_secret_rule(other, &rule, &err));
    CHECK_CSTR(rule.name, "TOKEN");
    CHECK_CSTR(rule.headers[0], "x-token");
}

TEST(secrets_of_dependencies_are_one_for_each_variable)
{
    struct err err = {0};
    AUTO_CONFIG struct config *config = NULL;
    clean_environment();
    CHECK_OK(load_text("[[sandbox.dependencies]]\npackage = \"a\"\nsecret_env = \"MY_KEY\"\n"
                       "hosts = [\"a.test\", \"*.a.test\"]\n"
                       "[[sandbox.dependencies]]\npackage = \"pypi:b\"\nsecret_env = \"MY_KEY\"\n"
                       "hosts = [\"a.test\", \"b.test:8443\"]\nheaders = [\"X-Token\"]\n",
                       &config, &err));
    const struct config_bound_secret *bound =
        config_bound_secret(config, STR(CONFIG_OF_DEPENDENCY "MY_KEY"));
    CHECK_INT(config->dependency_secrets.len, 1);
    CHECK_STR(bound->variable, "MY_KEY");
    CHECK_INT(bound->hosts.len, 2);
    CHECK_STR(bound->hosts.items[1], "b.test:8443");
    CHECK_INT(bound->headers.len, 1);
    CHECK(bound->value == NULL);
    CHECK_INT(config->warnings.len, 1);
    CHECK_STR(
        config->warnings.items[0],
        "sandbox.dependencies: the environment variable MY_KEY (secret_env of a, "
        "pypi:b) is not set; requests with this key fail until the server is started with it");
}

TEST(secrets_of_dependencies_that_cannot_be_used_are_warned_of)
{
    struct err err = {0};
    AUTO_CONFIG struct config *config = NULL;
    clean_environment();
    CHECK_INT(setenv("MY_KEY", "short", 1), 0);
    CHECK_OK(load_text("[[sandbox.dependencies]]\npackage = \"a\"\nsecret_env = \"MY_KEY\"\n"
                       "hosts = [\"a.test\"]\n",
                       &config, &err));
    CHECK_INT(config->warnings.len, 1);
    CHECK_STR(config->warnings.items[0],
              "sandbox.dependencies: the key of a cannot be used: secret MY_KEY: its value must "
              "have 8 to 8192 characters");
}

TEST(secrets_of_sandboxes_that_cannot_be_are_refused)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"from = \"sk-1234567890\"\nhosts = [\"a.test\"]\n", "must be env:VARIABLE or file:/PATH"},
        {"from = \"env:MY_KEY\"\nhosts = []\n", "hosts is empty"},
        {"from = \"env:MY_KEY\"\n", "hosts: missing"},
        {"hosts = [\"a.test\"]\n", "from: missing"},
        {"from = \"env:MY_KEY\"\nhosts = [\"*.a.test\"]\n", "secrets.k.hosts"},
        {"from = \"env:MY_KEY\"\nhosts = [\"a.test\"]\nheaders = [\"Host\"]\n",
         "header host may not carry a key"},
        {"from = \"env:MY_KEY\"\nvalue = \"sk-1234567890\"\nhosts = [\"a.test\"]\n",
         "secrets are not read from the file"},
    };
    clean_environment();
    for (size_t i = 0; i < countof(rows); i++) {
        struct err err = {0};
        AUTO_CONFIG struct config *config = NULL;
        AUTO_BUF struct buf text = {0};
        buf_printf(&text, "[secrets.k]\n%s", rows[i].text);
        CHECK_ERR(load_text(buf_cstr(&text), &config, &err), ERR_INVALID);
        CHECK_MSG(rows[i].says);
        CHECK(strstr(err.msg, "sk-1234567890") == NULL);
    }
}
