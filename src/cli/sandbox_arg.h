#pragma once

/* What options say about a sandbox that is to be made: by 'sandbox create' for itself, by 'session
 * create' for the sandboxes of the session. */

#include "cli/net_arg.h"

struct err;
struct json_out;

#define SANDBOX_NETWORK_OPTIONS                                                                    \
    {.name = "network",                                                                            \
     .value = "POLICY",                                                                            \
     .help = "Allowed hosts: none, public, or allow HOST, ... (default: none)"},                   \
        NET_OPTIONS("Allow connections to this host, the server's group npm or pypi, or 'public'", \
                    "Add a key to requests to HOST; nothing in the sandbox sees its value; NAME "  \
                    "without '=' is "                                                              \
                    "a secret of the server's configuration")

/* Options that sandbox_arg_put reads. */
#define SANDBOX_OPTIONS                                                                            \
    {.name = "tier", .value = "TIER", .help = "jail, isolate or memory (default: as configured)"}, \
        {.name = "runtime",                                                                        \
         .value = "NAME",                                                                          \
         .help = "Runtime of its code: python3, node24, bash, ... (default: as configured)"},      \
        {.name = "snapshot",                                                                       \
         .value = "NAME",                                                                          \
         .help = "Start with this snapshot; later snapshots are layered on earlier ones",          \
         .repeated = true},                                                                        \
        {.name = "memory",                                                                         \
         .value = "SIZE",                                                                          \
         .help = "Memory, such as 512m or 2g (default: as configured)"},                           \
        {.name = "cpus",                                                                           \
         .value = "N",                                                                             \
         .help = "Processor cores, such as 0.5 or 2 (default: as configured)"},                    \
        {.name = "disk",                                                                           \
         .value = "SIZE",                                                                          \
         .help = "Disk space for its files, such as 2g (default: as configured)"},                 \
        {.name = "pids", .value = "N", .help = "Processes and threads (default: as configured)"},  \
        {.letter = 'e',                                                                            \
         .name = "env",                                                                            \
         .value = "NAME=VALUE",                                                                    \
         .help = "An environment variable",                                                        \
         .repeated = true},                                                                        \
        {.name = "label",                                                                          \
         .value = "NAME=VALUE",                                                                    \
         .help = "A label to find it by",                                                          \
         .repeated = true},                                                                        \
        {.name = "checkpoints",                                                                    \
         .value = "WHEN",                                                                          \
         .help = "manual, or turn: save /workspace before each call that changes files"},          \
        {.name = "timeout",                                                                        \
         .value = "TIME",                                                                          \
         .help =                                                                                   \
             "Pause it after this time, such as 30m or 8h, even if it is busy; none for never"},   \
        SANDBOX_NETWORK_OPTIONS

/* Writes the members that the options name into the object that `out` is in; others are left out.
 * The buffer behind `out` should be one that wipes: values of secrets go there. */
int sandbox_arg_put(const struct cli_call *call, struct json_out *out, struct err *err) MUST_USE;
/* Only "limits", from --memory, --cpus, --disk, --pids and the limits of the network. */
int sandbox_arg_put_limits(const struct cli_call *call, struct json_out *out,
                           struct err *err) MUST_USE;
/* Member `member` in MiB from a size as people write it. */
int sandbox_arg_put_size(const struct cli_call *call, const char *option, const char *member,
                         struct json_out *out, struct err *err) MUST_USE;
/* Member `member` in milliseconds from a time as people write it, or 'none'. */
int sandbox_arg_put_time(const struct cli_call *call, const char *option, const char *member,
                         struct json_out *out, struct err *err) MUST_USE;
