#pragma once

/* One run of code in a context, for jail_run.c (its course) and jail_packages.c (what is installed
 * for it). */

#include "engine/jail_kernel.h"

enum run_phase { QUEUED, INSTALLING, LISTING, RUNNING, JUDGING, COMPARING };

struct judging;
struct noting;

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
    int64_t began_ns, timeout_ms;
    bool is_late, is_interrupted;
    bool is_stopped, is_dropping; /* its output waits, or is for nobody */
    int repeats;                  /* of the interrupt */
    int64_t deadline_ms;
};

/* jail_run.c */

/* The answer, then the next run. The context may be gone when this returns: it is the last thing
 * that a caller does. So it is with all that can lead there: compare, look_before, hand_over. */
void run_finish(struct run *run, const struct err *why);
/* The code is done with: what it changed is found, and it is finished. */
void run_compare(struct run *run);
/* Lists the files as they are, then hands the code over. */
void run_look_before(struct run *run);
void run_hand_over(struct run *run);
/* Its time counts from now. */
void run_set_deadline(struct run *run);
void run_tell_output(struct run *run, const struct kernel_event *event);

/* jail_packages.c */

/* False: nothing is missing. Else the run goes on, or ends, when it is there. */
bool packages_add_required(struct run *run) MUST_USE;
/* True when the code shall be run once more with a package that it misses. */
bool packages_add_missing(struct run *run) MUST_USE;
/* Stops an installation under way: nothing comes of it any more. */
void packages_leave(struct run *run);
/* The same, and ends the run so. */
void packages_give_up(struct run *run, enum run_status status, const char *name,
                      const char *message);
