#pragma once

/* Where a program with threads gets its workers from: one small process with one thread, which has
 * the engine and its template ready and forks a worker when asked.
 *
 * It is not the warden. The warden has privileges and so stays small and never maps the engine;
 * the nursery has the engine and so gives up every privilege at its start. It reads nothing from
 * tenants, and when it ends, its workers end with it.
 *
 * Nothing here blocks but nursery_start, which waits for a fork. One thread. */

#include "isolate/worker.h"

struct nursery;

/* argv[0] of the program that nursery_start executes: its main calls nursery_main then. */
#define NURSERY_NAME "sandglass-nursery"

struct nursery_options {
    const char *const *bridges; /* names for `api`; ends with NULL; NULL for none */
    /* Executed anew, so that nothing of this process is in the workers' memory: "/proc/self/exe"
     * when main calls nursery_main. NULL only forks, which a process with threads must not. */
    const char *program;
};

int nursery_start(const struct nursery_options *options, struct nursery **ret_nursery,
                  struct err *err) MUST_USE;
/* Ends it, and with it its workers. */
struct nursery *nursery_free(struct nursery *nursery);
DEFINE_FREEP(nursery)
#define AUTO_NURSERY AUTO(nursery_freep)

/* Asks for one worker. UNAVAILABLE when the nursery has gone. */
int nursery_ask(struct nursery *nursery, struct err *err) MUST_USE;
/* 1 with a worker that was asked for (it may still be locking itself: requests wait for it), 0 when
 * none is there yet, -1 when one could not be made (the reason), or with UNAVAILABLE when the
 * nursery has gone. */
int nursery_next(struct nursery *nursery, struct worker **ret_worker, struct err *err) MUST_USE;
/* Readable when nursery_next has something. */
int nursery_fd(const struct nursery *nursery);
int nursery_pid(const struct nursery *nursery);

/* The nursery's own side: serves the socket NURSERY_FD until it closes; gives the exit code. */
enum { NURSERY_FD = 3 };
int nursery_main(void);
