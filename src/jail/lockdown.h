#pragma once

/* What a process gives up before tenant code runs, for good. */

#include "jail/plan.h"

struct err;

/* Descriptors above `last` are closed, in this process alone. */
int lockdown_descriptors(int last, struct err *err) MUST_USE;
/* Those that every jail has, and those that its plan gives. */
int lockdown_common_rlimits(struct err *err) MUST_USE;
int lockdown_own_rlimits(const struct jail_limits *limits, struct err *err) MUST_USE;
/* Every capability set empty, the bounding set too, securebits locked, no_new_privs. */
int lockdown_privileges(struct err *err) MUST_USE;

/* The second fence. Gives 0 where the kernel has no Landlock: the first stands without it, and
 * `doctor` says so. `anchor_fd` (-1: none) is what an overlay root stands in: its rule also holds
 * for the root's successors. */
int landlock_restrict(const char *const *writable, const char *const *extra_writable, int anchor_fd,
                      struct err *err) MUST_USE;
int landlock_abi(void); /* 0: none */
