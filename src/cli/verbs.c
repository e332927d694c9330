/* The table of verbs. Order here is the order of --help. */

#include "cli/cli.h"
#include "cli/commands.h"

static const struct cli_option json_option[] = {
    CLI_OPTION_JSON,
    {0},
};

static const struct cli_option serve_options[] = {
    {0, "listen", "ADDR", "Where to listen: HOST:PORT, [IPV6]:PORT or unix:/PATH (127.0.0.1:7070)"},
    {0, "data-dir", "DIR", "Where everything is kept (SANDGLASS_HOME, else /var/lib/sandglass)"},
    {0, "name", "HOST", "A further host name by which clients call this server", .repeated = true},
    {0},
};

const struct cli_verb cli_verbs[] = {
    {
        .name = "serve",
        .args = "",
        .summary = "Run the server",
        .details = "Prints its address, the file with the bearer token and a first command to try, "
                   "then serves until SIGTERM or SIGINT. Running requests are finished, for up to "
                   "10 seconds; a second signal ends it at once.",
        .options = serve_options,
        .run = cmd_serve,
    },
    {
        .name = "doctor",
        .args = "",
        .summary = "Try what this host allows and say what is missing",
        .details =
            "Each line is an attempt made in a short-lived child, not a guess from a version; "
            "nothing is left behind. Exits 0 when jails work here, else 1. docs/DOCTOR.md "
            "explains every line.",
        .options = json_option,
        .run = cmd_doctor,
    },
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
