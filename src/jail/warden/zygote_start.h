#pragma once

/* A zygote's process from the warden's fork to its exec. Only for the warden. */

#include <sys/types.h>

#include "base/base.h"

struct err;

struct zygote_start {
    int program_fd;    /* sealed memfd */
    const char *names; /* what it imports, separated by commas */
    int proc_fd;       /* the host's /proc */
};

/* Starts it; `ret_fd` is the line to it. It lives in a mount namespace of its own that holds the
 * tree of the jails and nothing else, with an empty environment, no descriptor but its line and
 * one capability. It dies with us. */
int zygote_start(const struct zygote_start *start, pid_t *ret_pid, int *ret_fd,
                 struct err *err) MUST_USE;
