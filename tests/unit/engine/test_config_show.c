/* What is printed: provenance, schema, the page made from it, and never a secret. */

#include "config_test.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "base/format/json.h"
#include "cli/cli.h"
#include "cli/cmd/commands.h"

#define CANARY "canary-7f3a9c-do-not-show"

static const char with_secrets[] = "[providers.groq]\n"
                                   "options = {header = \"" CANARY "-option\"}\n"
                                   "[sandbox]\n"
                                   "memory_mb = 64\n"
                                   "[[sandbox.dependencies]]\n"
                                   "package = \"a\"\n"
                                   "secret_env = \"LINEAR_API_KEY\"\n"
                                   "hosts = [\"api.linear.app\"]\n"
                                   "[[sandbox.dependencies]]\n"
                                   "package = \"b\"\n"
                                   "secret_env = \"LINEAR_API_KEY\"\n"
                                   "hosts = [\"api.linear.app\"]\n"
                                   "[[sandbox.dependencies]]\n"
                                   "package = \"c\"\n"
                                   "secret_env = \"MY_KEY\"\n"
                                   "hosts = [\"c.example\"]\n";

static void set_canaries(void)
{
    clean_environment();
    CHECK_INT(setenv("GROQ_API_KEY", CANARY "-groq", 1), 0);
    CHECK_INT(setenv("LINEAR_API_KEY", CANARY "-linear", 1), 0);
}

/* Runs a verb with standard output in `out`. */
static int run_verb(const struct cli_verb *verb, bool json, struct buf *out, struct err *err)
{
    static const struct cli_option json_flag = {.name = "json"};
    static const struct cli_option file_option = {.name = "config", .value = "FILE"};
    struct cli_call call = {.given = {{&file_option, "config.toml"}, {&json_flag, NULL}},
                            .given_count = json ? 2 : 1};
    AUTO_CLOSE int memory = memfd_create("stdout", MFD_CLOEXEC);
    (void)fflush(stdout);
    AUTO_CLOSE int saved = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    CHECK(memory >= 0 && saved >= 0 && dup2(memory, STDOUT_FILENO) >= 0);
    int code = verb->run(&call, err);
    CHECK(dup2(saved, STDOUT_FILENO) >= 0);
    CHECK(lseek(memory, 0, SEEK_SET) == 0);
    CHECK_INT(buf_read_all(out, memory, err), 0);
    return code;
}

static bool holds(const struct buf *text, const char *part)
{
    return str_find(buf_str(text), str_of(part)) < text->len;
}

TEST(config_show_names_values_and_origins)
{
    set_canaries();
    CHECK_INT(setenv("SANDGLASS_HOME", "/srv/glass", 1), 0);
    struct err err = {0};
    AUTO_CONFIG struct config *config = NULL;
    CHECK_OK(load_text(with_secrets, &config, &err));
    AUTO_BUF struct buf out = {0};
    config_put_settings(config, &out);
    CHECK(holds(&out, "# config.toml\n"));
    CHECK(holds(&out, "\nmemory_mb = 64  # config.toml:4\n"));
    CHECK(holds(&out, "\nenabled = true  # config.toml:3\n"));
    CHECK(holds(&out, "\nidle_seconds = 300  # default\n"));
    CHECK(holds(&out, "\ndata_dir = \"/srv/glass\"  # $SANDGLASS_HOME\n"));
    CHECK(holds(&out, "\n# api_key: set (from GROQ_API_KEY)\n"));
    CHECK(holds(&out, "\n# secret: set (from LINEAR_API_KEY)\n"));
    CHECK(holds(&out, "\n# secret: not set (MY_KEY is not in the environment)\n"));
    CHECK(holds(&out, "\n# base_url: not set (the provider's default)\n"));
    CHECK(holds(&out, "\n# options: values not shown; keys: header  # config.toml:2\n"));
    CHECK(holds(&out, "\n[[sandbox.dependencies]]\npackage = \"b\"  # config.toml:10\n"));
}

/* What is shown is a configuration file that gives the same again. */
TEST(config_show_can_be_loaded)
{
    clean_environment();
    struct err err = {0};
    AUTO_CONFIG struct config *config = NULL, *again = NULL;
    CHECK_OK(load_text("default_model = \"groq/a\"\n[providers.groq]\nmodels = [{id = \"a\"}]\n"
                       "[sandbox]\nmode = \"warm\"\n[jail]\ncpus = 0.25\n",
                       &config, &err));
    AUTO_BUF struct buf first = {0}, second = {0};
    config_put_settings(config, &first);
    CHECK_OK(load_text(buf_cstr(&first), &again, &err));
    config_put_settings(again, &second);
    CHECK(again->jail.cpus == 0.25 && again->sandbox.mode == CONFIG_MODE_WARM);
    CHECK_STR(again->default_model, "groq/a");
    CHECK_STR(again->providers.items[0].models.items[0].id, "a");
}

