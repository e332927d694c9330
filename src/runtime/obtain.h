#pragma once

/* Runtimes that the host does not have, brought into the data directory:
 *
 *   runtimes/trees/NAME     programs of a package; every jail sees them at RUNTIME_TREES/NAME
 *   runtimes/roots/NAME     a whole system: the root of its own jails
 *   runtimes/incoming/      what is under way: downloads, trees, one lock for each name
 *
 * A runtime is there or it is not: its tree is made elsewhere and moved to its place at the end,
 * read-only by then. A package is known by the digest in our table before anybody looks into it,
 * and it is unpacked in a jail. What breaks off is taken up again by the next call.
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
};

/* True when it is there; `version` takes the one that was added, or "". */
bool runtime_added(const struct runtime *runtime, const char *data_dir,
                   char version[RUNTIME_VERSION_SIZE]);
/* The directory that it has or would have. */
void runtime_dir(const struct runtime *runtime, const char *data_dir, char out[RUNTIME_PATH_MAX]);

/* Adds it, or does nothing (`ret_added` false) when this version is there. INVALID for a runtime of
 * the host and for a package whose digest is not ours, BUSY while another call adds the same. */
int runtime_add(const struct runtime *runtime, const struct obtain *how, bool *ret_added,
                struct err *err) MUST_USE;
/* Takes it away with what was left under way. NOT_FOUND when there is nothing of it. Kernels that
 * run keep the files they have open. */
int runtime_remove(const struct runtime *runtime, const char *data_dir, struct err *err) MUST_USE;
