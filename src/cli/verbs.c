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

static const struct cli_option policy_options[] = {
    {0, "method", "METHOD", "Ask for this method (GET)"},
    {0, "resolve", NULL, "Resolve the name and judge its addresses too"},
    CLI_OPTION_JSON,
    {0},
};

static const struct cli_option bridges_options[] = {
    CLI_OPTION_JSON,
    {0, "dts", NULL, "Print TypeScript declarations"},
    {0},
};

static const struct cli_option bridges_call_options[] = {
    {0, "policy", "POLICY", "Where api.fetch may go, as in 'policy test' (none)"},
    {0, "hint", "KEY=VALUE", "latitude, longitude, city or country of the user", .repeated = true},
    {0, "timeout", "MS", "Time for the call (30000)"},
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
        .name = "policy test",
        .args = "POLICY URL",
        .summary = "Say whether a network policy lets a request out, and why",
        .details = "POLICY is text like 'allow api.example.com, *.github.com:443; deny "
                   "x.github.com', 'public' or 'none', or the name of a .json file. Exits 0 when "
                   "the request is allowed, 1 when it is refused.",
        .options = policy_options,
        .args_min = 2,
        .args_max = 2,
        .run = cmd_policy_test,
    },
    {
        .name = "bridges",
        .args = "",
        .summary = "List the functions of the host that code in an isolate may call",
        .options = bridges_options,
        .run = cmd_bridges,
    },
    {
        .name = "bridges call",
        .args = "NAME [ARGUMENTS]",
        .summary = "Call one of them, as a script would",
        .details =
            "ARGUMENTS is a JSON array, like '[{\"latitude\": 52.52, \"longitude\": 13.41}]'. "
            "Prints the result as JSON.",
        .options = bridges_call_options,
        .args_min = 1,
        .args_max = 2,
        .run = cmd_bridges_call,
    },
    {
        .name = "bridges docs",
        .args = "",
        .summary = "Print docs/BRIDGES.md",
        .hidden = true,
        .run = cmd_bridges_docs,
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
