#pragma once

/* What a policy comes to on this machine: an allowed host that is the name of a group stands for
 * the registry behind it, and the operator's private addresses hold for the hosts that are allowed.
 *
 * The policy that somebody wrote is what is kept and shown; this is what is asked. */

#include "egress/groups.h"
#include "egress/policy.h"

/* The groups that the policy names: bit 1 << GROUP_NPM and so on. */
unsigned policy_groups(const struct policy *policy);

struct effective_sources {
    const struct group_hosts *groups[GROUP_COUNT]; /* NULL for those that are not named */
    const struct str *private;                     /* "HOST=ADDRESS:PORT" each; egress.private */
    size_t private_count;
};

/* INVALID for a private entry that is none. */
int policy_effective(const struct policy *policy, const struct effective_sources *sources,
                     struct policy **ret_policy, struct err *err) MUST_USE;
