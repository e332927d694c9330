#pragma once

/* What options say about a sandbox's network: sizes and times as people write them, limits, and the
 * same as members of a request to a server. */

#include "cli/cli.h"
#include "egress/porter.h"

struct config;
struct json_out;

/* "512m", "2g", "4096": binary units, as people mean them here. INVALID names the option. */
int cli_read_size(const char *option, const char *text, int64_t *ret_bytes,
                  struct err *err) MUST_USE;
/* "30s", "500ms", "2m", "1h"; seconds without a unit. */
int cli_read_time(const char *option, const char *text, int64_t *ret_ms, struct err *err) MUST_USE;

/* --net-connections and its kin; the configuration's where none is given. */
#define NET_LIMIT_OPTIONS                                                                          \
    {.name = "net-connections", .value = "N", .help = "Connections at once (1024)"},               \
        {.name = "net-rate", .value = "SIZE", .help = "Bytes of both directions per second"},      \
        {.name = "net-total", .value = "SIZE", .help = "Bytes of both directions in all"},         \
        {.name = "net-idle", .value = "TIME", .help = "End a connection that is silent (5m)"},     \
        {.name = "net-time", .value = "TIME", .help = "End a connection after this time (24h)"},   \
        {.name = "net-head", .value = "SIZE", .help = "Head of an HTTP message (64k)"},            \
    {                                                                                              \
        .name = "net-answer", .value = "SIZE", .help = "Body of an HTTP answer that can be read"   \
    }

/* Where it may go, and with which keys: the rows of every verb that makes a sandbox or a jail. The
 * words are what --allow-host and --secret mean to that verb. */
#define NET_OPTIONS(allow_words, secret_words)                                                     \
    {.name = "allow-host", .value = "HOST[:PORT]", .help = allow_words, .repeated = true},         \
        {.name = "deny-host",                                                                      \
         .value = "HOST[:PORT]",                                                                   \
         .help = "Not this one, whatever is allowed",                                              \
         .repeated = true},                                                                        \
        {.name = "secret",                                                                         \
         .value = "NAME=env:VAR@HOST[:PORT]",                                                      \
         .help = secret_words,                                                                     \
         .repeated = true},                                                                        \
        NET_LIMIT_OPTIONS

int net_limits_from_options(const struct cli_call *call, const struct config *config,
                            struct porter_limits *ret_limits, struct err *err) MUST_USE;

/* For a server: "network" from --network, --allow-host and --deny-host, "secrets" from --secret
 * (values are read here, from this environment and these files), "limits" from the options above.
 * What no option speaks of is left out. The buffer behind `out` should be one that wipes. */
int net_put_members(const struct cli_call *call, struct json_out *out, struct err *err) MUST_USE;
