#pragma once

/* A helper process of the warden, connected by a socket: the init spawner, the
 * fd_closer, a zygote. */

#include <sys/types.h>

#include "base/base.h"

struct err;

/* Forks; the child runs `run` with its end of the line, which does not return. */
int child_start(void (*run)(const void *ctx, int line), const void *ctx, pid_t *ret_pid,
                int *ret_line, struct err *err) MUST_USE;
/* Closes the line, which tells the child to leave, and waits until it has. */
void child_stop(pid_t pid, int *line);