/* The member "settings" whose "key" is this. */
static const struct json_t *setting_of(const struct json_t *root, const char *path)
{
    const struct json_t *settings = json_get(root, "settings");
    for (size_t i = 0; i < json_len(settings); i++) {
        struct str key;
        if (json_to_str(json_get(json_at(settings, i), "key"), &key) && str_eq(key, str_of(path)))
            return json_at(settings, i);
    }
    fail_msg("no setting %s", path);
    return NULL;
}

static struct str text_of(const struct json_t *object, const char *key)
{
    struct str s = {0};
    CHECK(json_to_str(json_get(object, key), &s));
    return s;
}

TEST(config_show_json)
{
    set_canaries();
    struct err err = {0};
    AUTO_BUF struct buf out = {0};
    test_write(test_tmpdir(), "config.toml", with_secrets);
    CHECK_INT(chdir(test_tmpdir()), 0);
    CHECK_INT(run_verb(&cmd_config_show, true, &out, &err), EXIT_OK);
    AUTO_JSON struct json_t *root = NULL;
    CHECK_OK(json_parse(buf_str(&out), &root, &err));
    CHECK_STR(text_of(root, "file"), "config.toml");
    int64_t n = 0;
    bool set = false;
    const struct json_t *memory = setting_of(root, "sandbox.memory_mb");
    CHECK(json_to_i64(json_get(memory, "value"), &n) && n == 64);
    CHECK_STR(text_of(memory, "source"), "file");
    CHECK_STR(text_of(memory, "origin"), "config.toml:4");
    CHECK_STR(text_of(setting_of(root, "jail.pids"), "source"), "default");
    const struct json_t *key = setting_of(root, "providers.groq.api_key");
    CHECK(json_to_bool(json_get(key, "set"), &set) && set);
    CHECK_STR(text_of(key, "env"), "GROQ_API_KEY");
    CHECK_STR(text_of(key, "source"), "environment");
    const struct json_t *missing = setting_of(root, "sandbox.dependencies[2].secret");
    CHECK(json_to_bool(json_get(missing, "set"), &set) && !set);
    CHECK(json_get(key, "value") == NULL);
}

TEST(config_secrets_leave_the_environment)
{
    set_canaries();
    const char *in_environment = getenv("GROQ_API_KEY");
    struct err err = {0};
    AUTO_CONFIG struct config *config = NULL;
    CHECK_OK(load_text(with_secrets, &config, &err));
    CHECK_STR(secret_reveal(config->providers.items[0].api_key), CANARY "-groq");
    /* Two packages may share a variable. */
    CHECK_STR(secret_reveal(config->sandbox.dependencies.items[0].secret), CANARY "-linear");
    CHECK_STR(secret_reveal(config->sandbox.dependencies.items[1].secret), CANARY "-linear");
    CHECK(config->sandbox.dependencies.items[2].secret == NULL);
    CHECK(getenv("GROQ_API_KEY") == NULL && getenv("LINEAR_API_KEY") == NULL);
    CHECK_INT(in_environment[0], '\0'); /* wiped, not only forgotten */
    for (char **variable = environ; *variable != NULL; variable++)
        CHECK(strstr(*variable, CANARY) == NULL);
}

/* Everything that prints, with canaries in place of keys. */
TEST(config_secrets_are_never_printed)
{
    struct err err = {0};
    CHECK_INT(chdir(test_tmpdir()), 0);
    test_write(test_tmpdir(), "config.toml", with_secrets);
    for (int json = 0; json < 2; json++) {
        set_canaries();
        AUTO_BUF struct buf out = {0};
        CHECK_INT(run_verb(&cmd_config_show, json, &out, &err), EXIT_OK);
        CHECK(holds(&out, "GROQ_API_KEY"));
        CHECK(!holds(&out, CANARY));
    }
    for (int format = LOG_TEXT; format <= LOG_JSON; format++) {
        set_canaries();
        AUTO_CLOSE int memory = memfd_create("log", MFD_CLOEXEC);
        log_setup(LOG_DEBUG, (enum log_format)format, memory);
        AUTO_CONFIG struct config *config = NULL;
        CHECK_OK(config_load("config.toml", &config, &err));
        config_log(config);
        log_setup(LOG_INFO, LOG_TEXT, STDERR_FILENO);
        AUTO_BUF struct buf out = {0};
        CHECK(lseek(memory, 0, SEEK_SET) == 0);
        CHECK_OK(buf_read_all(&out, memory, &err));
        CHECK(holds(&out, "config.loaded") && holds(&out, "set (from GROQ_API_KEY)"));
        CHECK(!holds(&out, CANARY));
    }
}

