#pragma once

/* Shared by the zygote and the kernel that it becomes. */

#include "jail/plan.h"
#include "jail/wire.h"
#include "jail/zygote.h"

/* One fork. Strings point into the message. */
struct zygote_work {
    uint32_t id;
    int score;
    pid_t bearer;     /* the process that forks the kernel, by its number in the jail */
    bool is_anchored; /* the root is an overlay in its anchor */
    struct jail_limits limits;
    const char *writable[JAIL_MOUNTS_MAX + 8]; /* NULL behind the last */
    int fds[WIRE_FDS_MAX];
};

/* The new process, in the namespaces of its jail: fences itself in, tells init and serves. */
void NORETURN zygote_become_kernel(const struct zygote_work *work,
                                   const struct zygote_hooks *hooks);
