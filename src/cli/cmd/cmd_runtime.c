/* sandglass runtime ls, add, rm: the language implementations that sandboxes can use. Without a
 * daemon. */

#include "base/err.h"
#include "base/format/json.h"
#include "cli/cmd/commands.h"
#include "cli/cmd/installed.h"
#include "config/config.h"
#include "runtime/obtain.h"
#include "runtime/packages.h"

static const char *const source_names[] = {
    [RUNTIME_HOST] = "host", [RUNTIME_NPM] = "npm", [RUNTIME_DEBIAN] = "debian"};

static void look_at(const char *data_dir, struct installed *look)
{
    const struct runtime *row = look->row;
    look->state = runtime_look(row, data_dir, look->version);
    runtime_dir(row, data_dir, look->dir);
}

/* What to do, for one that is not there or not as it should be; "" for nothing. */
static void put_remedy(const struct installed *look, struct buf *out)
{
    const struct runtime *runtime = look->row;
    if (look->state == RUNTIME_READY)
        return;
    if (runtime->source == RUNTIME_HOST)
        buf_put_cstr(out, runtime->remedy);
    else
        buf_printf(out, "sandglass runtime add %s", runtime->name);
}

static void cmd_runtime_put_json(const struct installed *look, struct json_out *json)
{
    const struct runtime *runtime = look->row;
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

static void cmd_runtime_put_line(const struct installed *look, struct buf *out)
{
    const struct runtime *runtime = look->row;
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

static void put_name(const struct installed *look, struct buf *out)
{
    const struct runtime *runtime = look->row;
    buf_printf(out, "%s%s%s", runtime->name, look->version[0] == '\0' ? "" : " ", look->version);
}

static const void *runtime_at(size_t index)
{
    return runtimes[index].name == NULL ? NULL : &runtimes[index];
}

static int find(struct str name, const void **ret_row, struct err *err)
{
    const struct runtime *row;
    if (runtime_named(name, &row, err) < 0)
        return -1;
    *ret_row = row;
    return 0;
}

static int add_row(const void *row, const struct obtain *how, bool *ret_added, struct err *err)
{
    return runtime_add(row, how, ret_added, err);
}

static int remove_row(const void *row, const char *data_dir, struct err *err)
{
    return runtime_remove(row, data_dir, err);
}

static const struct installed_kind kind = {
    .head = "NAME         STATE    VERSION    WHAT               TO INSTALL\n",
    .at = runtime_at,
    .find = find,
    .look = look_at,
    .add = add_row,
    .remove = remove_row,
    .put_json = cmd_runtime_put_json,
    .put_line = cmd_runtime_put_line,
    .put_name = put_name,
};

static int list(const struct cli_call *call, struct err *err)
{
    return installed_list(call, &kind, err);
}

static int add(const struct cli_call *call, struct err *err)
{
    return installed_add(call, &kind, err);
}

static int rm(const struct cli_call *call, struct err *err)
{
    return installed_remove(call, &kind, err);
}

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

const struct cli_verb cmd_runtime_ls = {
    .name = "runtime ls",
    .args = "",
    .summary = "List the runtimes and how to install those that are missing",
    .options = cli_json_only,
    .run = list,
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
    .options = installed_add_options,
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
