#pragma once

/* Kernels by fork: a zygote is an interpreter that has imported its packages and waits. For each
 * kernel it is copied into a jail, where the copy is fenced in like any command before it reads
 * the first byte that concerns a tenant.
 *
 *   warden ── ZYGOTE_FORK ──► zygote ─vfork─► enters the namespaces of the jail
 *                                                └─vfork─► is in its pid namespace
 *                                                             └─fork─► the kernel, init's child
 *
 * Of the three only the kernel has memory of its own, so one copy is made. The two between share
 * the zygote's while it waits for them; they never have the jail's user id, so nobody in there can
 * stop, kill or look into them, and they are not in its groups, so no limit of the jail holds them
 * up. When the second is gone, the kernel is a child of the jail's init, and enters its groups.
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
    ZYGOTE_FORKED,      /* err: code 0 when the kernel was born */
    ZYGOTE_BROKEN,      /* err: last message of all */
};

/* Descriptors of ZYGOTE_FORK: these, then those of the jail's groups to write oneself into. */
enum { ZYGOTE_BIRTH, ZYGOTE_INIT, ZYGOTE_LINE, ZYGOTE_OUT, ZYGOTE_ERR, ZYGOTE_DOORS };

/* Where a zygote finds its socket, the file of its own score and, until it is ready, its
 * /proc/self.
 */
enum { ZYGOTE_CONTROL_FD = 3, ZYGOTE_OOM_FD = 4, ZYGOTE_PROC_FD = 5 };

/* What the interpreter does around a fork. `awake` comes first in the new kernel: `env` is its
 * environment as "K=V" with a NUL behind each; when it fails, there is none. `serve` is all of its
 * life then, `line` its socket. */
struct zygote_hooks {
    void (*rehearse)(void); /* what a kernel's first cell does, in a process that ends then */
    void (*before)(void);
    void (*after)(void);
    int (*awake)(struct str env, struct err *err);
    int (*serve)(int line, struct err *err);
};

/* All of a zygote's life, from `missing` told in ZYGOTE_READY until the warden closes the line. */
int zygote_serve(const char *missing, const struct zygote_hooks *hooks, struct err *err) MUST_USE;
/* In a kernel, between two cells: zygote_image_write for it. */
int zygote_copy_kernel(int fd, uint64_t limit, struct err *err) MUST_USE;
/* In place of that: says what went wrong. */
void zygote_say_broken(const struct err *why);
