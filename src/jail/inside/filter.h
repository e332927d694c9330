#pragma once

/* The system calls that tenant code may make: one table, compiled to a seccomp program.
 *
 * A call that is not in the table answers ENOSYS, as an older kernel would, so that libraries fall
 * back. The program is a binary search over ranges of numbers: the kernel runs it once per call
 * number when it is loaded, and a linear list would be the dearest step of a jail. */

#include "base/base.h"

struct err;
struct sock_filter;

enum { FILTER_INSNS_MAX = 1024 };

enum filter_action {
    FILTER_ALLOW,
    FILTER_EPERM,
    FILTER_ENOSYS,
    FILTER_EINVAL,
    FILTER_NOTHING, /* is not made, and answers as if it had been */
    FILTER_LAST_PLAIN = FILTER_NOTHING,
    /* By argument; filter_args.c says which values do what. */
    FILTER_CLONE,
    FILTER_SOCKET,
    FILTER_SOCKET_OPTION,
    FILTER_IOCTL,
    FILTER_FCNTL,
    FILTER_PRCTL,
    FILTER_PERSONALITY,
    FILTER_SCHEDULER,
    FILTER_SET_LIMIT,
    FILTER_LIMITS,
    FILTER_MAP,
    FILTER_MEMORY_FILE,
    FILTER_SHARED_MEMORY,
    FILTER_ADVISE,
    FILTER_BARRIER,
    FILTER_MKNOD,
    FILTER_MKNODAT,
};

struct filter_row {
    int nr;
    enum filter_action action;
    const char *name;
};

/* In no order; each number once. */
extern const struct filter_row filter_rows[];
extern const size_t filter_row_count;

/* Loading a filter takes the kernel longer the longer it is. So the init spawner that jails are
 * copied from already has the long part of the table, without the calls that setting up a jail
 * needs, and the copy adds the rest when its setup is complete. Both parts together refuse what the
 * whole table refuses. */
enum filter_part { FILTER_WHOLE, FILTER_EARLY, FILTER_LATE, FILTER_PARTS };

/* Writes at most FILTER_INSNS_MAX instructions and gives their number. */
size_t filter_compile(struct sock_filter *out, enum filter_part part);

/* Compiles ahead of time: children then inherit the program. */
void filter_prepare(enum filter_part part);

/* For every thread of this process, and for good. Needs no_new_privs or CAP_SYS_ADMIN. */
int filter_install(enum filter_part part, struct err *err) MUST_USE;
