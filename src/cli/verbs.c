/* The table of verbs. Order here is the order of --help. */

#include "cli/cli.h"
#include "cli/commands.h"

static const struct cli_option json_option[] = {
    {.name = "json", .help = "As JSON"},
    {0},
};

const struct cli_verb cli_verbs[] = {
    {
        .name = "config show",
        .args = "",
        .summary = "Print the effective configuration and where each value came from",
        .details = "The text is TOML that would give the same configuration. Secrets are shown as "
                   "set or not set.",
        .options = json_option,
        .run = cmd_config_show,
    },
    {
        .name = "config schema",
        .args = "",
        .summary = "Print every key of config.toml; with --json as JSON Schema",
        .options = json_option,
        .run = cmd_config_schema,
    },
    {
        .name = "config docs",
        .args = "",
        .summary = "Print docs/CONFIG.md",
        .hidden = true,
        .run = cmd_config_docs,
    },
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
