#pragma once

/* One run of code in a context, for run.c (its course) and packages.c (what is installed
 * for it). */

#include "tiers/jail/code/interpreter.h"

/* run_go makes each move, and asserts that it is one of those in run.c. */
enum run_phase {
    QUEUED,     /* another run of the context is under way */
    INSTALLING, /* packages are installed, before the code or for its next try */
    LISTING,    /* of the files before the code; starts an interpreter if needed */
    RUNNING,    /* the interpreter has the code */
    JUDGING,    /* the interpreter has died; the warden is asked whether memory was short */
    COMPARING,  /* the files are listed after the code */
};

struct noting;

/* The warden is asked why the interpreter died. */
struct judging {
    struct run *run; /* NULL: it has been answered meanwhile */
};

struct run {
    struct run *next;
    struct context *context;
    const struct eval_spec *spec; /* lives as long: the engine keeps it */
    struct eval_calls calls;
    void *ctx;
    enum run_phase phase;
    struct run_output output;
    struct listing_op *listing;
    struct listing *before;
    struct judging *judging;
    struct install *install;
    struct noting *noting; /* the note of what is installed is read or written */
    bool is_retry;         /* the code runs once more, with the package it missed */
    int64_t began_ns;
    bool is_late, is_interrupted;
    bool is_stopped, is_dropping; /* its output waits, or is dropped */
    int repeats;                  /* of the interrupt */
    int64_t deadline_ms;          /* INT64_MAX: none */
};

/* run.c */

/* The answer, then the next run. The context may be gone when this returns: it is the last thing
 * that a caller does. The same holds for run_compare, run_look_before and run_hand_over. */
void run_finish(struct run *run, const struct err *why);
/* Another phase. */
void run_go(struct run *run, enum run_phase phase);
/* The code is done with: what it changed is found, and it is finished. */
void run_compare(struct run *run);
/* Lists the files as they are, then hands the code over. */
void run_look_before(struct run *run);
void run_hand_over(struct run *run);
/* Out of time: what became of the code, then by which limit, and how to change it. */
void run_end_late(struct run *run, const char *what);
/* Its time counts from now. */
void run_set_deadline(struct run *run);
void run_tell_output(struct run *run, const struct interpreter_event *event);

/* packages.c */

/* False: nothing is missing. Else the run continues, or ends, once the installation is done. */
bool packages_add_required(struct run *run) MUST_USE;
/* True when the code will run once more with a package that it missed. */
bool packages_add_missing(struct run *run) MUST_USE;
/* Stops an installation in progress, without a result. */
void packages_leave(struct run *run);
/* The same, and ends the run so. */
void packages_give_up(struct run *run, enum run_status status, const char *name,
                      const char *message);
