#pragma once

/* Checkpoint and rollback of a sandbox while its jail runs.
 *
 * The commands are frozen for the moment (about a millisecond, more on a loaded machine), the disk
 * is changed, the root is exchanged under them. `plan` is the one the jail was made with. BUSY: a
 * command has a file of the layer open for writing or works in a directory of it; nothing has
 * changed then. What a command has open for reading it keeps, as it was. Volumes, /tmp and memory
 * are not part of a checkpoint. */

#include "jail/jail.h"
#include "jail/layers.h"

int layers_checkpoint_live(struct layers *layers, const char *id, struct jail *jail,
                           const struct jail_plan *plan, uint32_t *ret_number,
                           struct err *err) MUST_USE;
int layers_rollback_live(struct layers *layers, const char *id, uint32_t number, struct jail *jail,
                         const struct jail_plan *plan, struct err *err) MUST_USE;
