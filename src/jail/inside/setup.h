#pragma once

/* What the first process of a jail does before it is init, in a fixed order. */

#include "jail/inside/mounts.h"

struct err;

struct setup {
    const struct jail_plan *plan;
    const struct mount_set *mounts;
    int oom_fd; /* oom_score_adj of this process; becomes SETUP_OOM_FD */
};

/* When it failed, the caller reports `err` and exits. */
int setup_run(const struct setup *setup, struct err *err) MUST_USE;
