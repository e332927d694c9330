#pragma once

/* A policy as it is given on a command line: as text, or as the name of a .json file. */

#include "egress/policy.h"

struct config;
struct resolve_options;

/* Whoever types the command is the operator. */
int policy_from_arg(const char *arg, struct policy **ret_policy, struct err *err) MUST_USE;
/* The configured name servers as c-ares wants them, empty for the system's; and the private entries
 * with ", " between. */
void policy_put_servers(const struct config *config, struct buf *out);
void policy_put_private(const struct config *config, struct buf *out);
