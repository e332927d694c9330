#pragma once

/* Kernels of a jail on the loop, for jail_kernel.c (the process), jail_run.c (what it runs),
 * jail_context.c (what can be asked about it) and jail_changes.c (files that a run changed). */

#include "engine/jail_place.h"
#include "runtime/output.h"
#include "runtime/runtimes.h"

struct run;

/* What its timer waits for. */
enum context_wait {
    WAIT_NOTHING,
    WAIT_DEADLINE, /* of the run; then it is interrupted */
    WAIT_HEARING,  /* a shell is to hear the caller's interrupt; then it is told again */
    WAIT_GRACE,    /* the interrupt is to be heeded; then the process is killed */
    WAIT_DEATH,    /* of the process; then it is given up */
    WAIT_INSTALL,  /* of packages; then that is given up */
    WAIT_LISTING,  /* of what the run has changed; then it is not told */
};

/* An interpreter, or the place for one. `kernel` is there while its process is. */
struct context {
    struct asked_op op; /* first: the process' events */
    struct context *next;
    struct place *place; /* NULL once that has gone, or it was deleted */
    struct arena arena;
    struct str id, cwd;
    const struct runtime *runtime;
    struct engine_pairs env;
    int64_t created_ms;
    struct kernel *kernel;
    struct watch *watches[3];
    int inner[3]; /* its ends, until it is started */
    bool has_inner;
    bool is_fork;    /* of a template; where that cannot be, its program is started instead */
    bool is_asked;   /* `op` waits for events */
    bool is_started; /* the process runs, and signals reach it */
    bool is_line_gone, is_killed;
    bool is_ahead; /* started before it is known for whom */
    bool is_ready; /* it has said so */
    int signal;    /* that ended it */
    struct timer *timer;
    enum context_wait wait;
    struct loop_task again; /* there is more to take */
    bool is_posted, is_pumping, is_freed;
    struct run *runs; /* the first is under way */
    uint32_t run_count;
    /* jail_live.c */
    struct live_part *copying;       /* its memory is being written there */
    int memory_fd;                   /* that it is to go on from; -1: none */
    uint32_t template;               /* and whose fork had it */
    bool is_reviving;                /* it is about to do so */
    bool is_copy, is_live;           /* it came with a fork of its sandbox; with its variables */
    char reason[CONTEXT_REASON_MAX]; /* why without */
};

/* jail_kernel.c */

/* Starts the process. */
int context_start(struct context *context, struct err *err) MUST_USE;
/* Takes what the kernel has said; stops while a run's output is not wanted. The context may be gone
 * afterwards. */
void context_pump(struct context *context);
/* To its process group; nothing happens without one. */
void context_signal(struct context *context, int signo);
/* Ends the process and all its descendants. Its last event follows. */
void context_kill(struct context *context);
/* Lets go of the process; it is killed when it still runs. */
void context_drop_kernel(struct context *context);
/* Frees it, now or when context_pump is done with it. */
void context_free(struct context *context);

/* What its programs find in their environment; NULL behind the last. */
const char **context_env(const struct context *context, struct arena *arena);

/* jail_live.c: told by jail_kernel.c. */
void live_on_copied(struct context *context, const struct kernel_event *event);
void live_on_ready(struct context *context, const struct kernel_event *event);
void live_on_word(struct context *context, const struct kernel_event *event);
void live_on_death(struct context *context);

/* jail_install.c */
struct install;
typedef void install_done(void *ctx, const struct err *why);
/* `done` comes once, not from within this call, unless it fails: FORBIDDEN without a network. */
int install_start(struct context *context, const struct str *packages, size_t count,
                  install_done *done, void *ctx, struct install **ret_install,
                  struct err *err) MUST_USE;
void install_stop(struct install *install); /* `done` does not come any more */

/* jail_run.c: told by jail_kernel.c. */
void runs_on_event(struct context *context, const struct kernel_event *event);
/* The process is no more. `why`: it did not start, or its jail has gone. */
void runs_on_death(struct context *context, const struct err *why);
bool runs_want_output(const struct context *context);
/* An answer for all of them. */
void runs_fail(struct context *context, const struct err *why);
/* Ends what runs as `status` with that message, variables gone. */
void runs_restart(struct context *context, const char *message);
void runs_interrupt(struct context *context);
size_t runs_count(const struct context *context);
/* What was held back while the place was copied begins. */
void runs_go_on(struct context *context);

/* jail_context.c. Finds the one that is named, or the runtime's own, which is made when there is
 * none. */
struct context *context_find(struct place *place, struct str id, struct str runtime,
                             struct str language, struct err *err);
/* One by that name, new or without its interpreter. NULL with LIMIT. */
struct context *context_make(struct place *place, struct str id, const struct runtime *runtime,
                             struct err *err);

/* jail_changes.c: the files below /workspace, as they are now. */
struct listing;
typedef void listing_done(void *ctx, struct listing *listing);
/* `done` gets what is the caller's to free, or NULL when they could not be listed. */
struct listing_op *listing_start(struct place *place, listing_done *done, void *ctx);
void listing_forget(struct listing_op *op); /* `done` does not come any more */
struct listing *listing_free(struct listing *listing);
/* What the last run left, when nobody else has been at work since; else NULL. */
struct listing *listing_take(struct place *place);
void listing_keep(struct place *place, struct listing *listing); /* takes it */
void listing_compare(const struct listing *before, const struct listing *after,
                     struct run_output *output);
