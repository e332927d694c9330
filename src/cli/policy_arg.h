#pragma once

/* A policy as it is given on a command line: as text, or as the name of a .json file. */

#include "egress/policy/policy.h"

struct buf;
struct cli_call;
struct config;

/* The user of the command line is the operator. */
int policy_from_arg(const char *arg, struct policy **ret_policy, struct err *err) MUST_USE;
/* What --allow-host and --deny-host say, with groups and "public" among the hosts, and the
 * configured private entries of hosts that were named. `*ret_policy` stays NULL when nothing is
 * allowed. `settings`, unless NULL, gets lines "NAME=VALUE" for the installers of the groups. */
int policy_from_options(const struct cli_call *call, const struct config *config,
                        struct policy **ret_policy, struct buf *settings, struct err *err) MUST_USE;
/* The same options in the words of a policy, groups by their names: for a server, which knows what
 * they stand for. Nothing is appended when none is given. */
int policy_put_options(const struct cli_call *call, struct buf *out, struct err *err) MUST_USE;
/* The configured name servers as c-ares wants them, empty for the system's; and the private entries
 * with ", " between. */
void policy_put_servers(const struct config *config, struct buf *out);
void policy_put_private(const struct config *config, struct buf *out);
