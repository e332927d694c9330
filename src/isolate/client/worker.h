#pragma once

/* A locked process that holds the isolates of one tenant: the outer sandbox boundary.
 *
 * It is forked, not executed, so it must be made by a process without threads (the CLI, or a
 * spawner). It keeps one socket and a filter of a few system calls; it is killed from here when it
 * does not answer in time.
 *
 * A worker does one thing at a time. The calls named worker_begin_* start it and never block;
 * worker_next gives the results. worker_run and worker_open are the same with waiting in between. A
 * worker belongs to one thread. */

#include "base/err.h"
#include "isolate/inside/isolate.h"

struct worker;

struct worker_options {
    const char *const *bridges; /* names for `api`; ends with NULL; NULL for none */
};

/* Waits until the worker is locked and ready. */
int worker_start(const struct worker_options *options, struct worker **ret_worker,
                 struct err *err) MUST_USE;
/* A worker that another process made and will reap, by its socket; takes `fd`. */
struct worker *worker_adopt(int fd) MUST_USE;
/* Kills and reaps what was started here. */
struct worker *worker_free(struct worker *worker);
DEFINE_FREEP(worker)
#define AUTO_WORKER AUTO(worker_freep)

int worker_pid(const struct worker *worker);
bool worker_is_dead(const struct worker *worker); /* start another one */
/* Looks whether an idle one has died since it was last used. */
bool worker_has_gone(const struct worker *worker);
bool worker_is_busy(const struct worker *worker); /* something was begun and is not over */
uint64_t worker_runs(const struct worker *worker);

/* --- Without blocking --- */

/* Starts code in a fresh isolate that ends with the run (isolate 0), or in one that was opened.
 * BUSY while something else is under way, GONE when the worker has ended, TOO_LARGE for what does
 * not fit into a message. Each of these ends with one last event, however it goes. */
int worker_begin_run(struct worker *worker, uint32_t isolate, const struct isolate_limits *limits,
                     const struct isolate_call *call, struct err *err) MUST_USE;
/* Isolates that stay, by number, as long as the worker. These end with NUMBER, a pause with BYTES;
 * or with FAILED. */
int worker_begin_open(struct worker *worker, const struct isolate_limits *limits,
                      struct err *err) MUST_USE;
int worker_begin_pause(struct worker *worker, uint32_t isolate, struct err *err) MUST_USE;
int worker_begin_resume(struct worker *worker, struct str bytes,
                        const struct isolate_limits *limits, struct err *err) MUST_USE;

enum worker_event_type {
    WORKER_WAITS,   /* nothing now: ask again when the descriptor is ready, or at the due time */
    WORKER_CONSOLE, /* stream, text */
    WORKER_BRIDGE,  /* call, name, text (arguments, a JSON array): answer it now or later */
    WORKER_CANCEL,  /* call: it no longer needs an answer; one that is sent is ignored */
    /* The last ones. */
    WORKER_DONE,   /* result of a run; a worker that had to be killed gives one too */
    WORKER_NUMBER, /* number */
    WORKER_BYTES,  /* text: an image */
    WORKER_FAILED, /* err: what was begun could not be done */
};

/* Texts are borrowed until the next call for this worker. */
struct worker_event {
    enum worker_event_type type;
    enum isolate_stream stream;
    uint64_t call;
    uint32_t number;
    struct str name, text;
    struct isolate_result *result; /* the worker's own: use it before the next request */
    struct err err;
};

/* The next thing that has happened. Reads and writes what the socket takes without waiting, and
 * kills the worker when its time is over: call it when worker_fd is ready and at worker_due_ms.
 * Take what comes until WAITS or a last event; a worker cannot keep that up past its time. */
void worker_next(struct worker *worker, struct worker_event *ret_event);
/* To watch for reading, and for writing too when worker_writes says so after each worker_next.
 * -1 when the worker is dead. */
int worker_fd(const struct worker *worker);
/* Ends what it runs; its variables stay. May be called from a signal handler. */
void worker_interrupt(const struct worker *worker);
bool worker_writes(const struct worker *worker);
/* When to call worker_next at the latest, on the monotonic clock; -1 while nothing is begun. */
int64_t worker_due_ms(const struct worker *worker);

/* Answers a bridge call with JSON, or with {name, message, code} of an Error when not ok; also
 * between two runs of the isolate that made it, whose next run then finds it. Never blocks: what
 * the worker does not read yet is sent as worker_next is called. TOO_LARGE when too much waits
 * already; a short answer (WORKER_ANSWER_SHORT) is then still taken. */
enum { WORKER_ANSWER_SHORT = 4096 };
int worker_answer(struct worker *worker, uint64_t call, bool ok, struct str json,
                  struct err *err) MUST_USE;
/* The same with an Error that tells `why`, by its code. A worker that is gone needs no answer. */
void worker_answer_error(struct worker *worker, uint64_t call, const struct err *why);
/* Says no to a bridge call: a TypeError in the script. */
int worker_refuse(struct worker *worker, uint64_t call, const char *why, struct err *err) MUST_USE;

/* --- Waiting --- */

/* What the surroundings do for a run; any may be NULL. `bridge` may answer by worker_answer before
 * it returns or later, or give false and why not. `wait` works on answers until `fd` can be read
 * (or written, when `writes`), an answer was given or `ms` have passed; false when there is nothing
 * to work on. It may leave `fd` non-blocking. */
struct worker_host {
    void *user;
    void (*console)(void *user, enum isolate_stream stream, struct str text);
    bool (*bridge)(void *user, struct worker *worker, uint64_t call, struct str name,
                   struct str args_json, const char **ret_why);
    void (*cancel)(void *user, uint64_t call); /* its answer is not wanted any more */
    bool (*wait)(void *user, int fd, bool writes, int64_t ms);
};

int worker_run(struct worker *worker, uint32_t isolate, const struct isolate_limits *limits,
               const struct isolate_call *call, const struct worker_host *host,
               struct isolate_result *ret_result, struct err *err) MUST_USE;
int worker_open(struct worker *worker, const struct isolate_limits *limits, uint32_t *ret_isolate,
                struct err *err) MUST_USE;

/* --- The worker's own side --- */

/* Serves `fd` until it closes. Never returns. Without an `engine` it makes one for `options`. */
NORETURN void worker_serve(int fd, const struct worker_options *options,
                           struct isolate_engine *engine);
