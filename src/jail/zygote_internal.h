#pragma once

/* Shared by the zygote, the embryos that it makes and the kernels that they become. */

#include "jail/plan.h"
#include "jail/wire.h"
#include "jail/zygote.h"

/* One fork. Strings point into the message. */
struct zygote_work {
    int score;
    bool is_anchored; /* the root is an overlay in its anchor */
    struct jail_limits limits;
    const char *writable[JAIL_MOUNTS_MAX + 8]; /* NULL behind the last */
    int fds[WIRE_FDS_MAX];
};

/* The new process, outside of any jail: waits on `line` until it is asked to be a kernel. */
void NORETURN zygote_live_as_embryo(int line, const struct zygote_hooks *hooks);
/* In the kernel: until nobody else has its memory. */
void zygote_await_bearers(void);

/* The new process, in the namespaces of its jail: fences itself in, tells init and serves. */
void NORETURN zygote_become_kernel(const struct zygote_work *work,
                                   const struct zygote_hooks *hooks);
/* Init hears on the birth that there will be no kernel. */
void zygote_tell_failure(int birth, const struct err *why);
