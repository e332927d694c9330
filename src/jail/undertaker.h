#pragma once

/* A process that closes descriptors for the maker.
 *
 * The last descriptor of a mount namespace takes its file tree along, and the kernel lets whoever
 * closes it wait for a grace period: up to milliseconds, in which the maker would answer nobody. */

#include <sys/types.h>

#include "base/base.h"

struct err;

enum { UNDERTAKER_BATCH = 8 };

struct undertaker {
    pid_t pid;
    int socket; /* 0: there is none, the caller closes for himself */
    int fds[UNDERTAKER_BATCH];
    size_t count;
};

int undertaker_start(struct undertaker *undertaker, struct err *err) MUST_USE;
/* Waits until it has closed everything. */
void undertaker_stop(struct undertaker *undertaker);

/* Takes `*fd`; several go together. */
void undertaker_take(struct undertaker *undertaker, int *fd);
/* Sends those that wait for company; says whether there were any. */
bool undertaker_flush(struct undertaker *undertaker);
