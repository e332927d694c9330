#pragma once

/* The states of an interpreter's process, of the line to it, and of its stay outside the jail's
 * root. Each move is made by a function below, which asserts that the tables of context_state.c
 * have it. */

struct context;

/* The process of a context. */
enum process_state {
    PROCESS_NONE,    /* not asked for */
    PROCESS_ASKED,   /* `op` waits for events; it does not run yet */
    PROCESS_STARTED, /* it runs, and signals reach it */
    PROCESS_ENDED,   /* exited, refused, or its jail has ended; its last output may be unread */
};

/* The line between the daemon and the interpreter. */
enum line_state {
    LINE_NONE,
    LINE_OPEN,  /* the interpreter has not said that it is ready */
    LINE_READY, /* it takes requests */
    LINE_GONE,  /* closed by the interpreter: it is of no use any more */
};

/* See quiesce.c. */
enum quiescent_state {
    QUIESCENT_NO,
    QUIESCENT_ASKED, /* asked to leave its working directory; it has not answered */
    QUIESCENT_YES,   /* it has, or its answer comes too late; not yet asked to go back */
};

/* The process was asked for, started, ended, or is let go of. */
void context_set_process(struct context *context, enum process_state state);
void context_set_line(struct context *context, enum line_state state);
void context_set_quiescent(struct context *context, enum quiescent_state state);
