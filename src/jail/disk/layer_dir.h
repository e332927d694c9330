#pragma once

/* Directories of the data directory that hold what tenants write: disks.c and volumes.c. */

#include "base/base.h"

struct err;

/* Follows no link. */
int layer_open_dir(int dir_fd, const char *name, struct err *err) MUST_USE;
/* The part `name` of the data directory, made if need be. */
int layer_open_part(const char *home, const char *name, struct err *err) MUST_USE;
/* `.trash` in it, created if missing. */
int layer_open_trash(int dir_fd, struct err *err) MUST_USE;
/* The owner on disk of what tenants write. If it were root, a file with the set-id bit would give
 * root to any user that can reach it; the jail's mounts map it to the jail's own id. */
uint32_t layer_owner(void);
int layer_give_away(uint32_t owner, int dir_fd, const char *name, struct err *err) MUST_USE;

/* Calls `each` for every entry but dots; stops at the first failure. */
int layer_each(int dir_fd, int (*each)(void *ctx, const char *name, struct err *err), void *ctx,
               struct err *err) MUST_USE;
