#pragma once

/* The effective policy on this machine: an allowed host that is the name of a group stands for the
 * registry of the group, and the operator's private addresses apply to the allowed hosts.
 *
 * The policy as written is what is stored and shown; requests are judged by this one. */

#include "egress/net/groups.h"
#include "egress/policy/policy.h"

/* The groups that the policy names: bit 1 << GROUP_NPM and so on. */
unsigned policy_groups(const struct policy *policy);

struct effective_sources {
    const struct group_hosts *groups[GROUP_COUNT]; /* NULL when not configured */
    const struct str *private;                     /* "HOST=ADDRESS:PORT" each; egress.private */
    size_t private_count;
};

/* INVALID for a malformed private entry. */
int policy_effective(const struct policy *policy, const struct effective_sources *sources,
                     struct policy **ret_policy, struct err *err) MUST_USE;
