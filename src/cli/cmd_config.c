/* sandglass config ...: what holds, what there is, and the page made from it. */

#include "base/buf.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "engine/config.h"

int cmd_config_show(const struct cli_call *call, struct err *err)
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

int cmd_config_schema(const struct cli_call *call, UNUSED struct err *err)
{
    AUTO_BUF struct buf out = {0};
    if (cli_has(call, "json"))
        config_put_schema_json(&out);
    else
        config_put_schema(&out);
    cli_print(buf_str(&out));
    return EXIT_OK;
}

int cmd_config_docs(UNUSED const struct cli_call *call, UNUSED struct err *err)
{
    AUTO_BUF struct buf out = {0};
    config_put_docs(&out);
    cli_print(buf_str(&out));
    return EXIT_OK;
}
