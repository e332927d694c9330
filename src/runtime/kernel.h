#pragma once

/* A kernel: a stateful interpreter that runs as a command of a jail and answers cells.
 *
 * Its standard input is the line to it (kernel/frame.h), its output comes through pipes. As with
 * jails, an event loop watches kernel_fds() and calls kernel_next() until it says that there is
 * nothing more. Output that was written before the end of a run is told before that end. One run at
 * a time; the jail tells when the process is gone, and so does the line (GONE). */

#include "base/err.h"
#include "base/str.h"

struct kernel;

enum {
    KERNEL_PARTS_MAX = 32,
    /* Of what it says at once while it runs code, and while it does not. What is longer is never
     * in memory: it is counted as it goes by. */
    KERNEL_KEPT_MAX = 17 << 20,
    KERNEL_IDLE_MAX = 64 << 10,
};

struct kernel_part {
    struct str mime, bytes;
};

enum kernel_event_type {
    KERNEL_READY,  /* `text`: its version; `live`: it goes on where another kernel was */
    KERNEL_STDOUT, /* `text`: bytes as they came, any number */
    KERNEL_STDERR,
    KERNEL_DISPLAY, /* `parts`, none when it was too long; `main`: of the last expression */
    KERNEL_ERROR,   /* `name`, `message`, `text`: the traceback; `module`: that is missing, or "" */
    KERNEL_DONE,    /* `count`: number of the run in this kernel; `ok`; `lost`: its variables are */
    KERNEL_COPIED,  /* `ok`, or `text`: why not */
    KERNEL_GONE,    /* `err` */
};

/* Views stay good until the next call. */
struct kernel_event {
    enum kernel_event_type type;
    struct str text, name, message, module;
    struct kernel_part parts[KERNEL_PARTS_MAX];
    size_t part_count;
    bool main, ok, live, lost;
    uint32_t count;
    struct err err;
};

/* Makes the three channels; the ends for jail_start come in `ret_inner` and are the caller's to
 * close once the command is started. */
int kernel_open(struct kernel **ret_kernel, int ret_inner[3], struct err *err) MUST_USE;
struct kernel *kernel_free(struct kernel *kernel);
DEFINE_FREEP(kernel)
#define AUTO_KERNEL AUTO(kernel_freep)

/* Line, standard output, standard error: readable when there may be news. -1: nothing will come. */
void kernel_fds(const struct kernel *kernel, int ret_fds[3]);
bool kernel_wants_write(const struct kernel *kernel); /* then watch the line for writing too */
/* Takes one event; false when there is none now. Never waits. */
bool kernel_next(struct kernel *kernel, struct kernel_event *ret_event);

/* Code for it to run, with variables of the environment for this run ("NAME=value", a NUL behind
 * each). BUSY while another runs; TOO_LARGE. */
int kernel_run(struct kernel *kernel, struct str code, struct str language, struct str env,
               struct err *err) MUST_USE;
/* Variables for all runs from here on, in the same form: for a kernel that was started before it
 * was known for whom. */
int kernel_set_env(struct kernel *kernel, struct str env, struct err *err) MUST_USE;
/* Has it write its memory to `fd`, which stays the caller's, at most `limit_mib` of it: COPIED says
 * how that went. It is busy until then. Only kernels of Python know the word. */
int kernel_copy(struct kernel *kernel, int fd, uint32_t limit_mib, struct err *err) MUST_USE;
bool kernel_is_busy(const struct kernel *kernel);
