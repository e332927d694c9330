#pragma once

/* Kernels by fork: a zygote is an interpreter that has imported its packages and waits. It keeps
 * copies of itself ahead, embryos, each of which becomes one kernel in a jail, where it is fenced
 * in like any command before it reads the first byte that concerns a tenant.
 *
 *   zygote ─fork─► embryo, waits
 *   warden ── ZYGOTE_FORK ──► zygote ──► embryo, enters the groups and namespaces of the jail
 *                                          └─► is in its pid namespace
 *                                                └─► the kernel, init's child
 *
 * The three have the memory of the embryo, and only the kernel stays. The two between never have
 * the jail's user id, so nobody in there can stop, kill or look into them, and they are gone before
 * the kernel does a tenant's work. When the second is gone, the kernel is a child of the jail's
 * init.
 *
 * A kernel's *birth* is a packet socket between the kernel and init. The caller has put the
 * environment and the working directory into it: the zygote hands it on unread and so never holds
 * anything of a tenant. The kernel says INIT_STARTED on it, or why not; later init sends one byte
 * for each signal. The kernel's Landlock domain is not init's, so init may not signal it itself. */

#include "base/str.h"

struct err;

enum zygote_message {
    ZYGOTE_FORK = 1,    /* score for the out-of-memory killer; is the root an overlay, pids, nofile,
                         * places it may write to; descriptors as below */
    ZYGOTE_READY = 128, /* names that could not be imported */
    ZYGOTE_FORKED,      /* the jail has been entered, or will not be */
    ZYGOTE_BROKEN,      /* err: last message of all */
};

/* Descriptors of ZYGOTE_FORK: these, then those of the jail's groups to write oneself into. */
enum { ZYGOTE_BIRTH, ZYGOTE_INIT, ZYGOTE_LINE, ZYGOTE_OUT, ZYGOTE_ERR, ZYGOTE_DOORS };

/* Where a zygote finds its socket and its /proc/self. */
enum { ZYGOTE_CONTROL_FD = 3, ZYGOTE_PROC_FD = 4 };

/* What the interpreter does around a fork: `before` and `after` in who forks, `born` in the copy,
 * which does what a first cell does when it has the time. `awake` comes first in the new kernel:
 * `env` is its environment as "K=V" with a NUL behind each; when it fails, there is none. `serve`
 * is all of its life then, `line` its socket. */
struct zygote_hooks {
    void (*before)(void);
    void (*after)(void);
    void (*born)(void);
    void (*rehearse)(void);
    int (*awake)(struct str env, struct err *err);
    int (*serve)(int line, struct err *err);
};

/* All of a zygote's life, from `missing` told in ZYGOTE_READY until the warden closes the line. */
int zygote_serve(const char *missing, const struct zygote_hooks *hooks, struct err *err) MUST_USE;
/* In a kernel, between two cells: zygote_image_write for it. */
int zygote_copy_kernel(int fd, uint64_t limit, struct err *err) MUST_USE;
/* In place of that: says what went wrong. */
void zygote_say_broken(const struct err *why);
