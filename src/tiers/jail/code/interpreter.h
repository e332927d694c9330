#pragma once

/* Interpreters of a jail on the loop, for interpreter.c (the process), run.c (what it runs),
 * context.c (what can be asked about it) and listing.c (files that a run changed). */

#include "runtime/output.h"
#include "runtime/runtimes.h"
#include "tiers/jail/code/context_state.h"
#include "tiers/jail/place.h"

struct run;

/* What its timer waits for. */
enum context_wait {
    WAIT_NOTHING,
    WAIT_DEADLINE, /* of the run; then it is interrupted */
    WAIT_HEARING,  /* a shell must handle the caller's interrupt; then it is sent again */
    WAIT_GRACE,    /* the code must end after the interrupt; then the process is killed */
    WAIT_DEATH,    /* of the process; then it is given up */
    WAIT_INSTALL,  /* of packages; then that is given up */
    WAIT_LISTING,  /* of what the run has changed; then it is not reported */
};

/* An interpreter, or the slot for one. `interpreter` is set while its process exists. */
struct context {
    struct asked_op op; /* first: the process' events */
    struct hold hold;   /* by `again`, and during call-backs */
    struct context *next;
    struct place *place; /* NULL once the place has ended, or it was deleted */
    struct arena arena;
    struct str id, cwd;
    const struct runtime *runtime;
    struct engine_pairs env;
    int64_t created_ms;
    struct interpreter *interpreter;
    struct watch *watches[3];
    int inner[3]; /* its ends, in PROCESS_ASKED; else -1 */
    enum process_state process;
    enum line_state line;
    bool is_fork;   /* of a zygote; where that cannot be, its program is started instead */
    bool is_killed; /* it shall be, as soon as it has started */
    bool has_state; /* the interpreter has been handed code, or has come with variables */
    int signal;     /* that ended it */
    struct timer *timer;
    enum context_wait wait;
    struct loop_task again; /* there is more to take */
    bool is_posted;         /* `again` is, and holds it */
    /* context_pump does nothing: a caller further up handles its events. It says nothing about the
     * lifetime, which is `hold`. */
    bool is_pumping;
    struct run *runs; /* the first is under way */
    uint32_t run_count;
    struct excerpt late[2]; /* stdout and stderr between two runs, for the next run */
    /* live.c */
    struct live_part *copying;       /* its memory is being written there */
    enum memory_state memory;        /* where its variables come from */
    int memory_fd;                   /* saved state to continue from, until the start; -1: none */
    uint32_t zygote;                 /* and whose fork had it */
    char reason[CONTEXT_REASON_MAX]; /* MEMORY_LOST: why */
    enum quiescent_state quiescent;
};

/* interpreter.c */

/* Starts the process. */
int context_start(struct context *context, struct err *err) MUST_USE;
/* Takes what the interpreter has said; stops while a run's output is not wanted. The context may be
 * gone afterwards. */
void context_pump(struct context *context);
/* To its process group; nothing happens without one. */
void context_signal(struct context *context, int signo);
/* Ends the process and all its descendants. Its last event follows. */
void context_kill(struct context *context);
/* Lets go of the process; it is killed when it still runs. */
void context_drop_interpreter(struct context *context);
/* Frees it now, or when it is no longer held. */
void context_free(struct context *context);
/* The end of a hold. False: it was freed meanwhile. */
bool context_release(struct context *context);

/* What its programs find in their environment; NULL behind the last. */
const char **context_env(const struct context *context, struct arena *arena);

/* Its interpreter has exited or is about to: tells the engine that its variables are lost. Does
 * nothing when it had none. LOSS_NONE: the caller requested it. */
void context_lose(struct context *context, enum loss_reason reason);

/* live.c: called by interpreter.c. */
void live_on_copied(struct context *context, const struct interpreter_event *event);
void live_on_ready(struct context *context, const struct interpreter_event *event);
void live_on_word(struct context *context, const struct interpreter_event *event);
void live_on_death(struct context *context);

/* quiesce.c: called by interpreter.c. */
void quiesce_on_answer(struct context *context, bool ok);
void quiesce_on_death(struct context *context);

/* install.c */
struct install;
typedef void install_done(void *ctx, const struct err *why);
/* `done` comes once, not from within this call, unless it fails: FORBIDDEN without a network. */
int install_start(struct context *context, const struct str *packages, size_t count,
                  install_done *done, void *ctx, struct install **ret_install,
                  struct err *err) MUST_USE;
void install_stop(struct install *install); /* `done` does not come any more */

/* run.c: called by interpreter.c. */
void runs_on_event(struct context *context, const struct interpreter_event *event);
/* The process has exited. `why`: it did not start, or its jail has ended. */
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

/* context.c. Finds the named context, or the runtime's default one, which is created if
 * missing. */
struct context *context_find(struct place *place, struct str id, struct str runtime,
                             struct str language, struct err *err);
/* One by that name, new or without its interpreter. NULL with LIMIT. */
struct context *context_make(struct place *place, struct str id, const struct runtime *runtime,
                             struct err *err);

/* listing.c: the files below /workspace, as they are now. */
struct listing;
typedef void listing_done(void *ctx, struct listing *listing);
/* `done` gets what is the caller's to free, or NULL when they could not be listed. */
struct listing_op *listing_start(struct place *place, listing_done *done, void *ctx);
void listing_forget(struct listing_op *op); /* `done` does not come any more */
struct listing *listing_free(struct listing *listing);
/* The listing after the last run, if no other operation has run since; otherwise NULL. */
struct listing *listing_take(struct place *place);
void listing_keep(struct place *place, struct listing *listing); /* takes it */
void listing_compare(const struct listing *before, const struct listing *after,
                     struct run_output *output);
