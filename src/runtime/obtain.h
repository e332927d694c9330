#pragma once

/* Runtimes that the host does not have, brought into the data directory:
 *
 *   runtimes/trees/NAME     programs of a package; every jail sees them at RUNTIME_TREES/NAME
 *   runtimes/roots/NAME     a whole system: the root of its own jails
 *   runtimes/incoming/      in progress: downloads, trees, one lock for each name
 *
 * A runtime is added completely or not at all: its tree is made elsewhere and moved to its place at
 * the end, read-only by then. A package is checked against the digest in our table before it is
 * opened, and it is unpacked in a jail. The next call continues what was interrupted.
 *
 * Calls wait; they are for commands, not for the daemon's loop. */

#include "runtime/runtimes.h"

struct obtain {
    const char *data_dir;
    const char *file;        /* a package that is here already, instead of a download; NULL: none */
    struct str npm_registry; /* empty: what npm uses here */
    /* What is being done now, and how far it is: `total` is 0 where that is not known. */
    void (*progress)(void *ctx, const char *step, uint64_t have, uint64_t total);
    void *ctx;
    /* Models only: fails when what was unpacked in `dir` is of no use. */
    int (*check)(const char *dir, struct err *err);
};

/* True when it is installed; `version` gets the version that was added, or "". */
bool runtime_added(const struct runtime *runtime, const char *data_dir,
                   char version[RUNTIME_VERSION_SIZE]);
/* The directory that it has or would have. */
void runtime_dir(const struct runtime *runtime, const char *data_dir, char out[RUNTIME_PATH_MAX]);

/* Adds it, or does nothing (`ret_added` false) when this version is installed. INVALID for a
 * runtime of the host and for a package whose digest is not ours, BUSY while another call adds the
 * same. */
int runtime_add(const struct runtime *runtime, const struct obtain *how, bool *ret_added,
                struct err *err) MUST_USE;
/* Removes a runtime, and what an interrupted installation has left. NOT_FOUND if nothing of it
 * exists. Running interpreters keep their open files. */
int runtime_remove(const struct runtime *runtime, const char *data_dir, struct err *err) MUST_USE;
