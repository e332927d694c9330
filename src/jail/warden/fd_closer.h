#pragma once

/* A process that closes descriptors for the warden.
 *
 * The last descriptor of a mount namespace takes its file tree along, and the kernel makes the
 * closing process wait for a grace period: up to milliseconds, in which the warden could not
 * answer. */

#include <sys/types.h>

#include "base/base.h"

struct err;

enum { FD_CLOSER_BATCH = 8 };

struct fd_closer {
    pid_t pid;
    int socket; /* 0: not running, the caller closes descriptors itself */
    int fds[FD_CLOSER_BATCH];
    size_t count;
};

int fd_closer_start(struct fd_closer *fd_closer, struct err *err) MUST_USE;
/* Waits until it has closed everything. */
void fd_closer_stop(struct fd_closer *fd_closer);

/* Takes `*fd`; several go together. */
void fd_closer_take(struct fd_closer *fd_closer, int *fd);
/* Sends the descriptors that wait to be sent together; says whether there were any. */
bool fd_closer_flush(struct fd_closer *fd_closer);
