#pragma once

/* Descriptors that travel with a message over a Unix socket (SCM_RIGHTS). */

#include <sys/types.h>
#include <sys/uio.h>

#include "base/base.h"

enum { FD_PASS_MAX = 253 }; /* the kernel takes no more with one message */

/* sendmsg with MSG_NOSIGNAL and `flags`, again when a signal interrupts it. The descriptors stay
 * the caller's. Gives what sendmsg gives, and errno. */
ssize_t fd_send(int socket, const struct iovec *parts, size_t part_count, const int *fds,
                size_t fd_count, int flags) MUST_USE;

/* recvmsg with `flags`, again when a signal interrupts it. At most `max` descriptors are taken, all
 * CLOEXEC; `*ret_count` says how many. EMSGSIZE when the bytes or the descriptors did not fit: what
 * came is closed then. */
ssize_t fd_recv(int socket, const struct iovec *parts, size_t part_count, int *fds, size_t max,
                size_t *ret_count, int flags) MUST_USE;
