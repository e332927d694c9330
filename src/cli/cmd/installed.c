#include "cli/cmd/installed.h"

#include "base/err.h"
#include "cli/cli.h"
#include "config/config.h"

int installed_open(const struct cli_call *call, struct config **ret_config,
                   char ret_data_dir[RUNTIME_PATH_MAX], struct err *err)
{
    if (config_load(cli_value(call, "config"), ret_config, err) < 0)
        return -1;
    if ((*ret_config)->server.data_dir.len == 0)
        return err_set(err, ERR_INVALID, "no home directory: set SANDGLASS_HOME");
    return str_to_cstr((*ret_config)->server.data_dir, ret_data_dir, RUNTIME_PATH_MAX, err);
}

const char *installed_state_name(enum runtime_state state)
{
    static const char *const names[] = {
        [RUNTIME_READY] = "ready", [RUNTIME_ABSENT] = "absent", [RUNTIME_OLD] = "old"};
    return names[state];
}
