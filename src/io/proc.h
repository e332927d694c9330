#pragma once

/* Child programs by argument list, never through a shell. A child is known by its pidfd: a signal
 * cannot reach another process that reused the pid. It inherits the descriptors named here, default
 * signal actions, and nothing else. */

#include <stdatomic.h>

#include "io/loop.h"

struct proc;

enum { PROC_FDS_MAX = 16 };

/* What stands behind the child's 0, 1 and 2. Zero is /dev/null. */
enum proc_end { PROC_NULL, PROC_PIPE, PROC_INHERIT };

struct proc_fd {
    int ours;   /* borrowed */
    int childs; /* its number in the child, 3 or more */
};

struct proc_options {
    const char *program;     /* a path; not looked up in PATH */
    const char *const *argv; /* ends with NULL */
    const char *const *env;  /* ends with NULL; NULL for an empty environment */
    const char *cwd;         /* NULL keeps ours */
    enum proc_end in, out, err;
    const struct proc_fd *fds;
    size_t fd_count;
    bool new_session; /* setsid: its own process group, without our terminal */
};

struct proc_exit {
    int code;   /* 0 to 255, -1 when a signal ended it */
    int signal; /* 0 when it exited */
};

/* NOT_FOUND, FORBIDDEN, ... when the program cannot be started. `on_exit` comes once, later. */
int proc_start(struct loop *loop, const struct proc_options *options,
               void (*on_exit)(void *ctx, struct proc_exit how), void *ctx, struct proc **ret_proc,
               struct err *err) MUST_USE;
/* Kills a running child and waits for its end. */
struct proc *proc_free(struct proc *proc);
DEFINE_FREEP(proc)

/* Nothing happens when it has ended. */
void proc_kill(struct proc *proc, int signo);

/* Our end of a PROC_PIPE for the child's `which` (0, 1, 2). The first call passes it to the caller;
 * otherwise -1. */
int proc_take_pipe(struct proc *proc, int which);

/* Starts a child and waits for its end, without a loop: for workers of a pool. TIMEOUT after
 * `timeout_ms`, CANCELED soon after `stop` (may be NULL) became true: the child is killed then. */
int proc_run(const struct proc_options *options, int64_t timeout_ms, const atomic_bool *stop,
             struct proc_exit *ret_exit, struct err *err) MUST_USE;
