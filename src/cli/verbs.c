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

static const struct cli_option exec_options[] = {
    {.letter = 'w',
     .name = "workspace",
     .value = "DIR",
     .help = "Show this directory at /workspace, writable"},
    {.letter = 'm',
     .name = "memory",
     .value = "SIZE",
     .help = "Limit memory (default 512m; 'none' for no limit)"},
    {.name = "pids", .value = "N", .help = "Limit processes and threads (default 256)"},
    {.name = "cpus",
     .value = "N",
     .help = "Limit cores, as in 0.5 (default 1; 'none' for no limit)"},
    {.name = "disk",
     .value = "SIZE",
     .help = "Limit what is written into memory-backed directories (default 1g)"},
    {.letter = 't',
     .name = "timeout",
     .value = "TIME",
     .help = "End it after 30s, 500ms, 2m, ... (default never)"},
    {.letter = 'e',
     .name = "env",
     .value = "K=V",
     .help = "Set a variable; K alone copies ours",
     .repeated = true},
    {.name = "ro",
     .value = "SRC:DST",
     .help = "Show a file or directory read-only",
     .repeated = true},
    {.name = "rw",
     .value = "SRC:DST",
     .help = "Show a file or directory writable",
     .repeated = true},
    {.name = "cwd", .value = "DIR", .help = "Start in this directory (default /workspace)"},
    {.name = "overlay", .help = "Make the whole tree writable; what is written is lost at the end"},
    {.name = "tty", .help = "Give it a terminal"},
    CLI_OPTION_JSON,
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
        .name = "exec",
        .args = "[-- CMD [ARG...]]",
        .summary = "Run a command in a fresh jail; a shell when none is given",
        .details = "Needs no daemon. The jail has the host's programs read-only, no network but "
                   "loopback, and is gone afterwards, with everything that ran in it. Exits with "
                   "the command's own code, 128+N when signal N ended it, 124 after a timeout, "
                   "127 when there is no such program and 126 when it cannot be run. With --json "
                   "prints exit code, output, timings, peak memory and what ended it.",
        .options = exec_options,
        .args_max = CLI_ARGS_MAX - 1,
        .verbatim = true,
        .run = cmd_exec,
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
