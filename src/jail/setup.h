#pragma once

/* What the first process of a jail does between clone and exec, in a fixed order. */

#include "jail/mounts.h"

struct err;

struct setup {
    const struct jail_plan *plan;
    const struct mount_set *mounts;
    int control_fd; /* becomes SETUP_CONTROL_FD first of all */
    int init_fd;    /* sealed memfd with the init program */
    int alive_fd;   /* the maker's pidfd */
    int oom_fd;     /* oom_score_adj of this process; becomes SETUP_OOM_FD */
};

enum { SETUP_CONTROL_FD = 3, SETUP_OOM_FD = 4 };

/* Returns only when it failed: the caller reports `err` and exits. */
int setup_run(const struct setup *setup, struct err *err) MUST_USE;
