#pragma once

/* The file state of a sandbox as a stack of trees: frozen layers below, one writable on top.
 *
 * A store is a directory: `top` takes the writes, `stack` names the frozen layers, lowest first. A
 * layer never changes once it is frozen, so any number of stores may name it. Freezing, going back
 * and forking move and name directories: no file is copied. No jail may run on the store
 * meanwhile, since its overlay still holds what is moved. */

#include "jail/plan.h"

struct err;

enum { LAYERS_NAME_SIZE = 27 };

struct layers {
    char dir[JAIL_PATH_MAX];
    char *paths[JAIL_LAYERS_MAX]; /* frozen, lowest first; absolute */
    size_t count;
};

/* Makes the directory with an empty top, or opens one that was made before. */
int layers_open(struct layers *layers, const char *dir, struct err *err) MUST_USE;
void layers_done(struct layers *layers);
#define AUTO_LAYERS AUTO(layers_done)

/* Lets the jails of this plan run on the store; the plan borrows. */
void layers_use(const struct layers *layers, struct jail_plan *plan);

/* Freezes what was written since; a new empty top goes above it. Gives the layer's name. */
int layers_checkpoint(struct layers *layers, char ret_name[LAYERS_NAME_SIZE],
                      struct err *err) MUST_USE;
/* Back to that checkpoint: what came later is dropped. NOT_FOUND when the stack has none such. What
 * is dropped waits in the directory `trash`, for a jail to delete: a tenant's tree is not for the
 * daemon to walk. */
int layers_rollback(struct layers *layers, const char *name, struct err *err) MUST_USE;
/* A new store at `dir` that begins where this one was at checkpoint `name`. */
int layers_fork(const struct layers *layers, const char *name, const char *dir,
                struct err *err) MUST_USE;
