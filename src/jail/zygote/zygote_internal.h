#pragma once

/* Shared by the zygote, the preforks that it makes and the interpreters that they become. */

#include "jail/wire/plan.h"
#include "jail/wire/wire.h"
#include "jail/zygote/zygote.h"

/* One fork. Strings point into the message. */
struct zygote_work {
    int score;
    bool is_anchored; /* the root is an overlay in its anchor */
    struct jail_limits limits;
    const char *writable[JAIL_MOUNTS_MAX + 8]; /* NULL behind the last */
    int fds[WIRE_FDS_MAX];
};

/* The new process, outside of any jail: waits on `line` until it is asked to be an interpreter. */
void NORETURN zygote_live_as_prefork(int line, const struct zygote_hooks *hooks);
/* In the interpreter: waits until the two processes that forked it have exited, so that no other
 * process shares its memory. */
void zygote_await_parents(void);

/* The new process, in the namespaces of its jail: confines itself, reports to init and serves. */
void NORETURN zygote_become_interpreter(const struct zygote_work *work,
                                        const struct zygote_hooks *hooks);
/* Reports to init on the start socket that there will be no interpreter. */
void zygote_tell_failure(int start_fd, const struct err *why);
