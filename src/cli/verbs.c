/* The table of verbs. Order here is the order of --help. */

#include "cli/cli.h"
#include "cli/commands.h"

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
