#pragma once

/* Which TLS connections of a sandbox are opened: those to hosts that a secret is bound to, and to
 * hosts whose methods or paths the policy limits. */

#include "egress/policy.h"

struct authority;
struct secrets;

/* Both take NULL for none. */
bool opened_any(const struct policy *policy, const struct secrets *secrets);
/* An authority for these hosts and no others, as far as they can be listed. */
struct authority *opened_authority(const struct policy *policy, const struct secrets *secrets);
