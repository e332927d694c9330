#pragma once

/* What a process gives up before tenant code runs, for good. */

#include "jail/wire/plan.h"

struct err;

/* Closes descriptors above `last`, only in this process. */
int lockdown_descriptors(int last, struct err *err) MUST_USE;
/* Those that every jail has, and those that its plan gives. */
int lockdown_common_rlimits(struct err *err) MUST_USE;
int lockdown_own_rlimits(const struct jail_limits *limits, struct err *err) MUST_USE;
/* Every capability set empty, the bounding set too, securebits locked, no_new_privs. */
int lockdown_privileges(struct err *err) MUST_USE;

/* Applies Landlock. Gives 0 where the kernel has no Landlock: the other protections hold without
 * it, and `doctor` reports it. `anchor_fd` (-1: none) is the tree that contains an overlay root:
 * its rule also holds for the root's successors. */
int landlock_restrict(const char *const *writable, const char *const *extra_writable, int anchor_fd,
                      struct err *err) MUST_USE;
int landlock_abi(void); /* 0: none */
