#pragma once

/* Checkpoint, rollback and fork of a sandbox while its jail runs.
 *
 * The commands are frozen for the moment (about a millisecond, more on a loaded machine), the disk
 * is changed, the root is exchanged under them. `plan` is the one the jail was made with. BUSY: a
 * command has a file of the layer open for writing or works in a directory of it; nothing has
 * changed then. What a command has open for reading it keeps, as it was. Volumes, /tmp and memory
 * are not part of a checkpoint. A file operation that is under way inside (jail/files.h) began at
 * the old root and would be refused there with EROFS, and a watch would see nothing any more: none
 * may be under way.
 *
 * Whoever may wait uses layers_*_live. An event loop takes the steps one by one: those that touch
 * the disk on a worker, the other one between two events of its warden.
 *
 *     layers_begin_checkpoint or layers_begin_rollback    worker; the disk has the new stack
 *     jail_ask_relayer(jail, &move.plan, ...)             loop; the jail follows, or says why not
 *     layers_keep, or layers_undo when it did not         worker
 *     layers_reclaim                                      worker, later; may take long
 *
 * A fork of a running sandbox is a checkpoint and a layers_fork of its number. To pause one is
 * jail_ask_freeze. After a crash between the steps layers_recover finds the new stack, and the jail
 * is gone. */

#include "base/arena.h"
#include "jail/jail.h"
#include "jail/layers.h"

/* A change under way; plain data, owned by whoever takes the step. */
struct layers_move {
    char id[LAYERS_ID_SIZE];
    uint32_t number;       /* of the checkpoint that was made or is gone back to */
    struct jail_plan plan; /* that the jail shall follow; its new strings are in `arena` */
    struct arena arena;
};
void layers_move_done(struct layers_move *move);
#define AUTO_MOVE AUTO(layers_move_done)

int layers_begin_checkpoint(struct layers *layers, const char *id, const struct jail_plan *plan,
                            struct layers_move *ret_move, struct err *err) MUST_USE;
int layers_begin_rollback(struct layers *layers, const char *id, uint32_t number,
                          const struct jail_plan *plan, struct layers_move *ret_move,
                          struct err *err) MUST_USE;
/* The jail follows: what the stack needs no more goes to the trash. */
int layers_keep(struct layers *layers, const struct layers_move *move, struct err *err) MUST_USE;
/* The jail stays where it was, and so does the disk. */
int layers_undo(struct layers *layers, const struct layers_move *move, struct err *err) MUST_USE;

int layers_checkpoint_live(struct layers *layers, const char *id, struct jail *jail,
                           const struct jail_plan *plan, uint32_t *ret_number,
                           struct err *err) MUST_USE;
int layers_rollback_live(struct layers *layers, const char *id, uint32_t number, struct jail *jail,
                         const struct jail_plan *plan, struct err *err) MUST_USE;
