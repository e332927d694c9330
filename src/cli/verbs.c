/* The table of verbs. Order here is the order of --help. */

#include "cli/cli.h"
#include "cli/commands.h"

/* One verb a line. */
/* clang-format off */
const struct cli_verb *const cli_verbs[] = {
    &cmd_run,
    &cmd_serve,
    &cmd_exec,
    &cmd_doctor,
    &cmd_policy_test,
    &cmd_bridges,
    &cmd_bridges_call,
    &cmd_bridges_docs,
    &cmd_config_show,
    &cmd_config_schema,
    &cmd_config_docs,
    &cmd_api_schema,
    &cmd_api_docs,
    &cmd_completion_bash,
    &cmd_man,
    NULL,
};
