#pragma once

/* A locked process that holds the isolates of one tenant: the outer wall.
 *
 * It is forked, not executed, so it must be made by a process without threads (the warden, the
 * CLI). It keeps one socket and a filter of a few system calls; it is killed from here when it does
 * not answer in time. The calls below block and belong to one thread. */

#include "isolate/isolate.h"

struct err;
struct worker;

struct worker_options {
    const char *const *bridges; /* names for `api`; ends with NULL; NULL for none */
    int cpu;                    /* to stay on with its caller; -1 for any */
};

/* Waits until the worker is locked and ready. */
int worker_start(const struct worker_options *options, struct worker **ret_worker,
                 struct err *err) MUST_USE;
/* One that somebody else made and will reap, by its socket; takes `fd`. */
struct worker *worker_adopt(int fd) MUST_USE;
/* Kills and reaps what was started here. */
struct worker *worker_free(struct worker *worker);
DEFINE_FREEP(worker)
#define AUTO_WORKER AUTO(worker_freep)

int worker_pid(const struct worker *worker);
bool worker_is_dead(const struct worker *worker); /* start another one */
uint64_t worker_runs(const struct worker *worker);

/* What the surroundings do for a run. `bridge` may answer by worker_answer before it returns or
 * later, or give false and why not. */
struct worker_host {
    void *user;
    void (*console)(void *user, enum isolate_stream stream, struct str text);
    bool (*bridge)(void *user, struct worker *worker, uint64_t call, struct str name,
                   struct str args_json, const char **ret_why);
};

/* In a fresh isolate that ends with the run (isolate 0), or in one that was opened. A worker that
 * had to be killed gives a result too: timeout or crash; it is dead then. */
int worker_run(struct worker *worker, uint32_t isolate, const struct isolate_limits *limits,
               const struct isolate_call *call, const struct worker_host *host,
               struct isolate_result *ret_result, struct err *err) MUST_USE;
int worker_answer(struct worker *worker, uint64_t call, bool ok, struct str json,
                  struct err *err) MUST_USE;

/* Isolates that stay, by number. */
int worker_open(struct worker *worker, const struct isolate_limits *limits, uint32_t *ret_isolate,
                struct err *err) MUST_USE;
int worker_close(struct worker *worker, uint32_t isolate, struct err *err) MUST_USE;
int worker_fork(struct worker *worker, uint32_t isolate, uint32_t *ret_copy,
                struct err *err) MUST_USE;
int worker_pause(struct worker *worker, uint32_t isolate, struct buf *out,
                 struct err *err) MUST_USE;
int worker_resume(struct worker *worker, struct str bytes, const struct isolate_limits *limits,
                  uint32_t *ret_isolate, struct err *err) MUST_USE;
int worker_checkpoint(struct worker *worker, uint32_t isolate, uint32_t *ret_checkpoint,
                      struct err *err) MUST_USE;
int worker_rollback(struct worker *worker, uint32_t isolate, uint32_t checkpoint,
                    struct err *err) MUST_USE;

/* The worker's own side: serves `fd` until it closes. Never returns. Used by worker_start. */
NORETURN void worker_serve(int fd, const struct worker_options *options);
