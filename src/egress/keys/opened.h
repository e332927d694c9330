#pragma once

/* Which TLS connections of a sandbox are opened: those to hosts that a secret is bound to, and to
 * hosts whose methods or paths the policy limits. */

#include "egress/policy/policy.h"

struct authority;
struct secret_rule;
struct secrets;

/* Both take NULL for none. */
bool opened_any(const struct policy *policy, const struct secrets *secrets);
/* An authority for these hosts and no others, as far as they can be listed. */
struct authority *opened_authority(const struct policy *policy, const struct secrets *secrets);
/* A secret whose host the policy (NULL: none) does not let out can never be used: INVALID, with the
 * host and what to do in the words of `remedy`. */
int opened_check_rule(const struct secret_rule *rule, const struct policy *policy,
                      const char *remedy, struct err *err) MUST_USE;
