/* The table of verbs. Order here is the order of --help. */

#include "cli/cli.h"
#include "cli/commands.h"

const struct cli_verb cli_verbs[] = {
    {
        .name = "completion bash",
        .args = "",
        .summary = "Print bash completion",
        .details = "Try it: source <(sandglass completion bash)",
        .run = cmd_completion_bash,
    },
    {
        .name = "man",
        .args = "",
        .summary = "Print the man page",
        .details = "Read it: sandglass man | man -l -",
        .run = cmd_man,
    },
    {0},
};
