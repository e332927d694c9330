#pragma once

/* Interpreters that are forked from a zygote instead of executed: an interpreter that has imported
 * its packages once is copied into the jail. See jail/zygote/zygote.h for how. */

#include "jail/client/jail.h"

/* Makes the zygote of this warden, or replaces it; or its plain one, for jails with packages of
 * their own, which has imported none (JAIL_ZYGOTE_PLAIN). `program_fd` is a program for jails (a
 * sealed memfd) that takes "--zygote NAMES"; it stays the caller's. The event is PREPARED with what
 * of the names could not be imported, or FAILED. The warden starts the zygote again when it dies,
 * and replaces it from time to time; a replaced one stays for the jails that have interpreters
 * forked from it, and for those that continue from their memory. BUSY while another is being made.
 */
int warden_ask_zygote(struct warden_link *warden, int program_fd, const char *names, bool is_plain,
                      uint32_t *ret_request, struct err *err) MUST_USE;

/* A zygote that is replaced stays while there are leases on it, too: for memory of its forks that
 * the caller keeps. `zygote` is that of struct jail_stats. Nothing is answered. */
int warden_lease_zygote(struct warden_link *warden, uint32_t zygote, bool is_begin,
                        struct err *err) MUST_USE;

/* Changes the memory and cpu limits of a jail, also of one that runs or is frozen; the other limits
 * stay. DONE or FAILED, as CONFLICT when more memory is in use. */
int jail_ask_limits(struct jail *jail, const struct jail_limits *limits, uint32_t *ret_request,
                    struct err *err) MUST_USE;

/* Forks an interpreter into the jail. As with jail_ask_start, `ret_id` is a command that is STARTED
 * or REFUSED, is signalled and killed by its id, and EXITS. `fds` are its line (a stream socket),
 * its output and its errors. Of the command `env` and `cwd` are used, and `memory_fd`, a sealed
 * file that a fork of `zygote` has written: the interpreter continues from there, or, when that
 * is impossible, is a fresh one. It maps large parts of the file, or with `copies_memory` reads all
 * of it into memory that the jail's group is charged for. Without it the interpreter is a fork of
 * the same zygote as the jail's others.
 *
 * REFUSED as UNAVAILABLE: there is no zygote, or it is not ready or died just now; as
 * UNSUPPORTED: the jail has its own root, or its own packages with names that the zygote has
 * imported. Both leave the jail unchanged: ask for a fork of the plain zygote, or start the
 * interpreter from its executable then. */
int jail_ask_fork(struct jail *jail, const struct jail_command *command, const int fds[3],
                  uint32_t *ret_id, struct err *err) MUST_USE;
