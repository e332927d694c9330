/* sandglass runtime ls, add, rm: the language implementations that sandboxes can use. Without a
 * daemon. */

#include <unistd.h>

#include "base/err.h"
#include "base/format/json.h"
#include "cli/cli.h"
#include "cli/cmd/commands.h"
#include "cli/cmd/installed.h"
#include "cli/meter.h"
#include "config/config.h"
#include "runtime/obtain.h"
#include "runtime/packages.h"

/* ---- ls ---- */

struct look {
    const struct runtime *runtime;
    enum runtime_state state;
    char version[RUNTIME_VERSION_SIZE], dir[RUNTIME_PATH_MAX];
};

static const char *const source_names[] = {
    [RUNTIME_HOST] = "host", [RUNTIME_NPM] = "npm", [RUNTIME_DEBIAN] = "debian"};

static void cmd_runtime_look_at(const struct runtime *runtime, const char *data_dir,
                                struct look *look)
{
    look->runtime = runtime;
    look->state = runtime_look(runtime, data_dir, look->version);
    runtime_dir(runtime, data_dir, look->dir);
}

/* What to do, for one that is not there or not as it should be; "" for nothing. */
static void put_remedy(const struct look *look, struct buf *out)
{
    if (look->state == RUNTIME_READY)
        return;
    if (look->runtime->source == RUNTIME_HOST)
        buf_put_cstr(out, look->runtime->remedy);
    else
        buf_printf(out, "sandglass runtime add %s", look->runtime->name);
}

static void cmd_runtime_put_json(const struct look *look, struct json_out *json)
{
    const struct runtime *runtime = look->runtime;
    AUTO_BUF struct buf remedy = {0};
    put_remedy(look, &remedy);
    bool added = runtime->source != RUNTIME_HOST && look->state != RUNTIME_ABSENT;
    json_begin_object(json);
    json_key(json, "name"), json_put_cstr(json, runtime->name);
    json_key(json, "summary"), json_put_cstr(json, runtime->summary);
    json_key(json, "languages"), json_begin_array(json);
    json_put_cstr(json, runtime->language);
    if (runtime->also != NULL)
        json_put_cstr(json, runtime->also);
    json_end_array(json);
    json_key(json, "source"), json_put_cstr(json, source_names[runtime->source]);
    json_key(json, "state"), json_put_cstr(json, installed_state_name(look->state));
    json_key(json, "version");
    json_put_cstr(json, look->version[0] == '\0' ? NULL : look->version);
    json_key(json, "pinned"), json_put_cstr(json, runtime->version);
    json_key(json, "path"), json_put_cstr(json, added ? look->dir : NULL);
    json_key(json, "remedy"), json_put_cstr(json, remedy.len == 0 ? NULL : buf_cstr(&remedy));
    json_end_object(json);
}

static void cmd_runtime_put_line(const struct look *look, struct buf *out)
{
    const struct runtime *runtime = look->runtime;
    const char *version = look->version;
    if (version[0] == '\0')
        version =
            look->state == RUNTIME_ABSENT && runtime->version != NULL ? runtime->version : "-";
    buf_printf(out, "%-12s %-8s %-10s %-18s ", runtime->name, installed_state_name(look->state),
               version, runtime->summary);
    put_remedy(look, out);
    while (out->len > 0 && out->ptr[out->len - 1] == ' ')
        out->len--;
    buf_put_char(out, '\n');
}

static int cmd_runtime_list(const struct cli_call *call, struct err *err)
{
    static struct look look;
    AUTO_CONFIG struct config *config = NULL;
    char data_dir[RUNTIME_PATH_MAX];
    AUTO_BUF struct buf text = {0};
    struct json_out json = {.buf = &text, .pretty = isatty(STDOUT_FILENO) == 1};
    bool as_json = cli_has(call, "json");
    if (installed_open(call, &config, data_dir, err) < 0)
        return -1;
    if (as_json)
        json_begin_array(&json);
    else
        buf_printf(&text, "%-12s %-8s %-10s %-18s %s\n", "NAME", "STATE", "VERSION", "WHAT",
                   "TO INSTALL");
    for (const struct runtime *row = runtimes; row->name != NULL; row++) {
        cmd_runtime_look_at(row, data_dir, &look);
        if (as_json)
            cmd_runtime_put_json(&look, &json);
        else
            cmd_runtime_put_line(&look, &text);
    }
    if (as_json) {
        json_end_array(&json);
        buf_put_char(&text, '\n');
    }
    cli_print(buf_str(&text));
    return EXIT_OK;
}

/* ---- add ---- */

static void report(const struct look *look, const char *what, bool as_json)
{
    AUTO_BUF struct buf text = {0};
    struct json_out json = {.buf = &text, .pretty = isatty(STDOUT_FILENO) == 1};
    if (as_json)
        cmd_runtime_put_json(look, &json);
    else
        buf_printf(&text, "%s%s%s %s", look->runtime->name, look->version[0] == '\0' ? "" : " ",
                   look->version, what);
    buf_put_char(&text, '\n');
    cli_print(buf_str(&text));
}

