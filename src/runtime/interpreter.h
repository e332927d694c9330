#pragma once

/* An interpreter: a stateful process that runs as a command of a jail and executes cells.
 *
 * Its standard input is the line to it (kernel/frame.h), its output comes through pipes. As
 * with jails, an event loop watches interpreter_fds() and calls interpreter_next() until it says
 * that there is nothing more. Output that was written before the end of a run is reported before
 * that end. One run at a time; the jail reports when the process has exited, and so does the line
 * (GONE). */

#include "base/err.h"
#include "base/str.h"

struct interpreter;

enum {
    INTERPRETER_PARTS_MAX = 32,
    /* Of what it says at once while it runs code, and while it does not. What is longer is never
     * in memory: it is counted as it goes by. */
    INTERPRETER_KEPT_MAX = 17 << 20,
    INTERPRETER_IDLE_MAX = 64 << 10,
};

struct interpreter_part {
    struct str mime, bytes;
};

enum interpreter_event_type {
    INTERPRETER_READY, /* `text`: its version; `live`: it continues from another interpreter's state
                        */
    INTERPRETER_STDOUT, /* `text`: bytes as they came, any number */
    INTERPRETER_STDERR,
    INTERPRETER_DISPLAY, /* `parts`, none when it was too long; `main`: of the last expression */
    INTERPRETER_ERROR, /* `name`, `message`, `text`: the traceback; `module`: that is missing, or ""
                        */
    INTERPRETER_DONE, /* `count`: number of the run in this interpreter; `ok`; `lost`: its variables
                         are */
    INTERPRETER_COPIED,   /* `ok`, or `text`: why not */
    INTERPRETER_QUIESCED, /* `ok` */
    INTERPRETER_GONE,     /* `err` */
};

/* Views stay good until the next call. */
struct interpreter_event {
    enum interpreter_event_type type;
    struct str text, name, message, module;
    struct interpreter_part parts[INTERPRETER_PARTS_MAX];
    size_t part_count;
    bool main, ok, live, lost;
    uint32_t count;
    struct err err;
};

/* Makes the three channels; the ends for jail_start come in `ret_inner` and are the caller's to
 * close once the command is started. */
int interpreter_open(struct interpreter **ret_interpreter, int ret_inner[3],
                     struct err *err) MUST_USE;
struct interpreter *interpreter_free(struct interpreter *interpreter);
DEFINE_FREEP(interpreter)
#define AUTO_KERNEL AUTO(interpreter_freep)

/* Line, standard output, standard error: readable when there may be news. -1: nothing will come. */
void interpreter_fds(const struct interpreter *interpreter, int ret_fds[3]);
bool interpreter_wants_write(
    const struct interpreter *interpreter); /* then watch the line for writing too */
/* Takes one event; false if no event is available. Never waits. */
bool interpreter_next(struct interpreter *interpreter, struct interpreter_event *ret_event);

/* Code for it to run, with variables of the environment for this run ("NAME=value", a NUL behind
 * each). BUSY while another runs; TOO_LARGE. */
int interpreter_run(struct interpreter *interpreter, struct str code, struct str language,
                    struct str env, struct err *err) MUST_USE;
/* Variables for all runs from here on, in the same form: for an interpreter that was started before
 * it was known for whom. */
int interpreter_set_env(struct interpreter *interpreter, struct str env, struct err *err) MUST_USE;
/* Has it write its memory to `fd`, which stays the caller's, at most `limit_mib` of it: COPIED says
 * how that went. It is busy until then. Only interpreters of Python know the word. */
int interpreter_copy(struct interpreter *interpreter, int fd, uint32_t limit_mib,
                     struct err *err) MUST_USE;
/* Has it leave its working directory, so that the root below it can be exchanged: QUIESCED says
 * whether it did. Not while it is busy. Only interpreters of Python know the word. */
int interpreter_quiesce(struct interpreter *interpreter, struct err *err) MUST_USE;
/* It goes back, also when it has not answered yet. */
void interpreter_go_back(struct interpreter *interpreter);
bool interpreter_is_busy(const struct interpreter *interpreter);
