#pragma once

/* Interpreters by fork: a zygote is an interpreter that has imported its packages and waits. It
 * keeps copies of itself ahead, preforks, each of which becomes one interpreter in a jail, where it
 * is isolated like any command before it reads the first byte that concerns a tenant.
 *
 *   zygote ─fork─► prefork, waits
 *   warden ── ZYGOTE_FORK ──► zygote ──► prefork, enters the groups and namespaces of the jail
 *                                          └─► is in its pid namespace
 *                                                └─► the interpreter, init's child
 *
 * The three have the memory of the prefork, and only the interpreter stays. The two between never
 * have the jail's user id, so no process of the jail can stop, kill or inspect them, and they exit
 * before the interpreter does a tenant's work. When the second has exited, the interpreter is a
 * child of the jail's init.
 *
 * The *start socket* is a packet socket between an interpreter and init. The caller has put
 * the environment and the working directory into it: the zygote hands it on unread and so never
 * holds anything of a tenant. The interpreter says INIT_STARTED on it, or why not; later init sends
 * one byte for each signal. The interpreter's Landlock domain is not init's, so init may not signal
 * it itself. */

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
enum { ZYGOTE_START_SOCKET, ZYGOTE_INIT, ZYGOTE_LINE, ZYGOTE_OUT, ZYGOTE_ERR, ZYGOTE_GROUPS };

/* Where a zygote finds its socket and its /proc/self. */
enum { ZYGOTE_CONTROL_FD = 3, ZYGOTE_PROC_FD = 4 };

/* What the interpreter does around a fork: `before` and `after` in the process that forks,
 * `in_child` in the copy, which does the work of a first cell when it has the time. `awake` is
 * called first in the new interpreter: `env` is its environment as "K=V" with a NUL after each;
 * when it fails, there is no interpreter. `serve` then runs until the interpreter ends, `line` is
 * its socket. */
struct zygote_hooks {
    void (*before)(void);
    void (*after)(void);
    void (*in_child)(void);
    void (*rehearse)(void);
    int (*awake)(struct str env, struct err *err);
    int (*serve)(int line, struct err *err);
};

/* Runs a zygote: from ZYGOTE_READY, which carries `missing`, until the warden closes the
 * connection. */
int zygote_serve(const char *missing, const struct zygote_hooks *hooks, struct err *err) MUST_USE;
/* In an interpreter, between two cells: zygote_image_write for it. */
int zygote_copy_interpreter(int fd, uint64_t limit, struct err *err) MUST_USE;
/* In place of that: says what went wrong. */
void zygote_say_broken(const struct err *why);
