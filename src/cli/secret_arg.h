#pragma once

/* Secrets as they are given on a command line: --secret NAME=env:VARIABLE@HOST, or --secret NAME of
 * a [secrets.NAME] in config.toml. */

#include "egress/keys/secrets.h"
#include "egress/policy/policy.h"

struct cli_call;
struct config;

/* All that the call gives; NULL when it gives none. Variables are taken out of the environment, so
 * do this before anything is started. */
int secrets_from_args(const struct cli_call *call, const struct config *config,
                      struct secrets **ret_secrets, struct err *err) MUST_USE;
/* A secret whose host the policy does not let out can never be used: INVALID, with the remedy. */
int secrets_check_policy(const struct secrets *secrets, const struct policy *policy,
                         struct err *err) MUST_USE;
/* From here on no other process of this user reads this one's memory, and no core file shows it. */
void secrets_guard_process(void);
