#pragma once

/* What the first process of a jail does before it is init, in a fixed order. */

#include "jail/mounts.h"

struct err;

struct setup {
    const struct jail_plan *plan;
    const struct mount_set *mounts;
    int oom_fd; /* oom_score_adj of this process; becomes SETUP_OOM_FD */
};

/* The maker's pidfd is there already, and goes with what else is not for init. */
enum { SETUP_CONTROL_FD = 3, SETUP_OOM_FD = 4, SETUP_ALIVE_FD = 5 };

/* When it failed, the caller reports `err` and exits. */
int setup_run(const struct setup *setup, struct err *err) MUST_USE;