/* A load that fails says nothing of the value either. */
TEST(config_errors_do_not_hold_secrets)
{
    set_canaries();
    struct err err = {0};
    struct config *config = NULL;
    AUTO_BUF struct buf huge = {0};
    for (int i = 0; i <= SECRET_MAX; i += 8)
        buf_put_cstr(&huge, "canary-7");
    CHECK_INT(setenv("MY_KEY", buf_cstr(&huge), 1), 0);
    CHECK_ERR(load_text(with_secrets, &config, &err), ERR_TOO_LARGE);
    CHECK_MSG("environment variable MY_KEY");
    CHECK(strstr(err.msg, "canary") == NULL);
}

TEST(config_schema_lists_every_section)
{
    struct err err = {0};
    AUTO_BUF struct buf out = {0};
    CHECK_INT(run_verb(&cmd_config_schema, false, &out, &err), EXIT_OK);
    CHECK(holds(&out, "\n[providers.NAME]  "));
    CHECK(holds(&out, "\n[[sandbox.dependencies]]  "));
    CHECK(holds(&out, "integer 8 to 1024; default: 256"));
    CHECK(holds(&out, "$SANDGLASS_HOME overrides it"));
}

TEST(config_schema_json)
{
    struct err err = {0};
    AUTO_BUF struct buf out = {0};
    CHECK_INT(run_verb(&cmd_config_schema, true, &out, &err), EXIT_OK);
    AUTO_JSON struct json_t *root = NULL;
    CHECK_OK(json_parse(buf_str(&out), &root, &err));
    CHECK_STR(text_of(root, "$schema"), "https://json-schema.org/draft/2020-12/schema");
    const struct json_t *sandbox = json_get(json_get(root, "properties"), "sandbox");
    bool open = true;
    CHECK(json_to_bool(json_get(sandbox, "additionalProperties"), &open) && !open);
    const struct json_t *timeout = json_get(json_get(sandbox, "properties"), "timeout_seconds");
    int64_t n = 0;
    CHECK(json_to_i64(json_get(timeout, "default"), &n) && n == 300);
    const struct json_t *branches = json_get(timeout, "anyOf"); /* a number, or "none" */
    CHECK(json_to_i64(json_get(json_at(branches, 0), "maximum"), &n) && n == 31536000);
    CHECK_STR(text_of(json_at(branches, 1), "const"), "none");
    const struct json_t *provider = json_get(
        json_get(json_get(json_get(root, "properties"), "providers"), "additionalProperties"),
        "properties");
    CHECK(json_get(provider, "base_url") != NULL);
    CHECK(json_get(provider, "api_key") == NULL); /* no part of the file */
}

static void read_docs(struct buf *text)
{
    struct err err = {0};
    AUTO_CLOSE int fd = open(CONFIG_DOCS, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_OK(buf_read_all(text, fd, &err));
}

TEST(config_docs_are_up_to_date)
{
    struct err err = {0};
    AUTO_BUF struct buf written = {0}, committed = {0};
    CHECK_INT(run_verb(&cmd_config_docs, false, &written, &err), EXIT_OK);
    read_docs(&committed);
    if (!str_eq(buf_str(&written), buf_str(&committed)))
        fail_msg("docs/CONFIG.md is old: sandglass config docs >docs/CONFIG.md");
}

TEST(config_docs_example_loads)
{
    clean_environment();
    struct err err = {0};
    AUTO_BUF struct buf docs = {0};
    read_docs(&docs);
    size_t begin = str_find(buf_str(&docs), STR("```toml\n")) + 8;
    struct str example = str_slice(buf_str(&docs), begin, docs.len);
    docs.ptr[begin + str_find(example, STR("```\n"))] = '\0';
    AUTO_CONFIG struct config *config = NULL;
    CHECK_OK(load_text(docs.ptr + begin, &config, &err));
    CHECK(config->sandbox.enabled);
    CHECK_STR(config->sandbox.dependencies.items[0].package, "@linear/sdk");
}