static int add(const struct cli_call *call, struct err *err)
{
    static struct look look;
    AUTO_CONFIG struct config *config = NULL;
    char data_dir[RUNTIME_PATH_MAX];
    const struct runtime *runtime;
    bool added = false;
    struct meter meter = meter_of(call->args[0]);
    struct obtain how = {.data_dir = data_dir,
                         .file = cli_value(call, "file"),
                         .progress = meter_show,
                         .ctx = &meter};
    if (installed_open(call, &config, data_dir, err) < 0 ||
        runtime_named(str_of(call->args[0]), &runtime, err) < 0)
        return -1;
    how.npm_registry = config->packages.npm_registry;
    int done = runtime_add(runtime, &how, &added, err);
    meter_end(&meter);
    if (done < 0)
        return -1;
    cmd_runtime_look_at(runtime, data_dir, &look);
    report(&look, added ? "is ready" : "is already installed", cli_has(call, "json"));
    return EXIT_OK;
}

/* ---- rm ---- */

static int rm(const struct cli_call *call, struct err *err)
{
    static struct look look;
    AUTO_CONFIG struct config *config = NULL;
    char data_dir[RUNTIME_PATH_MAX];
    const struct runtime *runtime;
    if (installed_open(call, &config, data_dir, err) < 0 ||
        runtime_named(str_of(call->args[0]), &runtime, err) < 0 ||
        runtime_remove(runtime, data_dir, err) < 0)
        return -1;
    cmd_runtime_look_at(runtime, data_dir, &look);
    report(&look, "was removed", cli_has(call, "json"));
    return EXIT_OK;
}

/* ---- packages ---- */

static void put_package(struct str module, struct buf *out)
{
    bool is_there = package_is_on_host(module);
    buf_printf(out, "%-12.*s %s", STR_ARG(module),
               is_there ? "ready" : "absent   apt-get install ");
    if (!is_there)
        package_put_debian(module, out);
    buf_put_char(out, '\n');
}

static int packages(const struct cli_call *call, struct err *err)
{
    AUTO_CONFIG struct config *config = NULL;
    AUTO_BUF struct buf text = {0};
    if (config_load(cli_value(call, "config"), &config, err) < 0)
        return -1;
    const struct config_list *wanted = &config->jail.python_packages;
    if (cli_has(call, "missing"))
        packages_put_missing(wanted->items, wanted->len, &text);
    else
        for (size_t i = 0; i < wanted->len; i++)
            put_package(wanted->items[i], &text);
    if (cli_has(call, "missing") && text.len > 0)
        buf_put_char(&text, '\n');
    cli_print(buf_str(&text));
    return EXIT_OK;
}

static const struct cli_option packages_options[] = {
    {.name = "missing", .help = "Print only the missing Debian packages, on one line"},
    {0},
};

static const struct cli_option add_options[] = {
    {.name = "file",
     .value = "FILE",
     .help = "Take the npm package from this file instead of downloading it"},
    CLI_OPTION_JSON,
    {0},
};

const struct cli_verb cmd_runtime_ls = {
    .name = "runtime ls",
    .args = "",
    .summary = "List the runtimes and how to install those that are missing",
    .options = cli_json_only,
    .run = cmd_runtime_list,
};

const struct cli_verb cmd_runtime_packages = {
    .name = "runtime packages",
    .args = "",
    .summary = "List the Python packages that sandboxes get from this machine",
    .details = "Lists the packages of [jail] python_packages: numpy, pandas and matplotlib unless "
               "config.toml says otherwise. Sandboxes of the runtime python3 see the packages of "
               "this machine, so install a missing one on this machine, with apt-get.",
    .options = packages_options,
    .run = packages,
};

const struct cli_verb cmd_runtime_add = {
    .name = "runtime add",
    .args = "NAME",
    .summary = "Install a runtime",
    .details =
        "Node and Deno are npm packages of a pinned version. They are downloaded from the registry "
        "in config.toml (packages.npm_registry), else from the registry that npm uses on this "
        "machine (npm_config_registry, .npmrc, npm's default; for a certificate authority that the "
        "system does not know, set npm_config_cafile or NODE_EXTRA_CA_CERTS). The package is "
        "checked against the digest built into sandglass, unpacked in a jail, tested, and "
        "installed read-only in runtimes/ of the data directory. An interrupted download is "
        "resumed. python3.13 is a Debian 13 system that mmdebstrap builds from the mirror that apt "
        "uses here (else SANDGLASS_DEBIAN_MIRROR); this takes minutes and about 600 MB.",
    .options = add_options,
    .args_min = 1,
    .args_max = 1,
    .run = add,
};

const struct cli_verb cmd_runtime_rm = {
    .name = "runtime rm",
    .args = "NAME",
    .summary = "Remove an installed runtime",
    .options = cli_json_only,
    .args_min = 1,
    .args_max = 1,
    .run = rm,
};
