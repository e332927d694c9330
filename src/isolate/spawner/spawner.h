#pragma once

/* Where a program with threads gets its workers from: one small process with one thread, which has
 * the engine and its template ready and forks a worker when asked.
 *
 * It is not the warden. The warden has privileges and so stays small and never maps the engine;
 * the spawner has the engine and so gives up every privilege at its start. It reads nothing from
 * tenants, and when it ends, its workers end with it.
 *
 * Nothing here blocks but spawner_start, which waits for a fork. One thread. */

#include "isolate/client/worker.h"

struct spawner;

/* argv[0] of the program that spawner_start executes: its main calls spawner_main then. */
#define SPAWNER_NAME "sandglass-spawner"

struct spawner_options {
    const char *const *bridges; /* names for `api`; ends with NULL; NULL for none */
    /* Executed again, so that nothing of this process is in the workers' memory: "/proc/self/exe"
     * when main calls spawner_main. NULL only forks, which a process with threads must not. */
    const char *program;
};

int spawner_start(const struct spawner_options *options, struct spawner **ret_spawner,
                  struct err *err) MUST_USE;
/* Ends it, and with it its workers. */
struct spawner *spawner_free(struct spawner *spawner);
DEFINE_FREEP(spawner)
#define AUTO_SPAWNER AUTO(spawner_freep)

/* Asks for one worker. UNAVAILABLE when the spawner has exited. */
int spawner_ask(struct spawner *spawner, struct err *err) MUST_USE;
/* 1 with a worker that was asked for (it may still be locking itself: requests wait for it), 0 when
 * none is ready yet, -1 when one could not be made (the reason), or with UNAVAILABLE when the
 * spawner has exited. */
int spawner_next(struct spawner *spawner, struct worker **ret_worker, struct err *err) MUST_USE;
/* Readable when spawner_next has something. */
int spawner_fd(const struct spawner *spawner);
int spawner_pid(const struct spawner *spawner);

/* The spawner's own side: serves the socket SPAWNER_FD until it closes; gives the exit code. */
enum { SPAWNER_FD = 3 };
int spawner_main(void);
