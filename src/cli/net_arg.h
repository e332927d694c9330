#pragma once

/* What options say about a sandbox's network: sizes and times as people write them, limits, and the
 * same as members of a request to a server. */

#include "cli/cli.h"
#include "egress/gateway/egress_proxy.h"

struct config;
struct json_out;

/* A SIZE or a TIME of the command line has a unit: a number without one is refused, because the
 * default unit of an option is easily forgotten. INVALID names the option.
 *
 * "512m", "2g", "100b": binary units, as people mean them here. */
int cli_read_size(const char *option, const char *text, int64_t *ret_bytes,
                  struct err *err) MUST_USE;
/* --memory: a size, or "none" (-1) where `may_be_none`. The least is that of any sandbox. */
int cli_read_memory(const char *text, bool may_be_none, int64_t *ret_bytes,
                    struct err *err) MUST_USE;
/* "30s", "500ms", "2m", "1h" */
int cli_read_time(const char *option, const char *text, int64_t *ret_ms, struct err *err) MUST_USE;

/* The same for a limit: "none", "0" and a zero with a unit ("0s") give 0, no limit. */
int cli_read_limit(const char *option, const char *text, int64_t *ret_ms, struct err *err) MUST_USE;
/* The same for an option whose value is named MS: a number without a unit is milliseconds. */
int cli_read_limit_ms(const char *option, const char *text, int64_t *ret_ms,
                      struct err *err) MUST_USE;
#define CLI_TIME_MAX_MS ((int64_t)365 * 86400000)

/* --net-connections and the other network limits; default: the configuration's. */
#define NET_LIMIT_OPTIONS                                                                          \
    {.name = "net-connections", .value = "N", .help = "Maximum open connections (default 1024)"},  \
        {.name = "net-rate",                                                                       \
         .value = "SIZE",                                                                          \
         .help = "Maximum bytes per second, both directions"},                                     \
        {.name = "net-total", .value = "SIZE", .help = "Maximum bytes in total, both directions"}, \
        {.name = "net-idle",                                                                       \
         .value = "TIME",                                                                          \
         .help = "Close a connection after this idle time (default 5m)"},                          \
        {.name = "net-time",                                                                       \
         .value = "TIME",                                                                          \
         .help = "Close a connection after this time (default 24h)"},                              \
        {.name = "net-head",                                                                       \
         .value = "SIZE",                                                                          \
         .help = "Maximum size of HTTP headers (default 64k)"},                                    \
    {                                                                                              \
        .name = "net-answer", .value = "SIZE", .help = "Maximum size of an HTTP response body"     \
    }

/* Where it may go, and with which keys: the rows of every verb that makes a sandbox or a jail. The
 * words are what --allow-host and --secret mean to that verb. */
#define NET_OPTIONS(allow_words, secret_words)                                                     \
    {.name = "allow-host", .value = "HOST[:PORT]", .help = allow_words, .repeated = true},         \
        {.name = "deny-host",                                                                      \
         .value = "HOST[:PORT]",                                                                   \
         .help = "Deny this host, even if another option allows it",                               \
         .repeated = true},                                                                        \
        {.name = "secret",                                                                         \
         .value = "NAME=env:VAR@HOST[:PORT]",                                                      \
         .help = secret_words,                                                                     \
         .repeated = true},                                                                        \
        NET_LIMIT_OPTIONS

int net_limits_from_options(const struct cli_call *call, const struct config *config,
                            struct egress_proxy_limits *ret_limits, struct err *err) MUST_USE;

/* For a server: "network" from --network, --allow-host and --deny-host, "secrets" from --secret
 * (values are read here, from this environment and these files). What no option names is left
 * out. The buffer behind `out` should be one that wipes. */
int net_put_members(const struct cli_call *call, struct json_out *out, struct err *err) MUST_USE;
/* The members of "limits" from --net-connections and the other network limits. */
bool net_has_limits(const struct cli_call *call);
int net_put_limits(const struct cli_call *call, struct json_out *out, struct err *err) MUST_USE;
