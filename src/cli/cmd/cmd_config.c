/* sandglass config ...: what holds, what there is, and the page made from it. */

#include "base/buf.h"
#include "cli/cli.h"
#include "cli/cmd/commands.h"
#include "config/config.h"

static int show(const struct cli_call *call, struct err *err)
{
    AUTO_CONFIG struct config *config = NULL;
    if (config_load(cli_value(call, "config"), &config, err) < 0)
        return -1;
    AUTO_BUF struct buf out = {0};
    if (cli_has(call, "json"))
        config_put_settings_json(config, &out);
    else
        config_put_settings(config, &out);
    cli_print(buf_str(&out));
    return EXIT_OK;
}

static int schema(const struct cli_call *call, UNUSED struct err *err)
{
    AUTO_BUF struct buf out = {0};
    if (cli_has(call, "json"))
        config_put_schema_json(&out);
    else
        config_put_schema(&out);
    cli_print(buf_str(&out));
    return EXIT_OK;
}

static int docs(UNUSED const struct cli_call *call, UNUSED struct err *err)
{
    AUTO_BUF struct buf out = {0};
    config_put_docs(&out);
    cli_print(buf_str(&out));
    return EXIT_OK;
}

const struct cli_verb cmd_config_show = {
    .name = "config show",
    .args = "",
    .summary = "Print the effective configuration and where each value came from",
    .details = "The text is TOML that would give the same configuration. Secrets are shown as "
               "set or not set.",
    .options = cli_json_only,
    .run = show,
};

const struct cli_verb cmd_config_schema = {
    .name = "config schema",
    .args = "",
    .summary = "Print every key of config.toml; with --json as JSON Schema",
    .options = cli_json_only,
    .run = schema,
};

const struct cli_verb cmd_config_docs = {
    .name = "config docs",
    .args = "",
    .summary = "Print docs/CONFIG.md",
    .hidden = true,
    .run = docs,
};
