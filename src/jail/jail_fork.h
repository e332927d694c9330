#pragma once

/* Kernels that are forked from a template instead of executed: an interpreter that has imported
 * its packages once is copied into the jail. See jail/zygote.h for how. */

#include "jail/jail.h"

/* Makes the template of this warden, or another one in place of it. `program_fd` is a program for
 * jails (a sealed memfd) that takes "--zygote NAMES"; it stays the caller's. The event is PREPARED
 * with what of the names could not be imported, or FAILED. The warden starts the template again
 * when it dies, and replaces it from time to time; one that is replaced stays for the jails that
 * have kernels of it, and for what goes on from their memory. BUSY while another is being made. */
int warden_ask_template(struct warden_link *warden, int program_fd, const char *names,
                        uint32_t *ret_request, struct err *err) MUST_USE;
/* The same, waiting: about a second for numpy, pandas and matplotlib. */
int warden_template(struct warden_link *warden, int program_fd, const char *names,
                    char ret_missing[96], struct err *err) MUST_USE;

/* Gives a jail that was made ahead, with a kernel in it, the memory and processor time of whoever
 * takes it over: what a pool can change of a finished jail. DONE or FAILED. */
int jail_ask_limits(struct jail *jail, const struct jail_limits *limits, uint32_t *ret_request,
                    struct err *err) MUST_USE;

/* Forks a kernel into the jail. As with jail_ask_start, `ret_id` is a command that is STARTED or
 * REFUSED, is signalled and killed by its id, and EXITS. `fds` are its line (a stream socket), its
 * output and its errors. Of the command `env` and `cwd` are used, and `memory_fd`, a sealed file
 * that a fork of `template` has written: the kernel goes on from there, or, when that cannot be, is
 * a fresh one. Without it the kernel is a fork of the same template as the jail's others.
 *
 * REFUSED as UNAVAILABLE: there is no template, or it is not ready or died just now; as
 * UNSUPPORTED: the jail has a root of its own, or packages of its own by names that the template
 * has imported. Both leave the jail as it was: start the kernel by its program then. */
int jail_ask_fork(struct jail *jail, const struct jail_command *command, const int fds[3],
                  uint32_t *ret_id, struct err *err) MUST_USE;
int jail_fork(struct jail *jail, const struct jail_command *command, const int fds[3],
              uint32_t *ret_id, struct err *err) MUST_USE;
